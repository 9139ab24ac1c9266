"""ONNX operators that reduce or normalise along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind
from autotune.operators.tensor import FLOAT_MAX


def checked_axis(node: Node, axis: int, rank: int) -> int:
    """A possibly negative axis as a position in 0..rank−1."""
    if not -rank <= axis < rank:
        raise ModelError(f"{node.label}: axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def axes_of(scope: Scope, node: Node, rank: int) -> tuple[int, ...] | None:
    """Sorted axes from the attribute (old opsets) or the second input (new); None when absent."""
    axes = node.ints("axes")
    if axes is None and node.has_input(1):
        axes = tuple(int(v) for v in np.ravel(np.asarray(scope.array(node, 1), np.int64)))
    if axes is None:
        return None
    return tuple(sorted({checked_axis(node, axis, rank) for axis in axes}))


Step = Callable[[Scope, Node, str], str]
"""Emits an operator over a tensor on the way to a node's output."""


def _apply(kind: OpKind) -> Step:
    return lambda scope, node, x: scope.step(node, kind, x)


def _squared(scope: Scope, node: Node, x: str) -> str:
    return scope.step(node, OpKind.MUL, x, x)


def _reduced(kind: OpKind, before: Step | None = None, after: Step | None = None) -> Translate:
    """A reduction with what is done to its operand and to its result."""

    def translate(scope: Scope, node: Node) -> str:
        x = scope.tensor(node, 0)
        axes = _reduced_axes(scope, node, x)
        x = before(scope, node, x) if before is not None else x
        if not axes:
            return after(scope, node, x) if after is not None else x
        last = after is None and node.int("keepdims", 1)
        total = (scope.result if last else scope.step)(node, kind, x, axes=axes)
        total = after(scope, node, total) if after is not None else total
        return _kept(scope, node, total, axes)

    return translate


def _reduced_axes(scope: Scope, node: Node, x: str) -> tuple[int, ...]:
    """The axes to reduce over: none for a scalar, or where the node asks for none."""
    rank = len(scope.shape(x))
    axes = axes_of(scope, node, rank)
    if not axes and node.int("noop_with_empty_axes", 0):
        return ()
    return axes or tuple(range(rank))


def _kept(scope: Scope, node: Node, total: str, axes: Sequence[int]) -> str:
    """The reduced axes left out, unless the node keeps them."""
    if node.int("keepdims", 1):
        return total
    kept = tuple(extent for i, extent in enumerate(scope.shape(total)) if i not in axes)
    return scope.reshaped(node, total, kept)


def _log_sum_exp(scope: Scope, node: Node) -> str:
    """max + ln Σ exp(x − max), the maximum kept finite: infinities meet no other of their sign."""
    x = scope.tensor(node, 0)
    axes = _reduced_axes(scope, node, x)
    if not axes:
        return x
    most = scope.step(node, OpKind.REDUCE_MAX, x, axes=axes)
    most = scope.step(node, OpKind.CLIP, most, min=-FLOAT_MAX, max=FLOAT_MAX)
    shares = scope.step(node, OpKind.EXP, scope.step(node, OpKind.SUB, x, most))
    total = scope.step(node, OpKind.REDUCE_SUM, shares, axes=axes)
    whole = scope.step(node, OpKind.ADD, scope.step(node, OpKind.LOG, total), most)
    return _kept(scope, node, whole, axes)


def _extreme_index(kind: OpKind) -> Translate:
    """The first (or last) place along an axis that holds the extreme: the smallest (largest)
    number of a ramp of places, pushed out of range where the element is not the extreme."""

    def translate(scope: Scope, node: Node) -> str:
        x = scope.tensor(node, 0)
        shape = scope.shape(x)
        axis = checked_axis(node, node.int("axis", 0), len(shape))
        best = scope.step(node, kind, x, axes=(axis,))
        pair = (x, best) if kind is OpKind.REDUCE_MAX else (best, x)
        short = scope.step(node, OpKind.LESS, *pair)
        last, extent = node.int("select_last_index", 0), shape[axis]
        push = scope.constant(node, -extent if last else extent, "push")
        ramp = np.arange(extent, dtype=np.float32).reshape(-1, *(1,) * (len(shape) - 1 - axis))
        out = scope.step(node, OpKind.MUL, short, push)
        places = scope.step(node, OpKind.ADD, out, scope.constant(node, ramp, "places"))
        found = OpKind.REDUCE_MAX if last else OpKind.REDUCE_MIN
        return _kept(scope, node, scope.step(node, found, places, axes=(axis,)), (axis,))

    return translate


