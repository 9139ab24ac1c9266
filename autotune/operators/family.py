"""What is known about a family of operators: one row, which its own file defines (``families.py`` lists all)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import ModelError
from autotune.operators.axes import to_channels_last
from autotune.operators.axis_map import Footprint, full
from autotune.operators.interval import ANYTHING, Interval
from autotune.operators.op import AttrValue, Op
from autotune.operators.tensor import Array, TensorType

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Inputs = Sequence[Array]
Intervals = Sequence[Interval]
Types = Mapping[str, TensorType]
NewAttrs = Mapping[str, AttrValue] | None


def no_dims(op: Op, types: Types) -> frozenset[int]:
    """Return no dimension: tiles may cut all of them."""
    return frozenset()


def no_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    """Return 0: the operator computes nothing, or nothing of this sort."""
    return 0


def stays(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    """Return None: no transpose passes the operator."""
    return None


def same_attrs(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    """Return the operator's own attributes: none of them names an axis."""
    return dict(op.attrs)


def moved_axis(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    """Return the attributes with ``axis`` where it lies channels-last."""
    return {**dict(op.attrs), "axis": to_channels_last(len(result)).index(op.int("axis"))}


def moved_rows(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    """Return the attributes with values per axis in the order channels-last."""
    order = to_channels_last(len(result))
    return {
        name: tuple(value[axis] for axis in order) if isinstance(value, tuple) else value
        for name, value in op.attrs
    }


class Work(StrEnum):
    """Sort of work, by which reports and features put families together."""

    MATRIX = "matrix"
    VECTOR = "vector"
    WINDOW = "window"
    MOVE = "move"


def zero_padding(op: Op) -> float:
    """Return 0: what lies outside of the operand adds nothing."""
    return 0.0


@dataclass(frozen=True, slots=True)
class Operands:
    """Names of a family's operands in order, none for any number; ``weights`` are known before run time."""

    names: tuple[str, ...]
    weights: frozenset[str] = frozenset()


ONE = Operands(("x",))


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """The rules of a family; ``shapes`` are those of the inputs, ``types`` those of all tensors."""

    work: Work
    operands: Operands
    shape: Callable[[Op, Shapes], Shape]
    """The result's shape. Raises ``ModelError`` where the inputs' or an attribute does not fit."""
    reference: Callable[[Op, Inputs], Array]
    """The operator in numpy, of the inputs' floating-point type."""
    interval: Callable[[Op, Intervals, Shapes], Interval]
    """Bounds of the result, and of partial sums, from those of the inputs."""
    region: Callable[[Op, int, Footprint, Types], Footprint]
    """The part of the numbered input that a part of the result needs."""
    operations: Callable[[Op, Shapes, Shape], int]
    """Scalar operations, two for each multiply-add; a transcendental counts 8, a division 4."""
    whole_dims: Callable[[Op, Types], frozenset[int]] = no_dims
    """Dimensions of the result that no tile may cut."""
    multiply_adds: Callable[[Op, Shapes, Shape], int] = no_operations
    """Multiply-adds on the matrix unit."""
    padding: Callable[[Op], float] | None = None
    """The value that is read past the operand's borders; None where nothing is."""
    channels_last: Callable[[Op, Shapes, Shape], NewAttrs] = stays
    """Attributes of the operator between operands and result in order ``to_channels_last``; None where
    it has no such form."""


def refuse(op: Op, shapes: Shapes, reason: str) -> ModelError:
    """Make the error of shapes that do not fit an operator."""
    text = ", ".join(str(list(shape)) for shape in shapes)
    return ModelError(f"{op.name}: {op.kind} over shapes {text}: {reason}")


def checked_ints(op: Op, shapes: Shapes, name: str, length: int, least: int) -> Shape:
    """Return an attribute of ``length`` integers, none below ``least``; raise ``ModelError`` otherwise."""
    values = op.ints(name)
    if len(values) != length or min(values) < least:
        raise refuse(op, shapes, f"{name} must be {length} integers ≥ {least}, got {list(values)}")
    return values


def checked_axis(op: Op, shapes: Shapes, axis: int) -> int:
    """Return an axis of the first input; raise ``ModelError`` for any other."""
    if not 0 <= axis < len(shapes[0]):
        raise refuse(op, shapes, f"axis {axis} is outside 0..{len(shapes[0]) - 1}")
    return axis


def broadcast_shape(op: Op, shapes: Shapes, a: Shape, b: Shape) -> Shape:
    """Broadcast two shapes as numpy does; raise ``ModelError`` where they do not."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(p != q and p != 1 and q != 1 for p, q in zip(a, b, strict=True)):
        raise refuse(op, shapes, "the shapes do not broadcast")
    return tuple(max(p, q) for p, q in zip(a, b, strict=True))


def broadcast_region(shape: Shape, out: Footprint, out_shape: Shape) -> Footprint:
    """Map a result's part to an operand's, aligned at the right: extents of 1 under larger ones are fixed."""
    shift = len(out_shape) - len(shape)
    return tuple(full(1) if n == 1 else out[d + shift] for d, n in enumerate(shape))


def same_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    """Return the result's own part."""
    return out


def anything(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    """Bound nothing."""
    return ANYTHING


def union(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    """Bound results that are among the inputs' values, or between them."""
    return Interval(min(i.low for i in intervals), max(i.high for i in intervals))


def partial_sums(term: Interval, count: int) -> Interval:
    """Bound sums of up to ``count`` terms: partial sums have to be exact too."""
    return Interval(min(0.0, term.low * count), max(0.0, term.high * count))
