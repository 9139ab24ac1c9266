"""ONNX operators that reduce or normalise along axes."""

from __future__ import annotations

import math

import numpy as np

from autotune.errors import ModelError
from autotune.graph.onnx_ops.scope import Node, Scope, Translate
from autotune.graph.op import OpKind


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


def _reduced(kind: OpKind) -> Translate:
    def translate(scope: Scope, node: Node) -> str:
        x = scope.tensor(node, 0)
        shape = scope.shape(x)
        axes = axes_of(scope, node, len(shape))
        if not axes and node.int("noop_with_empty_axes", 0):
            return x
        axes = axes or tuple(range(len(shape)))
        if not axes:
            return x
        if node.int("keepdims", 1):
            return scope.result(node, kind, x, axes=axes)
        kept = tuple(extent for i, extent in enumerate(shape) if i not in axes)
        return scope.reshaped(node, scope.step(node, kind, x, axes=axes), kept)

    return translate


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


def _spread(scope: Scope, node: Node, index: int, shape: tuple[int, ...], role: str) -> str:
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


def _layer_norm(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = checked_axis(node, node.int("axis", -1), len(shape))
    parameters = [_spread(scope, node, 1, shape[axis:], "scale")]
    if node.has_input(2):
        parameters.append(_spread(scope, node, 2, shape[axis:], "bias"))
    epsilon = node.float("epsilon", 1e-5)
    return scope.result(node, OpKind.LAYER_NORM, x, *parameters, axis=axis, epsilon=epsilon)


REDUCTION: dict[str, Translate] = {
    "ReduceMean": _reduced(OpKind.REDUCE_MEAN),
    "ReduceSum": _reduced(OpKind.REDUCE_SUM),
    "ReduceMax": _reduced(OpKind.REDUCE_MAX),
    "Softmax": _softmax,
    "LayerNormalization": _layer_norm,
}
