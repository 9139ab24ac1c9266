"""Pass: products of 8-bit integers less their zero points become products of the integers themselves.

``MATMUL/CONV((qa − za) · sa, (qb − zb) · sb)``, as importers write quantised networks, becomes the exact int32
sum Σ (qa − za) · (qb − zb), times sa · sb. A machine then stores, moves and multiplies 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.passes.storage import held_tensors
from autotune.graph.product_sums import ProductSums, reduced_axes
from autotune.isa.formats import Formats
from autotune.operators.axes import CHANNELS_FIRST
from autotune.operators.interval import Interval
from autotune.operators.op import Attrs, AttrValue, Op, OpKind
from autotune.operators.tensor import NARROW, Array, DType, TensorType

SUM_LIMIT = 2**31 - 1
"""Largest magnitude of a sum that int32 holds."""


@dataclass(frozen=True, slots=True)
class Factor:
    """Numbers (tensor − zero) · scale; ``scale`` is a constant, None for 1."""

    tensor: str
    zero: int
    scale: Array | None


@dataclass(frozen=True, slots=True)
class NarrowProducts:
    """Products whose two factors are 8-bit integers less one constant zero point each.

    A constant scale of each factor, of the second one also per output channel, moves behind the
    sum, where both are applied as one factor. Sums that could leave int32 are left alone, as are
    convolutions in groups.
    """

    formats: Formats
    name: str = "narrow-products"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every product that fits."""
        if self.formats.multiplied.isdisjoint(NARROW.values()):
            return PassResult(graph, ())
        writer, held = _Writer(graph), held_tensors(graph)
        notes: list[Note] = []
        for op in graph.ops:
            factors = self._factors(op, graph, held)
            if factors is None or not _stays_within(op, graph, factors):
                writer.ops.append(op)
                continue
            writer.write(op, factors)
            reason = (
                f"{op.name} multiplies {' by '.join(graph.types[f.tensor].dtype for f in factors)}"
            )
            notes.append(Note(self.name, f"float32 factors of {op.name}", reason))
        return PassResult(writer.graph() if notes else graph, tuple(notes))

    def _factors(self, op: Op, graph: Graph, held: Set[str]) -> tuple[Factor, Factor] | None:
        if op.kind not in (OpKind.MATMUL, OpKind.CONV) or op.zeros is not None:
            return None
        if op.kind is OpKind.CONV and (op.int("group") != 1 or op.axes != CHANNELS_FIRST):
            return None
        a, b = (_factor(graph, x, held) for x in op.inputs[:2])
        if a is None or b is None or not self._multiplies(graph, a, b):
            return None
        if (a.scale is None) != (b.scale is None):
            return None
        if a.scale is not None and a.scale.size != 1:
            return None
        return (a, b) if b.scale is None or _by_channel(op, b.scale) is not None else None

    def _multiplies(self, graph: Graph, *factors: Factor) -> bool:
        formats = (NARROW[graph.types[f.tensor].dtype] for f in factors)
        return self.formats.multiplied.issuperset(formats)


def _factor(graph: Graph, tensor: str, held: Set[str]) -> Factor | None:
    """Return a tensor as 8-bit integers less a zero point, scaled; None for any other tensor."""
    scale: Array | None = None
    op = graph.producer.get(tensor)
    if op is not None and op.kind is OpKind.MUL:
        scale = _constant(graph, op.inputs[1])
        if scale is None or not np.isfinite(scale).all():
            return None
        tensor = op.inputs[0]
        op = graph.producer.get(tensor)
    zero = 0
    if op is not None and op.kind is OpKind.SUB:
        point = _constant(graph, op.inputs[1])
        if point is None or not point.size or np.any(point != point.flat[0]):
            return None
        tensor, zero = op.inputs[0], int(point.flat[0])
        if graph.shape(tensor) != graph.shape(op.output):
            return None
    if tensor not in held:
        return None
    low, high = graph.types[tensor].dtype.limits  # padding is a number of the tensor
    return Factor(tensor, zero, scale) if low <= zero <= high else None


def _constant(graph: Graph, tensor: str) -> Array | None:
    """Return a constant, or one that a reshape makes of it."""
    op = graph.producer.get(tensor)
    if op is not None and op.kind is OpKind.RESHAPE:
        value = _constant(graph, op.inputs[0])
        return None if value is None else value.reshape(graph.shape(tensor))
    return graph.constants.get(tensor)


def _by_channel(op: Op, scale: Array) -> Array | None:
    """Return the second factor's scale in the form of the result; None if it differs along a sum."""
    if scale.size == 1:
        return scale.reshape(())
    form: tuple[int, ...]
    if op.kind is OpKind.CONV:
        axis, form = 0, (-1, 1, 1)
    else:
        axis, form = (-2 if op.int("trans_b") else -1), (-1,)
        if axis == -1 and scale.ndim == 1:
            return scale
    rank = 4 if op.kind is OpKind.CONV else max(2, scale.ndim)
    aligned = scale.reshape((1,) * (rank - scale.ndim) + scale.shape)
    if aligned.ndim != rank or aligned.shape[axis] != scale.size:
        return None
    return scale.reshape(form)


