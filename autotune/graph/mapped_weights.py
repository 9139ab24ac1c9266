"""Weights in the mapped model file: passes never copy them; this gives them memory of their own.

Versions of a network with open dimensions share weights in memory that is the model's own already.
"""

from __future__ import annotations

import numpy as np

from autotune.graph.graph import Graph
from autotune.operators.tensor import Array


def copy_mapped_weights(graph: Graph) -> Graph:
    """Return the graph without its file: every weight aligned and in private memory."""
    parts = {x: value for x, value in graph.constants.items() if _is_part_of_file(value)}
    if not parts:
        return graph
    constants = {**graph.constants, **{x: value.copy("K") for x, value in parts.items()}}
    return Graph(graph.name, graph.ops, graph.types, graph.inputs, graph.outputs, constants)


def _is_part_of_file(value: Array) -> bool:
    base: object = value
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview) and not isinstance(base.obj, np.ndarray)
