"""ONNX operators that reduce or normalise along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OPERATORS, Family, OpKind
from autotune.operators.tensor import FLOAT_MAX


def resolve_axis(node: Node, axis: int, rank: int) -> int:
    """Return a possibly negative axis as a position in 0..rank−1."""
    if not -rank <= axis < rank:
        raise ModelError(f"{node.label}: axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def axes_of(scope: Scope, node: Node, rank: int) -> tuple[int, ...] | None:
    """Return sorted axes from the attribute (old opsets) or the second input (new); None if
    absent."""
    axes = node.ints("axes")
    if axes is None and node.has_input(1):
        axes = tuple(int(v) for v in np.ravel(np.asarray(scope.array(node, 1), np.int64)))
    if axes is None:
        return None
    return tuple(sorted({resolve_axis(node, axis, rank) for axis in axes}))


Step = Callable[[Scope, Node, str], str]
"""Emits an operator over a tensor on the way to a node's output."""


def _apply(kind: OpKind) -> Step:
    return lambda scope, node, x: scope.step(node, kind, x)


def _squared(scope: Scope, node: Node, x: str) -> str:
    return scope.step(node, OpKind.MUL, x, x)


def _reduction(kind: OpKind, before: Step | None = None, after: Step | None = None) -> Translate:
    """Return the translation of a reduction, with steps before and after it."""

    def translate(scope: Scope, node: Node) -> str:
        x = scope.tensor(node, 0)
        axes = _axes_to_reduce(scope, node, x)
        x = before(scope, node, x) if before is not None else x
        if not axes:
            return after(scope, node, x) if after is not None else x
        last = after is None and node.int("keepdims", 1)
        total = (scope.result if last else scope.step)(node, kind, x, axes=axes)
        total = after(scope, node, total) if after is not None else total
        return _drop_axes(scope, node, total, axes)

    return translate


def _axes_to_reduce(scope: Scope, node: Node, x: str) -> tuple[int, ...]:
    """Return the axes to reduce over: none for a scalar, or if the node asks for none."""
    rank = len(scope.shape(x))
    axes = axes_of(scope, node, rank)
    if not axes and node.int("noop_with_empty_axes", 0):
        return ()
    return axes or tuple(range(rank))


def _drop_axes(scope: Scope, node: Node, total: str, axes: Sequence[int]) -> str:
    """Remove the reduced axes unless the node keeps them."""
    if node.int("keepdims", 1):
        return total
    rest = tuple(extent for i, extent in enumerate(scope.shape(total)) if i not in axes)
    return scope.reshape_result(node, total, rest)


def _log_sum_exp(scope: Scope, node: Node) -> str:
    """max + ln Σ exp(x − max), with a finite maximum so that infinities of one sign never cancel."""
    x = scope.tensor(node, 0)
    axes = _axes_to_reduce(scope, node, x)
    if not axes:
        return x
    most = scope.step(node, OpKind.REDUCE_MAX, x, axes=axes)
    most = scope.step(node, OpKind.CLIP, most, min=-FLOAT_MAX, max=FLOAT_MAX)
    shares = scope.step(node, OpKind.EXP, scope.step(node, OpKind.SUB, x, most))
    total = scope.step(node, OpKind.REDUCE_SUM, shares, axes=axes)
    whole = scope.step(node, OpKind.ADD, scope.step(node, OpKind.LOG, total), most)
    return _drop_axes(scope, node, whole, axes)


def _extreme_index(kind: OpKind) -> Translate:
    """Return the first (or last) position of the extreme: the smallest (largest) number of a ramp,
    pushed out of range elsewhere."""

    def translate(scope: Scope, node: Node) -> str:
        x = scope.tensor(node, 0)
        shape = scope.shape(x)
        axis = resolve_axis(node, node.int("axis", 0), len(shape))
        best = scope.step(node, kind, x, axes=(axis,))
        pair = (x, best) if kind is OpKind.REDUCE_MAX else (best, x)
        short = scope.step(node, OpKind.LESS, *pair)
        last, extent = node.int("select_last_index", 0), shape[axis]
        push = scope.constant(node, -extent if last else extent, "push")
        ramp = np.arange(extent, dtype=np.float32).reshape(-1, *(1,) * (len(shape) - 1 - axis))
        out = scope.step(node, OpKind.MUL, short, push)
        places = scope.step(node, OpKind.ADD, out, scope.constant(node, ramp, "places"))
        reduce = OpKind.REDUCE_MAX if last else OpKind.REDUCE_MIN
        return _drop_axes(scope, node, scope.step(node, reduce, places, axes=(axis,)), (axis,))

    return translate