def _stays_within(op: Op, graph: Graph, factors: tuple[Factor, Factor]) -> bool:
    """Return True if int32 provably holds all sums, with the bias."""
    intervals = [_interval(graph, factor) for factor in factors]
    terms = intervals[0] * intervals[1]
    shape = graph.shape(op.inputs[1])
    depth = math.prod(shape[d] for d in reduced_axes(op, 1, len(shape)))
    bias = 0.0
    if len(op.inputs) == 3 and factors[0].scale is None:
        value = graph.constants.get(op.inputs[2])
        if value is None:
            return False
        bias = float(np.abs(value).max())
    if terms.extreme * depth + bias <= SUM_LIMIT:
        return True
    weight = graph.constants.get(factors[1].tensor)
    if weight is None:
        return False
    axes = reduced_axes(op, 1, weight.ndim)
    sums = ProductSums.of(weight - factors[1].zero, axes, 0)
    return sums.partial(intervals[0]).extreme + bias <= SUM_LIMIT


def _interval(graph: Graph, factor: Factor) -> Interval:
    low, high = graph.types[factor.tensor].dtype.limits
    return Interval(float(low - factor.zero), float(high - factor.zero))


class _Writer:
    """Rewrites products; other operators stay, and dead ones go later."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.ops: list[Op] = []
        self._constants: dict[str, Array] = {}
        self._types: dict[str, TensorType] = {}
        self._taken = {*graph.types, *(op.name for op in graph.ops)}

    def write(self, op: Op, factors: tuple[Factor, Factor]) -> None:
        """Append the narrow form of a product, then scale and bias where it has them."""
        a, b = factors
        attrs: dict[str, AttrValue] = {**dict(op.attrs), "a_zero": a.zero, "b_zero": b.zero}
        inputs = (a.tensor, b.tensor)
        if a.scale is None or b.scale is None:
            rest = op.inputs[2:]
            self.ops.append(Op.make(op.name, op.kind, (*inputs, *rest), op.output, attrs))
            return
        sums = self._fresh(
            f"{op.output}.sums", TensorType(self._graph.shape(op.output), DType.INT32)
        )
        self.ops.append(Op.make(sums, op.kind, inputs, sums, attrs))
        channel = _by_channel(op, b.scale)
        assert channel is not None, "the pass has checked it"
        scale = (a.scale.astype(np.float64).reshape(()) * channel).astype(np.float32)
        steps: list[tuple[OpKind, str]] = [
            (OpKind.MUL, self._constant(scale, f"{op.output}.scale"))
        ]
        if len(op.inputs) == 3:
            steps.append((OpKind.ADD, self._bias(op)))
        self._append(op, sums, steps)

    def _append(self, op: Op, tensor: str, steps: list[tuple[OpKind, str]]) -> None:
        """Append element-wise operators behind ``tensor``, the last of which makes the result."""
        for index, (kind, other) in enumerate(steps):
            is_last = index == len(steps) - 1
            stem = f"{op.output}.{kind}"
            output = op.output if is_last else self._fresh(stem, self._graph.types[op.output])
            name = op.name if is_last else output
            self.ops.append(Op(name, kind, (tensor, other), output))
            tensor = output

    def _bias(self, op: Op) -> str:
        """Return a convolution's bias in the form of its result."""
        bias = op.inputs[2]
        shape = (*self._graph.shape(bias), 1, 1)
        name = self._fresh(f"{bias}.column", TensorType(shape, self._graph.types[bias].dtype))
        attrs: Attrs = (("shape", shape),)
        self.ops.append(Op(name, OpKind.RESHAPE, (bias,), name, attrs))
        return name

    def _constant(self, value: Array, stem: str) -> str:
        name = self._fresh(stem, TensorType(value.shape))
        self._constants[name] = value
        return name

    def _fresh(self, stem: str, kind: TensorType) -> str:
        name = fresh(stem, self._taken)
        self._taken.add(name)
        self._types[name] = kind
        return name

    def graph(self) -> Graph:
        """The rewritten graph, without what nothing reads."""
        ops = tuple(_alive(self.ops, self._graph.outputs))
        return rebuilt(self._graph, ops, self._constants, self._types)


def _alive(ops: list[Op], outputs: Iterable[str]) -> list[Op]:
    """Return the operators that an output depends on."""
    needed, kept = set(outputs), []
    for op in reversed(ops):
        if op.output in needed:
            needed.update(op.inputs)
            kept.append(op)
    return kept[::-1]
