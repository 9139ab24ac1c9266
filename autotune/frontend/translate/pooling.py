"""ONNX operators that pool: maxima, means and norms over windows or whole images."""

from __future__ import annotations

import math
from collections.abc import Callable

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import pad, reshape
from autotune.frontend.translate.scope import Scope, Translate
from autotune.frontend.translate.window import (
    PLANE_RANK,
    VOLUME_RANK,
    Window,
    planar_input,
    window_of,
)
from autotune.operators.op import AttrValue, OpKind


def _pool(scope: Scope, node: Node, kind: OpKind) -> str:
    kernel = node.ints("kernel_shape")
    if kernel is None:
        raise ModelError(f"{node.label}: {node.operator} has no kernel_shape")
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    window = window_of(node, shape, kernel)
    include = kind is OpKind.AVERAGE_POOL and node.int("count_include_pad", 0) != 0
    if include and any(window.widened):
        # what ceil_mode reaches beyond the padding is not counted: the padding is made, then not either
        x = pad(scope, node, x, (0, 0, *window.before), (0, 0, *_declared_padding(window)))
        window, include = window.within_padding(), False
    extra: dict[str, AttrValue] = {}
    if kind is OpKind.AVERAGE_POOL:
        extra = {"count_include_pad": int(include)}
    if len(shape) == VOLUME_RANK:
        y, volume = _pool_volume(scope, node, kind, x, window, extra)
        return scope.reshape_result(node, y, volume)
    if len(shape) == PLANE_RANK:
        return scope.result(node, kind, x, **window.pool(), **extra)
    y = scope.step(node, kind, planar_input(scope, node, x), **window.planar().pool(), **extra)
    n, c, _, length = scope.shape(y)
    return scope.reshape_result(node, y, (n, c, length))


def _declared_padding(window: Window) -> tuple[int, ...]:
    return tuple(a - w for a, w in zip(window.after, window.widened, strict=True))


def _pool_volume(
    scope: Scope, node: Node, kind: OpKind, x: str, window: Window, extra: dict[str, AttrValue]
) -> tuple[str, tuple[int, ...]]:
    """Pool a volume; return [N, C, slices, pixels] and its shape as a volume.

    Windows are boxes, so maxima and sums separate: rows and columns of every slice come first,
    then slices.
    """
    n, c, slices, rows, columns = scope.shape(x)
    images = scope.step(node, OpKind.RESHAPE, x, shape=(n, c * slices, rows, columns))
    flat = scope.step(node, kind, images, **window.part(slice(1, 3)).pool(), **extra)
    _, _, rows, columns = scope.shape(flat)
    pixels = scope.step(node, OpKind.RESHAPE, flat, shape=(n, c, slices, rows * columns))
    deep = window.part(slice(0, 1))
    upright = Window(
        (*deep.kernel, 1), (*deep.strides, 1), (*deep.before, 0), (*deep.after, 0),
        (*deep.dilations, 1), (*deep.widened, 0),
    )  # fmt: skip
    y = scope.step(node, kind, pixels, **upright.pool(), **extra)
    return y, (n, c, scope.shape(y)[2], rows, columns)


def _root_of_powers(scope: Scope, node: Node, x: str, pooled: Callable[[str], str]) -> str:
    """(Σ |x|^p)^(1/p), where ``pooled`` sums."""
    order = node.int("p", 2)
    if order < 1:
        raise ModelError(f"{node.label}: {node.operator} with p={order}; p must be 1 or more")
    size = scope.step(node, OpKind.ABS, x)
    if order == 1:
        return pooled(size)
    if order == 2:
        return scope.step(node, OpKind.SQRT, pooled(scope.step(node, OpKind.MUL, x, x)))
    power = scope.step(node, OpKind.POW, size, scope.constant(node, order, "p"))
    root = scope.constant(node, 1 / order, "root")
    return scope.step(node, OpKind.POW, pooled(power), root)


def _lp_pool(scope: Scope, node: Node) -> str:
    """Pool a p-norm: a sum over a window is its mean, padding included, times its size."""
    kernel = node.ints("kernel_shape")
    if kernel is None:
        raise ModelError(f"{node.label}: {node.operator} has no kernel_shape")
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    window = window_of(node, shape, kernel)

    def summed(powers: str) -> str:
        wide = pad(scope, node, powers, (0, 0, *window.before), (0, 0, *window.after))
        none = (0,) * len(kernel)
        inner = Window(kernel, window.strides, none, none, window.dilations, none)
        counted: dict[str, AttrValue] = {"count_include_pad": 1}
        if len(shape) == VOLUME_RANK:
            mean, volume = _pool_volume(scope, node, OpKind.AVERAGE_POOL, wide, inner, counted)
            mean = reshape(scope, node, mean, volume)
        else:
            flat, plane = planar_input(scope, node, wide), inner.planar()
            mean = scope.step(node, OpKind.AVERAGE_POOL, flat, **plane.pool(), **counted)
        size = scope.constant(node, math.prod(kernel), "size")
        return scope.step(node, OpKind.MUL, mean, size)

    y = _root_of_powers(scope, node, x, summed)
    made = scope.shape(y)
    return scope.reshape_result(node, y, (*made[:2], *made[-len(kernel) :]))


def _global_lp_pool(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    axes = tuple(range(2, len(scope.shape(x))))
    y = _root_of_powers(scope, node, x, lambda t: scope.step(node, OpKind.REDUCE_SUM, t, axes=axes))
    return scope.reshape_result(node, y, scope.shape(y))


def _global_pool(scope: Scope, node: Node, kind: OpKind) -> str:
    x = scope.tensor(node, 0)
    rank = len(scope.shape(x))
    if rank < 3:
        raise ModelError(f"{node.label}: {node.operator} needs rank ≥ 3, got {rank}")
    return scope.result(node, kind, x, axes=tuple(range(2, rank)))


POOLING: dict[str, Translate] = {
    "MaxPool": lambda scope, node: _pool(scope, node, OpKind.MAX_POOL),
    "AveragePool": lambda scope, node: _pool(scope, node, OpKind.AVERAGE_POOL),
    "LpPool": _lp_pool,
    "GlobalLpPool": _global_lp_pool,
    "GlobalAveragePool": lambda scope, node: _global_pool(scope, node, OpKind.REDUCE_MEAN),
    "GlobalMaxPool": lambda scope, node: _global_pool(scope, node, OpKind.REDUCE_MAX),
}
