"""ONNX operators that resize axes: Resize, Upsample.

What takes one element each is slices and repeats; what weighs several is a product with a constant
matrix, axis by axis, since interpolation separates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.indexing import indexed
from autotune.frontend.translate.interpolation import (
    COORDINATES,
    NEAREST,
    Resizing,
    matrix,
    nearest_indices,
)
from autotune.frontend.translate.rearrangement import seen_as
from autotune.frontend.translate.reduction import checked_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind


@dataclass(frozen=True, slots=True)
class _Request:
    """What a node asks for: factors or extents of some axes."""

    axes: tuple[int, ...]
    scales: tuple[float, ...] | None
    sizes: tuple[int, ...] | None
    roi: tuple[float, ...] | None


def _numbers(scope: Scope, node: Node, index: int) -> tuple[float, ...] | None:
    """A constant input; None where it is left out or empty."""
    if not node.has_input(index):
        return None
    found = tuple(float(v) for v in np.ravel(scope.array(node, index)))
    return found or None


def _request(scope: Scope, node: Node, rank: int) -> _Request:
    axes = tuple(checked_axis(node, a, rank) for a in node.ints("axes") or range(rank))
    if node.opset < 11:
        attribute = node.attrs.get("scales")
        scales = tuple(map(float, attribute)) if isinstance(attribute, list) else None
        return _Request(axes, scales or _numbers(scope, node, 1), None, None)
    roi, scales, sizes = (_numbers(scope, node, index) for index in (1, 2, 3))
    return _Request(axes, scales, None if sizes is None else tuple(map(int, sizes)), roi)


def _resized_axes(node: Node, shape: tuple[int, ...], want: _Request) -> dict[int, Resizing]:
    """The axes that change, by number."""
    default = "asymmetric" if node.opset < 11 else "half_pixel"
    mode = node.text("coordinate_transformation_mode", default)
    given = want.scales if want.sizes is None else want.sizes
    if mode not in COORDINATES or given is None or len(given) != len(want.axes):
        raise ModelError(
            f"{node.label}: {node.operator} by {mode} of {len(want.axes)} axes with scales "
            f"{want.scales} and sizes {want.sizes}; one number per axis is needed"
        )
    extents = [shape[axis] for axis in want.axes]
    scales, results = _scaled(node, extents, want)
    found: dict[int, Resizing] = {}
    for i, axis in enumerate(want.axes):
        roi = (0.0, 1.0)
        if mode == "tf_crop_and_resize" and want.roi is not None:
            roi = (want.roi[i], want.roi[i + len(want.axes)])
        if results[i] < 1:
            raise ModelError(f"{node.label}: {node.operator} leaves nothing of axis {axis}")
        resizing = Resizing(extents[i], results[i], scales[i], mode, roi)
        if not resizing.is_identity:
            found[axis] = resizing
    return found


def _scaled(node: Node, extents: list[int], want: _Request) -> tuple[list[float], list[int]]:
    """Factors and results of the axes that a node names."""
    if want.sizes is None:
        assert want.scales is not None
        scales = list(want.scales)
        return scales, [math.floor(n * s) for n, s in zip(extents, scales, strict=True)]
    scales = [size / n for size, n in zip(want.sizes, extents, strict=True)]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales, list(want.sizes)
    common = min(scales) if policy == "not_larger" else max(scales)
    return [common] * len(scales), [math.floor(n * common + 0.5) for n in extents]


def _weighted(scope: Scope, node: Node, x: str, axis: int, weights: np.ndarray) -> str:
    """One axis of ``x`` through ``weights`` [result, extent]."""
    shape = scope.shape(x)
    inner = math.prod(shape[axis + 1 :])
    result = (*shape[:axis], weights.shape[0], *shape[axis + 1 :])
    constant = scope.constant(node, weights, f"axis{axis}")
    if inner == 1:
        rows = seen_as(scope, node, x, (math.prod(shape[:axis]), shape[axis]))
        y = scope.step(node, OpKind.MATMUL, rows, constant, trans_a=0, trans_b=1)
    else:
        columns = seen_as(scope, node, x, (math.prod(shape[:axis]), shape[axis], inner))
        y = scope.step(node, OpKind.MATMUL, constant, columns, trans_a=0, trans_b=0)
    return seen_as(scope, node, y, result)


def _resize(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axes = _resized_axes(node, shape, _request(scope, node, len(shape)))
    mode = node.text("mode", "nearest")
    # shrinking axes first leaves less to do for the others
    for axis, resizing in sorted(axes.items(), key=lambda item: item[1].scale):
        if mode == "nearest":
            rounding = node.text("nearest_mode", "floor" if node.opset < 11 else NEAREST[0])
            x = indexed(scope, node, x, axis, nearest_indices(resizing, rounding))
            continue
        if mode not in ("linear", "cubic"):
            raise ModelError(f"{node.label}: {node.operator} mode {mode!r} is not known")
        cubic = node.float("cubic_coeff_a", -0.75) if mode == "cubic" else None
        antialias, exclude = (bool(node.int(n, 0)) for n in ("antialias", "exclude_outside"))
        x = _weighted(scope, node, x, axis, matrix(resizing, cubic, antialias, exclude))
    return _extrapolated(scope, node, x, axes)


def _extrapolated(scope: Scope, node: Node, x: str, axes: dict[int, Resizing]) -> str:
    """Another value where some axis of the result lies outside of the input; nearest elements
    there are dropped, be they infinite, weighed ones are 0 already."""
    masks = [
        resizing.inside().reshape([-1 if d == axis else 1 for d in range(len(scope.shape(x)))])
        for axis, resizing in axes.items()
    ]
    if all(mask.all() for mask in masks):
        return x
    inside = np.asarray(reduce(np.logical_and, masks), np.float32)
    value = np.float32(node.float("extrapolation_value", 0.0))
    if node.text("mode", "nearest") == "nearest":
        x = scope.step(node, OpKind.KEEP_IF, x, scope.constant(node, inside, "inside"))
    outside = scope.constant(node, (1 - inside) * value, "outside")
    return scope.step(node, OpKind.ADD, x, outside)


RESIZE: dict[str, Translate] = {"Resize": _resize, "Upsample": _resize}
