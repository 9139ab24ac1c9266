"""Random arrays for the inputs of a network: what checks and explorations feed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.graph.index_limits import index_limits
from autotune.operators.tensor import NUMPY, TensorType


def draw_array(kind: TensorType, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Draw standard normal numbers; integers and booleans are 0 or 1, which every look-up has."""
    if kind.dtype.is_float:
        normal = rng.standard_normal(kind.shape, dtype=np.float32)
        return np.asarray(normal.astype(NUMPY[kind.dtype], copy=False))
    return np.asarray(rng.integers(0, 2, kind.shape).astype(NUMPY[kind.dtype]))


def draw_graph_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Draw an array for every input of a graph, with indices that every extent has."""
    arrays = {x: draw_array(graph.types[x], rng) for x in graph.inputs}
    for limit in index_limits(graph):
        if limit.extents.min() < 2:  # drawn are 0 and 1
            arrays[limit.input] = np.zeros_like(arrays[limit.input])
    return arrays
