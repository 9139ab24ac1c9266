"""Pass: stored narrow weights that are moved before a product reads them are stored as moved, and stay narrow.

An importer transposes, slices, pads by zeros or reshapes the weight ``(qb − zb) · sb`` of a transposed convolution. The pass
moves the integers instead, and puts their scale, one per output channel, behind. Weights of two bytes are moved likewise.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.quantised_factors import PRODUCTS, Factor, ProductWriter, factor_of
from autotune.graph.passes.storage import held_tensors
from autotune.graph.passes.whole_products import pieces_of
from autotune.isa.formats import Formats
from autotune.operators.axes import CHANNELS_FIRST
from autotune.operators.families import evaluate_op
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import NARROW, Array, DType, TensorType

MOVES = frozenset((Family.RESHAPE, Family.TRANSPOSE, Family.SLICE, Family.PAD))
HALVES = frozenset((DType.BFLOAT16, DType.FLOAT16))


@dataclass(frozen=True, slots=True)
class Weight:
    """Moved numbers (values − zero) · scale; ``scale`` None is 1."""

    values: Array
    dtype: DType
    zero: int
    scale: Array | None


@dataclass(frozen=True, slots=True)
class MovedWeights:
    """Products by a constant of 8-bit integers, or of two bytes, behind operators that only move it.

    Pieces of a longer sum, whose weights are slices, stay for the pass that joins them. Scales that differ within an output channel stay where they are. So do zero points of several values, unless 8 bits hold
    the numbers less them.
    """

    formats: Formats
    name: str = "moved-weights"

    def run(self, graph: Graph) -> PassResult:
        """Store the weight of every product that fits as it is read."""
        held = held_tensors(graph) & graph.constants.keys()
        halves = {x for x in graph.constants if graph.types[x].dtype in HALVES}
        if self.formats.stored.isdisjoint(NARROW.values()) and not halves:
            return PassResult(graph, ())
        writer, notes, pieces = ProductWriter(graph), list[Note](), pieces_of(graph)
        for op in graph.ops:
            weight = None if op.name in pieces else _weight(op, graph, held, halves)
            if weight is None:
                writer.ops.append(op)
                continue
            made = _written(writer, weight, f"{op.output}.weight")
            writer.ops.append(replace(op, inputs=(op.inputs[0], made, *op.inputs[2:])))
            notes.append(Note(self.name, f"moves of the weight of {op.name}", "it is constant"))
        return PassResult(writer.graph() if notes else graph, tuple(notes))


def _weight(op: Op, graph: Graph, held: Set[str], halves: Set[str]) -> Weight | None:
    """Return the weight of a product as it is read; None if nothing narrow is moved."""
    if op.kind not in PRODUCTS or op.zeros is not None:
        return None
    if op.kind is OpKind.CONV and op.axes != CHANNELS_FIRST:
        return None
    tensor, moves = op.inputs[1], list[Op]()
    while (maker := graph.producer.get(tensor)) is not None and _moves(maker):
        moves.insert(0, maker)
        tensor = maker.inputs[0]
    if not moves:
        return None
    if tensor in halves:
        return Weight(_moved(graph.constants[tensor], moves), graph.types[tensor].dtype, 0, None)
    factor = factor_of(graph, tensor, held)
    if factor is None or factor.point is not None or factor.views:
        return None
    return _integers(op, graph, factor, moves)


def _moves(op: Op) -> bool:
    """Return True for an operator that only moves numbers, and fills up with zeros."""
    return op.family in MOVES and (op.kind is not OpKind.PAD or op.float("value") == 0)


def _integers(op: Op, graph: Graph, factor: Factor, moves: Sequence[Op]) -> Weight | None:
    stored, dtype = graph.constants[factor.tensor], graph.types[factor.tensor].dtype
    own = stored - (np.float32(factor.zero) if factor.points is None else factor.points)
    scale = factor.scale
    if scale is not None and scale.size > 1:
        scale = _channel_scale(op, _moved(np.broadcast_to(scale, stored.shape), moves, np.nan))
        if scale is None:
            return None
    zero, (low, high) = 0, DType.INT8.limits
    if low <= own.min() and own.max() <= high:
        dtype = DType.INT8
    elif factor.points is None:
        zero = factor.zero
    else:
        return None
    return Weight(_moved(own, moves) + np.float32(zero), dtype, zero, scale)


def _moved(value: Array, moves: Sequence[Op], fill: float = 0.0) -> Array:
    """Return numbers behind ``moves``, with ``fill`` where these pad."""
    for op in moves:
        one = op
        if op.kind is OpKind.PAD:
            one = Op.make(op.name, op.kind, op.inputs, op.output, {**dict(op.attrs), "value": fill})
        value = evaluate_op(one, [value])
    return value


def _channel_scale(op: Op, scales: Array) -> Array | None:
    """Return the one scale of each output channel, NaN aside; None if they differ within one."""
    channel = 0
    if op.kind is OpKind.MATMUL:
        channel = scales.ndim - (2 if op.int("trans_b") else 1)
    others = tuple(axis for axis in range(scales.ndim) if axis != channel)
    least = np.fmin.reduce(scales, axis=others, keepdims=True)
    largest = np.fmax.reduce(scales, axis=others, keepdims=True)
    if not np.array_equal(least, largest, equal_nan=True):
        return None
    one: Array = np.where(np.isnan(least), np.float32(1), least)
    return one


def _written(writer: ProductWriter, weight: Weight, stem: str) -> str:
    """Append a weight and return what the product reads."""
    shape = weight.values.shape
    made = writer.integers(weight.values, weight.dtype, stem)
    if weight.zero:
        made = _computed(writer, OpKind.SUB, made, np.asarray(weight.zero, np.float32), shape)
    if weight.scale is not None:
        made = _computed(writer, OpKind.MUL, made, weight.scale, shape)
    return made


def _computed(
    writer: ProductWriter, kind: OpKind, tensor: str, value: Array, shape: tuple[int, ...]
) -> str:
    name = writer.fresh(f"{tensor}.{kind}", TensorType(shape))
    other = writer.constant(value, f"{tensor}.{kind}.by")
    writer.ops.append(Op(name, kind, (tensor, other), name))
    return name
