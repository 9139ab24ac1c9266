"""How much arithmetic an operator holds: the compute side of every roofline."""

from __future__ import annotations

import math

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op
from autotune.operators.winograd import FORMS, Form


def multiply_adds(op: Op, graph: Graph) -> int:
    """Multiply-adds of a contraction (convolutions, matmul); 0 for every other operator. Winograd's
    are those that it makes, on whole tiles."""
    out_elements = math.prod(graph.shape(op.output))
    match op.family:
        case Family.CONV:
            weight = graph.shape(op.inputs[1])
            return out_elements * math.prod(weight) // weight[op.axes.out_channel]
        case Family.WINOGRAD:
            weight = graph.shape(op.inputs[1])
            return tiles_of(graph.shape(op.output), FORMS[weight[0]]) * math.prod(weight)
        case Family.MATMUL:
            inner = graph.shape(op.inputs[0])[-2 if op.int("trans_a") else -1]
            return out_elements * inner
        case _:
            return 0


def tiles_of(image: tuple[int, ...], form: Form) -> int:
    """Tiles of a result [N, H, W, M] of a form of Winograd's convolution."""
    batch, rows, columns, _ = image
    return batch * -(-rows // form.tile) * -(-columns // form.tile)


def _transform_additions(op: Op, graph: Graph) -> int:
    points, channels, outputs = graph.shape(op.inputs[1])
    form = FORMS[points]
    each = channels * form.input_additions + outputs * form.output_additions
    return tiles_of(graph.shape(op.output), form) * each


def flops(op: Op, graph: Graph) -> int:
    """Scalar operations: 2 per multiply-add plus what the vector unit does.

    A transcendental counts 8 and a division 4, as in ``FunctionRow.operations``; softmax is
    max, subtract, exp, sum, divide; layer norm is two reductions and the affine part.
    """
    out_elements = math.prod(graph.shape(op.output))
    in_elements = math.prod(graph.shape(op.inputs[0]))
    match op.family:
        case Family.CONV:
            bias = out_elements if len(op.inputs) == 3 else 0
            return 2 * multiply_adds(op, graph) + bias
        case Family.WINOGRAD:
            return 2 * multiply_adds(op, graph) + _transform_additions(op, graph)
        case Family.MATMUL:
            return 2 * multiply_adds(op, graph)
        case Family.UNARY | Family.BINARY:
            return op.function.row.operations * out_elements
        case Family.POOL:
            return out_elements * math.prod(op.ints("kernel"))
        case Family.SLIDE:
            return out_elements * (op.int("before") + op.int("after"))
        case Family.REDUCE:
            return in_elements
        case Family.SOFTMAX:
            return 15 * in_elements
        case Family.LAYER_NORM:
            return 8 * in_elements
        case (
            Family.CONCAT
            | Family.RESHAPE
            | Family.TRANSPOSE
            | Family.SLICE
            | Family.PAD
            | Family.EXPAND
            | Family.GATHER
        ):
            return 0
