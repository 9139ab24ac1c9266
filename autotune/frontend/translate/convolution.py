"""ONNX's Conv over one to three spatial axes.

A convolution of volumes is a sum of convolutions of images: y[d] = Σₖ x[d · stride + k · dilation] ∗ w[k].
All output slices of one tap are one batch of images.
"""

from __future__ import annotations

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run, pad, permute, reshape, slice_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.frontend.translate.window import VOLUME_RANK, Window, planar_input, window_of
from autotune.operators.op import OpKind

DEPTH = 2
"""Axis of slices of [N, C, D, H, W], and of a weight [M, C, KD, KH, KW]."""


def _conv(scope: Scope, node: Node) -> str:
    x, w = scope.tensor(node, 0), scope.tensor(node, 1)
    x_shape, w_shape = scope.shape(x), scope.shape(w)
    kernel = node.ints("kernel_shape") or w_shape[2:]
    if kernel != w_shape[2:]:
        raise ModelError(
            f"{node.label}: kernel_shape {list(kernel)} differs from the weight {list(w_shape)}"
        )
    window = window_of(node, x_shape, kernel)
    if len(x_shape) == VOLUME_RANK:
        return _conv_volume(scope, node, window)
    attrs = window.planar().conv(node.int("group", 1))
    rest = (scope.tensor(node, 2),) if node.has_input(2) else ()
    if len(x_shape) == 4:
        return scope.result(node, OpKind.CONV, x, w, *rest, **attrs)
    x, w = planar_input(scope, node, x), planar_input(scope, node, w)
    y = scope.step(node, OpKind.CONV, x, w, *rest, **attrs)
    n, m, _, length = scope.shape(y)
    return scope.reshape_result(node, y, (n, m, length))


def _conv_volume(scope: Scope, node: Node, window: Window) -> str:
    """Convolve an input of rank 5."""
    x, w = scope.tensor(node, 0), scope.tensor(node, 1)
    batch = scope.shape(x)[0]
    slices = _slices(scope, node, x, window)
    count = (scope.shape(slices)[1] - window.dilations[0] * (window.kernel[0] - 1) - 1) // (
        window.strides[0]
    ) + 1
    attrs = window.part(slice(1, 3)).conv(node.int("group", 1))
    total = ""
    for tap in range(window.kernel[0]):
        taken = slice_axis(
            scope, node, slices, 1, Run(tap * window.dilations[0], window.strides[0], count)
        )
        images = reshape(scope, node, taken, (batch * count, *scope.shape(taken)[2:]))
        weight = slice_axis(scope, node, w, DEPTH, Run(tap, 1, 1))
        shape = scope.shape(weight)
        plane = reshape(scope, node, weight, (*shape[:DEPTH], *shape[DEPTH + 1 :]))
        bias = (scope.tensor(node, 2),) if node.has_input(2) and not total else ()
        y = scope.step(node, OpKind.CONV, images, plane, *bias, **attrs)
        total = scope.step(node, OpKind.ADD, total, y) if total else y
    _, channels, rows, columns = scope.shape(total)
    made = (batch, count, channels, rows, columns)
    return permute(
        scope, node, total, made, (0, 2, 1, 3, 4), (batch, channels, count, rows, columns)
    )


def _slices(scope: Scope, node: Node, x: str, window: Window) -> str:
    """Return [N, D, C, H, W] with padding around D."""
    n, c, slices, rows, columns = scope.shape(x)
    shape = (n, slices, c, rows, columns)
    upright = permute(scope, node, x, scope.shape(x), (0, 2, 1, 3, 4), shape)
    before, after = ((0, side, 0, 0, 0) for side in (window.before[0], window.after[0]))
    return pad(scope, node, upright, before, after)


CONVOLUTION: dict[str, Translate] = {"Conv": _conv}
