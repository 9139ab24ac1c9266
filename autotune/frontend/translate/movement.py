"""ONNX operators that only rearrange values or pass them on."""

from __future__ import annotations

import math

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.constant_folding import target_shape
from autotune.frontend.translate.rearrangement import permute
from autotune.frontend.translate.reduction import axes_of, resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.axes import MAX_MOVED_AXES
from autotune.operators.op import OpKind


def _reshape(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    wanted = tuple(int(v) for v in np.ravel(np.asarray(scope.array(node, 1), np.int64)))
    return scope.reshape_result(node, x, target_shape(node, scope.shape(x), wanted))


def _flatten(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = node.int("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"{node.label}: Flatten axis {axis} is outside rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return scope.reshape_result(node, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _transpose(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    rank = len(scope.shape(x))
    perm = node.ints("perm") or tuple(reversed(range(rank)))
    if perm == tuple(range(rank)):
        return x
    if rank > MAX_MOVED_AXES:
        shape = scope.shape(x)
        return permute(scope, node, x, shape, perm, [shape[axis] for axis in perm])
    return scope.result(node, OpKind.TRANSPOSE, x, perm=perm)


def _squeeze(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axes = axes_of(scope, node, len(shape))
    if axes is None:
        axes = tuple(i for i, extent in enumerate(shape) if extent == 1)
    if any(shape[axis] != 1 for axis in axes):
        raise ModelError(f"{node.label}: Squeeze of axes {list(axes)} of shape {list(shape)}")
    return scope.reshape_result(node, x, tuple(e for i, e in enumerate(shape) if i not in axes))


def _unsqueeze(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    positions = node.ints("axes")
    if positions is None:
        positions = tuple(int(v) for v in np.ravel(np.asarray(scope.array(node, 1), np.int64)))
    rank = len(shape) + len(positions)
    axes = {resolve_axis(node, axis, rank) for axis in positions}
    if len(axes) != len(positions):
        raise ModelError(f"{node.label}: Unsqueeze axes {list(positions)} repeat one axis")
    rest = iter(shape)
    return scope.reshape_result(node, x, tuple(1 if i in axes else next(rest) for i in range(rank)))


def _concat(scope: Scope, node: Node) -> str:
    full = [i for i, x in enumerate(node.inputs) if x not in scope.arrays or scope.arrays[x].size]
    tensors = [scope.tensor(node, i) for i in full]
    axis = resolve_axis(node, node.int("axis", 1), len(scope.shape(tensors[0])))
    if len(tensors) == 1:
        return tensors[0]
    return scope.result(node, OpKind.CONCAT, *tensors, axis=axis)


def _identity(scope: Scope, node: Node) -> str:
    return scope.tensor(node, 0)


def _dropout(scope: Scope, node: Node) -> str:
    if node.has_input(2) and bool(np.any(scope.array(node, 2))):
        ratio = float(np.ravel(scope.array(node, 1))[0]) if node.has_input(1) else 0.5
        if ratio != 0:
            raise ModelError(
                f"{node.label}: Dropout in training mode; export the model for inference"
            )
    if len(node.outputs) > 1 and node.outputs[1]:
        everything = np.ones(scope.shape(scope.tensor(node, 0)), np.bool_)
        scope.give_known(node, 1, everything)
    return scope.tensor(node, 0)


MOVEMENT: dict[str, Translate] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Identity": _identity,
    "Dropout": _dropout,
}
