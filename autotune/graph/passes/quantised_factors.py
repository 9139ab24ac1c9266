"""Factors of quantised products, as importers write them: 8-bit integers less a zero point, scaled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import fresh, rebuilt
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, DType, TensorType

PRODUCTS = (OpKind.MATMUL, OpKind.CONV)


@dataclass(frozen=True, slots=True)
class Factor:
    """Numbers (tensor − zero) · scale; ``scale`` is a constant, None for 1.

    ``point`` is a zero point of one number that only a run knows, None where ``zero`` is it. ``views``
    are shapes that the numbers are reshaped to, in turn. ``points`` are zero points of a constant that differ, in a form that
    broadcasts against it; None where ``zero`` is that of all.
    """

    tensor: str
    zero: int
    scale: Array | None
    point: str | None = None
    views: tuple[tuple[int, ...], ...] = ()
    points: Array | None = None


def factor_of(graph: Graph, tensor: str, held: Set[str]) -> Factor | None:
    """Return a tensor as 8-bit integers less a zero point, scaled; None for any other tensor.

    ``held`` are the tensors of an 8-bit type that surely hold their numbers.
    """
    op = graph.producer.get(tensor)
    if op is not None and op.kind is OpKind.RESHAPE and tensor not in held:
        inner = factor_of(graph, op.inputs[0], held)
        if inner is None or (inner.scale is not None and inner.scale.ndim and inner.scale.size > 1):
            return None
        if inner.points is not None:
            return None
        views = (*inner.views, graph.shape(tensor))
        return Factor(inner.tensor, inner.zero, inner.scale, inner.point, views)
    scale: Array | None = None
    if op is not None and op.kind is OpKind.MUL:
        scale = constant_of(graph, op.inputs[1])
        if scale is None or not np.isfinite(scale).all():
            return None
        tensor = op.inputs[0]
        op = graph.producer.get(tensor)
    zero: int | None = 0
    point: str | None = None
    if op is not None and op.kind is OpKind.SUB and tensor not in held:
        tensor, point = op.inputs
        zero = _zero(graph, point)
        if graph.shape(tensor) != graph.shape(op.output):
            return None
        if zero is None and (points := constant_of(graph, point)) is not None:
            return _by_points(graph, tensor, scale, points, held)
        if zero is None and graph.shape(point) not in ((), (1,)):
            return None
    if tensor not in held:
        return None
    if zero is None:
        return Factor(tensor, 0, scale, point)
    low, high = graph.types[tensor].dtype.limits  # padding is a number of the tensor
    return Factor(tensor, zero, scale) if low <= zero <= high else None


def _by_points(
    graph: Graph, tensor: str, scale: Array | None, points: Array, held: Set[str]
) -> Factor | None:
    """Return a constant factor whose zero points differ."""
    if tensor not in held or tensor not in graph.constants or not points.size:
        return None
    low, high = graph.types[tensor].dtype.limits
    if points.min() < low or points.max() > high:
        return None
    return Factor(tensor, 0, scale, points=points)


def _zero(graph: Graph, point: str) -> int | None:
    """Return the one number of a constant zero point; None where there is no one number."""
    value = constant_of(graph, point)
    if value is None or not value.size or np.any(value != value.flat[0]):
        return None
    return int(value.flat[0])


def constant_of(graph: Graph, tensor: str) -> Array | None:
    """Return a constant, or one that a reshape makes of it."""
    op = graph.producer.get(tensor)
    if op is not None and op.kind is OpKind.RESHAPE:
        value = constant_of(graph, op.inputs[0])
        return None if value is None else value.reshape(graph.shape(tensor))
    return graph.constants.get(tensor)


def by_channel(op: Op, scale: Array) -> Array | None:
    """Return the second factor's scale in the form of the result; None if it differs along a sum."""
    if scale.size == 1:
        return scale.reshape(())
    if op.kind is OpKind.CONV:
        fits = scale.ndim > 2 and scale.shape[0] == scale.size
        return scale.reshape(-1, 1, 1) if fits else None
    axis = -2 if op.int("trans_b") else -1
    fits = scale.ndim >= -axis and scale.shape[axis] == scale.size
    return scale.reshape(-1) if fits else None


class ProductWriter:
    """Rewrites products of a graph; what nothing reads then goes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.ops: list[Op] = []
        self._constants: dict[str, Array] = {}
        self._types: dict[str, TensorType] = {}
        self._taken = {*graph.types, *(op.name for op in graph.ops)}

    def scaled(self, op: Op, tensor: str, scale: Array, bias: Sequence[str]) -> None:
        """Append the scale behind ``tensor``, and a convolution's bias; the last one makes the result of
        ``op``."""
        steps = [(OpKind.MUL, self.constant(scale, f"{op.output}.scale"))]
        steps += [(OpKind.ADD, self._column(x)) for x in bias]
        for index, (kind, other) in enumerate(steps):
            is_last = index == len(steps) - 1
            stem, like = f"{op.output}.{kind}", self._graph.types[op.output]
            output = op.output if is_last else self.fresh(stem, like)
            self.ops.append(Op(op.name if is_last else output, kind, (tensor, other), output))
            tensor = output

    def _column(self, bias: str) -> str:
        """Return a convolution's bias in the form of its result."""
        return self.reshaped(bias, (*self._graph.shape(bias), 1, 1))

    def viewed(self, factor: Factor) -> str:
        """Return the tensor of a factor in the shape in which the product reads it."""
        tensor = factor.tensor
        for shape in factor.views:
            tensor = self.reshaped(tensor, shape)
        return tensor

    def reshaped(self, tensor: str, shape: tuple[int, ...]) -> str:
        """Append a reshape; return its result."""
        kind = self._types.get(tensor) or self._graph.types[tensor]
        name = self.fresh(f"{tensor}.reshaped", TensorType(shape, kind.dtype, kind.storage))
        self.ops.append(Op(name, OpKind.RESHAPE, (tensor,), name, (("shape", shape),)))
        return name

    def constant(self, value: Array, stem: str) -> str:
        """Add a constant; return its name."""
        name = self.fresh(stem, TensorType(value.shape))
        self._constants[name] = value
        return name

    def integers(self, value: Array, dtype: DType, stem: str) -> str:
        """Add a constant of 8-bit integers; return its name."""
        name = self.fresh(stem, TensorType(value.shape, dtype))
        self._constants[name] = value.astype(np.float32)
        return name

    def fresh(self, stem: str, kind: TensorType) -> str:
        """Return the name of a new tensor."""
        name = fresh(stem, self._taken)
        self._taken.add(name)
        self._types[name] = kind
        return name

    def retype(self, tensor: str, kind: TensorType) -> None:
        """Give a tensor of the graph another type."""
        self._types[tensor] = kind

    def graph(self) -> Graph:
        """The rewritten graph, without what nothing reads."""
        ops = _alive(self.ops, self._graph.outputs)
        return rebuilt(self._graph, ops, self._constants, self._types)


def _alive(ops: list[Op], outputs: Iterable[str]) -> list[Op]:
    """Return the operators that an output depends on."""
    needed, kept = set(outputs), []
    for op in reversed(ops):
        if op.output in needed:
            needed.update(op.inputs)
            kept.append(op)
    return kept[::-1]