def _cumulative_sum(scope: Scope, node: Node) -> str:
    """Emit a sliding sum over the whole axis, shifted by one if it is exclusive. No product is
    taken: an infinity stays where it counts."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, int(scope.array(node, 1).reshape(())), len(shape))
    flat = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    x = scope.step(node, OpKind.RESHAPE, x, shape=flat)
    reverse, reach = bool(node.int("reverse", 0)), flat[1] - 1
    if node.int("exclusive", 0):
        x = _shift(scope, node, x, -1 if reverse else 1)
    before, after = (0, reach) if reverse else (reach, 0)
    total = scope.step(node, OpKind.SLIDING_SUM, x, axis=1, before=before, after=after)
    return scope.result(node, OpKind.RESHAPE, total, shape=shape)


def _cumulative_product(scope: Scope, node: Node) -> str:
    """Multiply by the elements 1, 2, 4, … positions before, each of which covers twice as many."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, int(scope.array(node, 1).reshape(())), len(shape))
    flat = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    x = scope.step(node, OpKind.RESHAPE, x, shape=flat)
    sign = -1 if node.int("reverse", 0) else 1
    if node.int("exclusive", 0):
        x = _shift(scope, node, x, sign, 1.0)
    reach = 1
    while reach < flat[1]:
        x = scope.step(node, OpKind.MUL, x, _shift(scope, node, x, sign * reach, 1.0))
        reach *= 2
    return scope.result(node, OpKind.RESHAPE, x, shape=shape)


def _shift(scope: Scope, node: Node, x: str, places: int, value: float = 0.0) -> str:
    """Shift a tensor of rank 3 along axis 1; ``value`` fills the free positions."""
    front, back = max(places, 0), max(-places, 0)
    shape = scope.shape(x)
    padded = scope.step(node, OpKind.PAD, x, before=(0, front, 0), after=(0, back, 0), value=value)
    starts = (0, back, 0)
    return scope.step(node, OpKind.SLICE, padded, starts=starts, steps=(1, 1, 1), sizes=shape)


def _softmax(scope: Scope, node: Node) -> str:
    """Translate Softmax; before opset 13 the input is a matrix, split at ``axis`` (default 1)."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    if node.opset >= 13:
        axis = resolve_axis(node, node.int("axis", -1), len(shape))
        return scope.result(node, OpKind.SOFTMAX, x, axis=axis)
    axis = resolve_axis(node, node.int("axis", 1), len(shape))
    if math.prod(shape[axis + 1 :]) == 1:
        return scope.result(node, OpKind.SOFTMAX, x, axis=axis)
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    flat = scope.step(node, OpKind.RESHAPE, x, shape=matrix)
    return scope.reshape_result(node, scope.step(node, OpKind.SOFTMAX, flat, axis=1), shape)


def _log_softmax(scope: Scope, node: Node) -> str:
    """(x − max) − ln Σ exp(x − max) over the rows of Softmax."""
    x = scope.tensor(node, 0)
    shape, old = scope.shape(x), node.opset < 13
    axis = resolve_axis(node, node.int("axis", 1 if old else -1), len(shape))
    axes: tuple[int, ...] = (axis,)
    if old:
        x = scope.step(
            node, OpKind.RESHAPE, x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:]))
        )
        axes = (1,)
    below = scope.step(node, OpKind.SUB, x, scope.step(node, OpKind.REDUCE_MAX, x, axes=axes))
    total = scope.step(node, OpKind.REDUCE_SUM, scope.step(node, OpKind.EXP, below), axes=axes)
    y = scope.step(node, OpKind.SUB, below, scope.step(node, OpKind.LOG, total))
    return scope.reshape_result(node, y, shape)


def expand_parameter(
    scope: Scope, node: Node, index: int, shape: tuple[int, ...], role: str
) -> str:
    """Expand a layer-norm parameter to the full normalised shape if its value is known."""
    tensor = scope.tensor(node, index)
    if scope.shape(tensor) == shape or not scope.is_array(node.inputs[index]):
        return tensor
    value = scope.array(node, index)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if len(aligned) != len(shape) or any(
        have not in (1, want) for have, want in zip(aligned, shape, strict=True)
    ):
        raise ModelError(f"{node.label}: {role} {list(value.shape)} does not fit {list(shape)}")
    return scope.constant(node, np.ascontiguousarray(np.broadcast_to(value, shape)), role)


REDUCTION: dict[str, Translate] = {
    **{row.onnx: _reduction(row.kind) for row in OPERATORS.values() if row.family is Family.REDUCE},
    "ReduceL1": _reduction(OpKind.REDUCE_SUM, before=_apply(OpKind.ABS)),
    "ReduceL2": _reduction(OpKind.REDUCE_SUM, before=_squared, after=_apply(OpKind.SQRT)),
    "ReduceSumSquare": _reduction(OpKind.REDUCE_SUM, before=_squared),
    "ReduceLogSum": _reduction(OpKind.REDUCE_SUM, after=_apply(OpKind.LOG)),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _extreme_index(OpKind.REDUCE_MAX),
    "CumSum": _cumulative_sum,
    "CumProd": _cumulative_product,
    "ArgMin": _extreme_index(OpKind.REDUCE_MIN),
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
}
