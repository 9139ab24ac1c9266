"""ONNX operators that resize axes: Resize, Upsample.

Nearest-neighbour resizing is slices and repeats. Interpolation separates, so that each axis is a
product with a constant matrix. Conventions are those of Resize (operator set 19), in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.indexing import take_indices
from autotune.frontend.translate.rearrangement import reshape
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

Floats = npt.NDArray[np.float64]

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Resizing:
    """One axis: ``extent`` elements become ``result``; ``scale`` is their unrounded ratio. ``roi``
    is the part, from 0 to 1, that tf_crop_and_resize takes."""

    extent: int
    result: int
    scale: float
    coordinates: str
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def is_identity(self) -> bool:
        """True if every element stays at its place."""
        same = self.extent == self.result and self.scale == 1.0
        return same and (self.coordinates != "tf_crop_and_resize" or self.roi == (0.0, 1.0))

    def positions(self) -> Floats:
        """Return the position of every output element in the input, [result]."""
        y, n, wide = np.arange(self.result, dtype=np.float64), self.extent, self.scale * self.extent
        match self.coordinates:
            case "align_corners":
                return y * 0.0 if wide == 1 else y * (n - 1) / (wide - 1)
            case "asymmetric":
                return y / self.scale
            case "tf_crop_and_resize":
                start, end = self.roi
                if wide == 1:
                    return y * 0.0 + (end - start) * (n - 1) / 2 + start * (n - 1)
                return y * (end - start) * (n - 1) / (wide - 1) + start * (n - 1)
            case "pytorch_half_pixel" if wide == 1:
                return y * 0.0 - 0.5
            case "half_pixel_symmetric":
                return n / 2 * (1 - self.result / wide) + (y + 0.5) / self.scale - 0.5
            case _:
                return (y + 0.5) / self.scale - 0.5

    def inside(self) -> npt.NDArray[np.bool_]:
        """Return a mask of output elements with a value of their own: tf_crop_and_resize
        extrapolates outside of the input."""
        if self.coordinates != "tf_crop_and_resize":
            return np.ones(self.result, bool)
        at = self.positions()
        return (at >= 0) & (at <= self.extent - 1)


def nearest_indices(axis: Resizing, rounding: str) -> list[int]:
    """Return the input element of every output element."""
    at = axis.positions()
    match rounding:
        case "floor":
            nearest = np.floor(at)
        case "ceil":
            nearest = np.ceil(at)
        case "round_prefer_ceil":
            nearest = np.floor(at + 0.5)
        case _:
            nearest = np.ceil(at - 0.5)
    return [int(i) for i in np.clip(nearest, 0, axis.extent - 1)]


def linear_weights(ratio: float, scale: float) -> Floats:
    """Return a triangle two elements wide, wider by 1 / ``scale`` below 1."""
    start = math.floor(-1 / scale) + 1
    weights = np.clip(1 - np.abs((np.arange(start, 2 - start) - ratio) * scale), 0, 1)
    return np.asarray(weights / weights.sum())


def cubic_weights(ratio: float, scale: float, a: float) -> Floats:
    """Return the cubic convolution of Keys (1981), four elements wide, wider by 1 / ``scale``
    below 1."""
    start = math.floor(-2 / scale) + 1
    x = np.abs((np.arange(start, 2 - start) - ratio) * scale)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    weights = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return np.asarray(weights / weights.sum())


def interpolation_matrix(
    axis: Resizing, cubic: float | None, antialias: bool, exclude_outside: bool
) -> Floats:
    """Return weights [result, extent] of a linear interpolation, or a cubic one with this
    coefficient. Elements beyond a border repeat it, or are left out with ``exclude_outside``."""
    rows = np.zeros((axis.result, axis.extent))
    width = min(axis.scale, 1.0) if antialias else 1.0
    inside = axis.inside()
    for row, at in enumerate(axis.positions()):
        if not inside[row]:
            continue
        # an element that is hit exactly counts as the right one of its neighbours
        left = math.ceil(at) - 1
        ratio = at - left
        weights = (
            linear_weights(ratio, width) if cubic is None else cubic_weights(ratio, width, cubic)
        )
        first = left - (len(weights) // 2 - 1)
        taken = np.arange(first, first + len(weights))
        if exclude_outside:
            weights = np.where((taken >= 0) & (taken < axis.extent), weights, 0.0)
            weights = weights / weights.sum()
        np.add.at(rows[row], np.clip(taken, 0, axis.extent - 1), weights)
    return rows


@dataclass(frozen=True, slots=True)
class _Request:
    """Factors or extents of axes that a node asks for."""

    axes: tuple[int, ...]
    scales: tuple[float, ...] | None
    sizes: tuple[int, ...] | None
    roi: tuple[float, ...] | None


def _numbers(scope: Scope, node: Node, index: int) -> tuple[float, ...] | None:
    """Return a constant input; None if it is absent or empty."""
    if not node.has_input(index):
        return None
    numbers = tuple(float(v) for v in np.ravel(scope.array(node, index)))
    return numbers or None


def _request(scope: Scope, node: Node, rank: int) -> _Request:
    axes = tuple(resolve_axis(node, a, rank) for a in node.ints("axes") or range(rank))
    if node.opset < 11:
        attribute = node.attrs.get("scales")
        scales = tuple(map(float, attribute)) if isinstance(attribute, list) else None
        return _Request(axes, scales or _numbers(scope, node, 1), None, None)
    roi, scales, sizes = (_numbers(scope, node, index) for index in (1, 2, 3))
    return _Request(axes, scales, None if sizes is None else tuple(map(int, sizes)), roi)


def _axes_to_resize(node: Node, shape: tuple[int, ...], want: _Request) -> dict[int, Resizing]:
    """Return the axes that change, by number."""
    default = "asymmetric" if node.opset < 11 else "half_pixel"
    mode = node.text("coordinate_transformation_mode", default)
    numbers = want.scales if want.sizes is None else want.sizes
    if mode not in COORDINATES or numbers is None or len(numbers) != len(want.axes):
        raise ModelError(
            f"{node.label}: {node.operator} by {mode} of {len(want.axes)} axes with scales "
            f"{want.scales} and sizes {want.sizes}; one number per axis is needed"
        )
    extents = [shape[axis] for axis in want.axes]
    scales, results = _scales_and_sizes(node, extents, want)
    axes: dict[int, Resizing] = {}
    for i, axis in enumerate(want.axes):
        roi = (0.0, 1.0)
        if mode == "tf_crop_and_resize" and want.roi is not None:
            roi = (want.roi[i], want.roi[i + len(want.axes)])
        if results[i] < 1:
            raise ModelError(f"{node.label}: {node.operator} leaves nothing of axis {axis}")
        resizing = Resizing(extents[i], results[i], scales[i], mode, roi)
        if not resizing.is_identity:
            axes[axis] = resizing
    return axes


def _scales_and_sizes(
    node: Node, extents: list[int], want: _Request
) -> tuple[list[float], list[int]]:
    """Return factors and results of the axes that a node names."""
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


def _apply_weights(scope: Scope, node: Node, x: str, axis: int, weights: np.ndarray) -> str:
    """Multiply one axis of ``x`` by ``weights`` [result, extent]."""
    shape = scope.shape(x)
    inner = math.prod(shape[axis + 1 :])
    result = (*shape[:axis], weights.shape[0], *shape[axis + 1 :])
    constant = scope.constant(node, weights, f"axis{axis}")
    if inner == 1:
        rows = reshape(scope, node, x, (math.prod(shape[:axis]), shape[axis]))
        y = scope.step(node, OpKind.MATMUL, rows, constant, trans_a=0, trans_b=1)
    else:
        columns = reshape(scope, node, x, (math.prod(shape[:axis]), shape[axis], inner))
        y = scope.step(node, OpKind.MATMUL, constant, columns, trans_a=0, trans_b=0)
    return reshape(scope, node, y, result)


def _resize(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axes = _axes_to_resize(node, shape, _request(scope, node, len(shape)))
    mode = node.text("mode", "nearest")
    # shrinking axes first leaves less to do for the others
    for axis, resizing in sorted(axes.items(), key=lambda item: item[1].scale):
        if mode == "nearest":
            rounding = node.text("nearest_mode", "floor" if node.opset < 11 else NEAREST[0])
            x = take_indices(scope, node, x, axis, nearest_indices(resizing, rounding))
            continue
        if mode not in ("linear", "cubic"):
            raise ModelError(f"{node.label}: {node.operator} mode {mode!r} is not known")
        cubic = node.float("cubic_coeff_a", -0.75) if mode == "cubic" else None
        antialias, exclude = (bool(node.int(n, 0)) for n in ("antialias", "exclude_outside"))
        x = _apply_weights(
            scope, node, x, axis, interpolation_matrix(resizing, cubic, antialias, exclude)
        )
    return _extrapolate(scope, node, x, axes)


def _extrapolate(scope: Scope, node: Node, x: str, axes: dict[int, Resizing]) -> str:
    """Set the extrapolation value outside of the input. Nearest elements there are dropped, even
    infinite ones; weighted ones are 0 already."""
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
