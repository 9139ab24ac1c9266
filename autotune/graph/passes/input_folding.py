"""Pass: folds multiplications and additions by constants into the weights of the product behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.isa.formats import Format
from autotune.operators.axes import inverse
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
SCALING = (OpKind.MUL, OpKind.DIV)
SHIFTING = (OpKind.ADD, OpKind.SUB)


@dataclass(frozen=True, slots=True)
class InputFolding:
    """Per-channel MUL or DIV before a CONV or MATMUL of constant weights scales these; ADD or SUB before a
    CONV goes into its bias, unless it pads: a zero that is added at the border is not shifted.

    A shift before a MATMUL stays: without a bias operand it would be an operator still.
    """

    name: str = "input-folding"

    def run(self, graph: Graph) -> PassResult:
        """One operator before each product; the next round takes the one before that."""
        constants: dict[str, Array] = {}
        changed: dict[str, Op] = {}
        gone: dict[str, str] = {}
        for op in graph.ops:
            link = graph.producer.get(op.inputs[0])
            value = None if link is None else _per_channel(link, op, graph)
            if link is None or value is None or link.name in changed or op.name in gone:
                continue
            variable = link.inputs[1] if link.inputs[0] in graph.constants else link.inputs[0]
            product = replace(op, inputs=(variable, *op.inputs[1:]))
            changed[op.name] = _folded(product, link.kind, value, graph, constants)
            gone[link.name] = op.name
        if not gone:
            return PassResult(graph, ())
        ops = [changed.get(op.name, op) for op in graph.ops if op.name not in gone]
        notes = tuple(
            Note(self.name, x, f"folded into the weights of {to}") for x, to in gone.items()
        )
        return PassResult(rebuilt(graph, ops, constants), notes)


def _per_channel(link: Op, op: Op, graph: Graph) -> Vector | None:
    """Return an operator's constant as one value per input channel of its only reader, a product.

    None if it cannot be folded.
    """
    if not _takes(op, link, graph) or graph.consumers[link.output] != (op,):
        return None
    constants = [x for x in link.inputs if x in graph.constants]
    if len(constants) != 1 or link.output in graph.outputs or op.inputs.count(link.output) != 1:
        return None
    if link.kind in (OpKind.DIV, OpKind.SUB) and link.inputs[1] != constants[0]:
        return None
    other = next(x for x in link.inputs if x != constants[0])
    shape, value = graph.shape(link.output), graph.constants[constants[0]]
    axis = op.axes.channel if op.kind is OpKind.CONV else len(shape) - 1
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if (
        not graph.types[other].dtype.is_float
        or graph.types[other] != graph.types[link.output]
        or any(n != 1 for d, n in enumerate(aligned) if d != axis)
    ):
        return None
    if link.kind is OpKind.DIV and not np.all(value):
        return None
    return np.broadcast_to(value.astype(np.float64).reshape(-1), (shape[axis],))


def _takes(op: Op, link: Op, graph: Graph) -> bool:
    """Return True if a product's weights can express the operation on its operand."""
    if op.kind not in (OpKind.CONV, OpKind.MATMUL) or op.zeros is not None:
        return False
    if any(x not in graph.constants for x in op.inputs[1:]):
        return False
    if graph.types[op.inputs[1]].storage is not Format.FP32:
        return False
    if link.kind in SHIFTING:
        return op.kind is OpKind.CONV and not any(op.ints("pads"))
    return link.kind in SCALING and (op.kind is OpKind.CONV or not op.int("trans_a"))


def _folded(op: Op, kind: OpKind, value: Vector, graph: Graph, constants: dict[str, Array]) -> Op:
    """Return the product with its new weights, and add these to ``constants``."""
    weight = graph.constants[op.inputs[1]]
    if op.kind is OpKind.MATMUL:
        rows = (-1 if op.int("trans_b") else -2) % weight.ndim
        shape = tuple(-1 if d == rows else 1 for d in range(weight.ndim))
        return _reading(
            op, 1, _scaled(weight, kind, value.reshape(shape)), "weight", graph, constants
        )
    order = op.axes.weight_order
    first = weight.transpose(order)
    spread = np.repeat(value.reshape(op.int("group"), -1), len(first) // op.int("group"), axis=0)[
        :, :, None, None
    ]
    if kind in SCALING:
        made = _scaled(first, kind, spread).transpose(inverse(order))
        return _reading(op, 1, made, "weight", graph, constants)
    taps = np.sum(first, axis=(2, 3), dtype=np.float64)
    shift = np.sum(taps * spread[:, :, 0, 0], axis=1)
    bias = graph.constants[op.inputs[2]] if len(op.inputs) == 3 else np.float32(0)
    total = bias + shift if kind is OpKind.ADD else bias - shift
    return _reading(op, 2, np.asarray(total, np.float32), "bias", graph, constants)


def _scaled(weight: Array, kind: OpKind, value: npt.NDArray[np.float64]) -> Array:
    """Return the product or quotient in float64, rounded once, laid out as ``weight``."""
    function = np.multiply if kind is OpKind.MUL else np.divide
    made = np.empty_like(weight, dtype=np.float32)
    scaled: Array = function(weight, value, out=made, dtype=np.float64, casting="same_kind")
    return scaled


def _reading(
    op: Op, place: int, value: Array, role: str, graph: Graph, constants: dict[str, Array]
) -> Op:
    """Return the operator with a new constant at one of its positions."""
    name = fresh(f"{op.name}.{role}", graph.types)
    constants[name] = value
    return replace(op, inputs=(*op.inputs[:place], name, *op.inputs[place + 1 :]))