def _cumulated(scope: Scope, node: Node) -> str:
    """A sum that slides over the whole axis; where it leaves out its own element, over the axis
    moved by one. No product is taken: an infinity stays where it counts."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = checked_axis(node, int(scope.array(node, 1).reshape(())), len(shape))
    flat = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    x = scope.step(node, OpKind.RESHAPE, x, shape=flat)
    reverse, reach = bool(node.int("reverse", 0)), flat[1] - 1
    if node.int("exclusive", 0):
        x = _moved(scope, node, x, -1 if reverse else 1)
    before, after = (0, reach) if reverse else (reach, 0)
    total = scope.step(node, OpKind.SLIDING_SUM, x, axis=1, before=before, after=after)
    return scope.result(node, OpKind.RESHAPE, total, shape=shape)


def _multiplied(scope: Scope, node: Node) -> str:
    """Products with what stands 1, 2, 4, … places before, each of twice as many elements."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = checked_axis(node, int(scope.array(node, 1).reshape(())), len(shape))
    flat = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    x = scope.step(node, OpKind.RESHAPE, x, shape=flat)
    sign = -1 if node.int("reverse", 0) else 1
    if node.int("exclusive", 0):
        x = _moved(scope, node, x, sign, 1.0)
    reach = 1
    while reach < flat[1]:
        x = scope.step(node, OpKind.MUL, x, _moved(scope, node, x, sign * reach, 1.0))
        reach *= 2
    return scope.result(node, OpKind.RESHAPE, x, shape=shape)


def _moved(scope: Scope, node: Node, x: str, places: int, value: float = 0.0) -> str:
    """A tensor of rank 3 moved along its axis 1, ``value`` in the places that get free."""
    front, back = max(places, 0), max(-places, 0)
    shape = scope.shape(x)
    padded = scope.step(node, OpKind.PAD, x, before=(0, front, 0), after=(0, back, 0), value=value)
    starts = (0, back, 0)
    return scope.step(node, OpKind.SLICE, padded, starts=starts, steps=(1, 1, 1), sizes=shape)


def _softmax(scope: Scope, node: Node) -> str:
    """Before opset 13 the input counts as a matrix, split at ``axis`` (default 1)."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    if node.opset >= 13:
        axis = checked_axis(node, node.int("axis", -1), len(shape))
        return scope.result(node, OpKind.SOFTMAX, x, axis=axis)
    axis = checked_axis(node, node.int("axis", 1), len(shape))
    if math.prod(shape[axis + 1 :]) == 1:
        return scope.result(node, OpKind.SOFTMAX, x, axis=axis)
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    flat = scope.step(node, OpKind.RESHAPE, x, shape=matrix)
    return scope.reshaped(node, scope.step(node, OpKind.SOFTMAX, flat, axis=1), shape)


def _log_softmax(scope: Scope, node: Node) -> str:
    """(x − max) − ln Σ exp(x − max); rows as Softmax takes them."""
    x = scope.tensor(node, 0)
    shape, old = scope.shape(x), node.opset < 13
    axis = checked_axis(node, node.int("axis", 1 if old else -1), len(shape))
    axes: tuple[int, ...] = (axis,)
    if old:
        x = scope.step(
            node, OpKind.RESHAPE, x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:]))
        )
        axes = (1,)
    below = scope.step(node, OpKind.SUB, x, scope.step(node, OpKind.REDUCE_MAX, x, axes=axes))
    total = scope.step(node, OpKind.REDUCE_SUM, scope.step(node, OpKind.EXP, below), axes=axes)
    y = scope.step(node, OpKind.SUB, below, scope.step(node, OpKind.LOG, total))
    return scope.reshaped(node, y, shape)


def spread(scope: Scope, node: Node, index: int, shape: tuple[int, ...], role: str) -> str:
    """A layer-norm parameter in the full normalised shape, broadcast when its value is known."""
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
    "ReduceMean": _reduced(OpKind.REDUCE_MEAN),
    "ReduceSum": _reduced(OpKind.REDUCE_SUM),
    "ReduceMax": _reduced(OpKind.REDUCE_MAX),
    "ReduceMin": _reduced(OpKind.REDUCE_MIN),
    "ReduceProd": _reduced(OpKind.REDUCE_PROD),
    "ReduceL1": _reduced(OpKind.REDUCE_SUM, before=_apply(OpKind.ABS)),
    "ReduceL2": _reduced(OpKind.REDUCE_SUM, before=_squared, after=_apply(OpKind.SQRT)),
    "ReduceSumSquare": _reduced(OpKind.REDUCE_SUM, before=_squared),
    "ReduceLogSum": _reduced(OpKind.REDUCE_SUM, after=_apply(OpKind.LOG)),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _extreme_index(OpKind.REDUCE_MAX),
    "CumSum": _cumulated,
    "CumProd": _multiplied,
    "ArgMin": _extreme_index(OpKind.REDUCE_MIN),
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
}
