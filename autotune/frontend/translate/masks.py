"""ONNX operators with a constant mask or ramp beside the data: triangles, one-hot."""

from __future__ import annotations

import math

import numpy as np

from autotune.frontend.node import AnyArray, Node
from autotune.frontend.translate.logic import select
from autotune.frontend.translate.rearrangement import Run, slice_axis
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind


def _trilu(scope: Scope, node: Node) -> str:
    """Keep the upper or lower triangle of every matrix; the rest is 0, even in place of NaN."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    shift = int(np.asarray(scope.array(node, 1)).reshape(())) if node.has_input(1) else 0
    ones = np.ones(shape[-2:], np.float32)
    mask = np.triu(ones, shift) if node.int("upper", 1) else np.tril(ones, shift)
    return scope.result(node, OpKind.KEEP_IF, x, scope.constant(node, mask, "mask"))


def ramp(extent: int, axis: int, rank: int) -> AnyArray:
    """Return 0, 1, 2, … along one axis, to broadcast over tensors of this rank."""
    return np.arange(extent, dtype=np.float32).reshape(-1, *(1,) * (rank - 1 - axis))


def _one_hot(scope: Scope, node: Node) -> str:
    """Return ``on`` where the position along the new axis is the index, else ``off``. Indices from
    −depth on count from the end; others match nowhere."""
    indices = scope.tensor(node, 0)
    depth = int(np.asarray(scope.array(node, 1)).reshape(()))
    shape = scope.shape(indices)
    axis = resolve_axis(node, node.int("axis", -1), len(shape) + 1)
    column = scope.step(node, OpKind.RESHAPE, indices, shape=(*shape[:axis], 1, *shape[axis:]))
    places = ramp(depth, axis, len(shape) + 1)
    hits = [
        scope.step(node, OpKind.EQUAL, column, scope.constant(node, places - back, "places"))
        for back in (0, depth)
    ]
    hit = scope.step(node, OpKind.ADD, *hits)
    return _between(scope, node, hit)


def _between(scope: Scope, node: Node, hit: str) -> str:
    """Return the second of two values where ``hit`` is 1, else the first."""
    values = scope.tensor(node, 2)
    off, on = (slice_axis(scope, node, values, 0, Run(place, 1, 1)) for place in range(2))
    return select(scope, node, hit, on, off)


def _hardmax(scope: Scope, node: Node) -> str:
    """Return 1 at the first maximum along an axis, else 0; before opset 13 a row spans all axes
    from it on."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, node.int("axis", -1 if node.opset >= 13 else 1), len(shape))
    if node.opset < 13:
        x = scope.step(
            node, OpKind.RESHAPE, x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:]))
        )
        axis = 1
    rows = scope.shape(x)
    extent = rows[axis]
    most = scope.step(node, OpKind.REDUCE_MAX, x, axes=(axis,))
    below = scope.step(node, OpKind.LESS, x, most)
    push = scope.step(node, OpKind.MUL, below, scope.constant(node, extent, "push"))
    places = scope.constant(node, ramp(extent, axis, len(rows)), "places")
    first = scope.step(
        node, OpKind.REDUCE_MIN, scope.step(node, OpKind.ADD, push, places), axes=(axis,)
    )
    return scope.reshape_result(node, scope.step(node, OpKind.EQUAL, places, first), shape)


MASKS: dict[str, Translate] = {
    "Trilu": _trilu,
    "OneHot": _one_hot,
    "Hardmax": _hardmax,
}
