"""A graph as an ONNX model, for systems that read nothing else."""

from __future__ import annotations

import numpy as np

from autotune.frontend.export.nodes import write
from autotune.frontend.export.writer import NodeWriter
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind


def export_model(graph: Graph) -> bytes:
    """Return a graph as a serialized ONNX model; inputs and outputs keep their names and order.

    Tensors are float32, row numbers of Gather int64. Raises ``ModelError`` for an operator that ONNX
    does not have.
    """
    writer = NodeWriter(graph.types, row_numbers(graph))
    for x in dict.fromkeys(x for op in graph.ops for x in op.inputs if x in graph.constants):
        kind = np.int64 if x in writer.integers else np.float32
        writer.value(x, np.ascontiguousarray(graph.constants[x], kind))
    for op in graph.ops:
        writer.begin(op.output)
        write(op, writer)
    return writer.model(graph.name, graph.inputs, graph.outputs)


def row_numbers(graph: Graph) -> frozenset[str]:
    """Return the inputs and constants that are row numbers of Gather and nothing else."""
    given = {*graph.inputs, *graph.constants} - {*graph.outputs}
    return frozenset(
        x
        for x in given
        if graph.consumers[x]
        and all(
            op.kind is OpKind.GATHER and op.inputs[1] == x != op.inputs[0]
            for op in graph.consumers[x]
        )
    )
