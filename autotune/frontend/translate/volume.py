"""ONNX's Conv over three spatial axes: a sum of convolutions over the images of a volume.

y[d] = Σₖ x[d · stride + k · dilation] ∗ w[k]: all output slices of one tap are one batch of images.
"""

from __future__ import annotations

from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run, padded, part, seen_as, turned
from autotune.frontend.translate.scope import Scope
from autotune.frontend.translate.window_axes import Window
from autotune.operators.op import OpKind

DEPTH = 2
"""Axis of the slices of [N, C, D, H, W] and of a weight [M, C, KD, KH, KW]."""


def convolved_volume(scope: Scope, node: Node, window: Window) -> str:
    """The convolution of a node whose input has rank 5."""
    x, w = scope.tensor(node, 0), scope.tensor(node, 1)
    batch = scope.shape(x)[0]
    slices = _slices(scope, node, x, window)
    count = (scope.shape(slices)[1] - window.dilations[0] * (window.kernel[0] - 1) - 1) // (
        window.strides[0]
    ) + 1
    attrs = window.part(slice(1, 3)).conv(node.int("group", 1))
    total = ""
    for tap in range(window.kernel[0]):
        taken = part(
            scope, node, slices, 1, Run(tap * window.dilations[0], window.strides[0], count)
        )
        images = seen_as(scope, node, taken, (batch * count, *scope.shape(taken)[2:]))
        weight = part(scope, node, w, DEPTH, Run(tap, 1, 1))
        shape = scope.shape(weight)
        plane = seen_as(scope, node, weight, (*shape[:DEPTH], *shape[DEPTH + 1 :]))
        bias = (scope.tensor(node, 2),) if node.has_input(2) and not total else ()
        y = scope.step(node, OpKind.CONV, images, plane, *bias, **attrs)
        total = scope.step(node, OpKind.ADD, total, y) if total else y
    _, channels, rows, columns = scope.shape(total)
    made = (batch, count, channels, rows, columns)
    return turned(
        scope, node, total, made, (0, 2, 1, 3, 4), (batch, channels, count, rows, columns)
    )


def _slices(scope: Scope, node: Node, x: str, window: Window) -> str:
    """[N, D, C, H, W] with the padding of D around it."""
    n, c, slices, rows, columns = scope.shape(x)
    shape = (n, slices, c, rows, columns)
    upright = turned(scope, node, x, scope.shape(x), (0, 2, 1, 3, 4), shape)
    before, after = ((0, side, 0, 0, 0) for side in (window.before[0], window.after[0]))
    return padded(scope, node, upright, before, after)
