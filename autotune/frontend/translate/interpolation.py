"""How one axis is resized: which input elements every output element takes, with what weights.

The conventions are those of ONNX's Resize (operator set 19); all is computed in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    """One axis: ``extent`` elements become ``result`` of them, ``scale`` times as many before
    rounding. ``roi`` is the part that tf_crop_and_resize takes, from 0 to 1."""

    extent: int
    result: int
    scale: float
    coordinates: str
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def is_identity(self) -> bool:
        """Whether every element stays what and where it is."""
        same = self.extent == self.result and self.scale == 1.0
        return same and (self.coordinates != "tf_crop_and_resize" or self.roi == (0.0, 1.0))

    def positions(self) -> Floats:
        """Where every output element lies among the input's, [result]."""
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
        """Output elements that have a value of their own: tf_crop_and_resize gives those whose place
        is outside of the input another one."""
        if self.coordinates != "tf_crop_and_resize":
            return np.ones(self.result, bool)
        at = self.positions()
        return (at >= 0) & (at <= self.extent - 1)


def nearest_indices(axis: Resizing, rounding: str) -> list[int]:
    """The input element that every output element is."""
    at = axis.positions()
    match rounding:
        case "floor":
            found = np.floor(at)
        case "ceil":
            found = np.ceil(at)
        case "round_prefer_ceil":
            found = np.floor(at + 0.5)
        case _:
            found = np.ceil(at - 0.5)
    return [int(i) for i in np.clip(found, 0, axis.extent - 1)]


def linear_weights(ratio: float, scale: float) -> Floats:
    """A triangle two elements wide, wider by 1 / ``scale`` where that is below 1."""
    start = math.floor(-1 / scale) + 1
    found = np.clip(1 - np.abs((np.arange(start, 2 - start) - ratio) * scale), 0, 1)
    return np.asarray(found / found.sum())


def cubic_weights(ratio: float, scale: float, a: float) -> Floats:
    """The cubic convolution of Keys (1981), four elements wide, wider by 1 / ``scale`` below 1."""
    start = math.floor(-2 / scale) + 1
    x = np.abs((np.arange(start, 2 - start) - ratio) * scale)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    found = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return np.asarray(found / found.sum())


def matrix(axis: Resizing, cubic: float | None, antialias: bool, exclude_outside: bool) -> Floats:
    """Weights [result, extent] of a linear interpolation, or of a cubic one with that coefficient.
    Elements beyond a border are the one at the border, or left out if ``exclude_outside``."""
    found = np.zeros((axis.result, axis.extent))
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
        np.add.at(found[row], np.clip(taken, 0, axis.extent - 1), weights)
    return found
