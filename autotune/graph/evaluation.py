"""Evaluation of a graph by the reference semantics: the oracle of every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.operators.families import evaluate_op
from autotune.operators.tensor import Array


def evaluate(
    graph: Graph, inputs: Mapping[str, Array], before_op: Callable[[], None] | None = None
) -> dict[str, Array]:
    """Run the whole graph; returns output name to array.

    ``before_op`` is called before each operator; what it raises ends the evaluation. Raises
    ``InputError`` when an input is missing, unknown, or has another shape than declared.
    """
    values = dict(graph.constants)
    values.update(check_inputs(graph, inputs))
    readers = {name: len(ops) for name, ops in graph.consumers.items()}
    for op in graph.ops:
        if before_op is not None:
            before_op()
        values[op.output] = evaluate_op(op, [values[x] for x in op.inputs])
        for x in dict.fromkeys(op.inputs):
            readers[x] -= 1
            if readers[x] == 0 and x not in graph.outputs:
                del values[x]
    return {name: np.asarray(values[name]) for name in graph.outputs}


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the fed arrays as float32.

    Raises ``InputError`` unless names and shapes are those of the graph's inputs.
    """
    for name in inputs:
        if name not in graph.inputs:
            raise InputError(f"{graph.name}: no input {name!r}; inputs are {list(graph.inputs)}")
    fed: dict[str, Array] = {}
    for name in graph.inputs:
        if name not in inputs:
            raise InputError(
                f"{graph.name}: input {name!r} is missing; feed shape {graph.shape(name)}"
            )
        fed[name] = np.asarray(inputs[name], dtype=np.float32)
        if fed[name].shape != graph.shape(name):
            raise InputError(
                f"{graph.name}: input {name!r} has shape {fed[name].shape}, not {graph.shape(name)}"
            )
    return fed
