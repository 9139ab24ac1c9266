"""Patches: the operand of a convolution as one column of window × channels per pixel of its result (im2col),
which DMA makes on the way from DRAM. The analysis says where that may pay; a schedule chooses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.operators.axes import Axes
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.contraction import is_depthwise
from autotune.operators.op import Family, Op
from autotune.operators.tensor import TensorType

if TYPE_CHECKING:
    from autotune.operators.axis_map import Ints


@dataclass(frozen=True, slots=True)
class Patches:
    """Patches for one tile of a convolution's result. ``pixels`` are that tile's images, rows and
    columns; ``kernel``, ``strides``, ``dilations`` and ``pads`` are by rows and columns. ``apart``:
    an image, a row of the kernel and the rest are too many dimensions for one instruction."""

    axes: Axes
    pixels: tuple[AxisMap, AxisMap, AxisMap]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    apart: bool

    @property
    def taps(self) -> int:
        """Elements of a column for each channel."""
        return math.prod(self.kernel)

    @property
    def instructions(self) -> int:
        """DMA instructions that make them: one for each row of the kernel where it takes several."""
        return self.kernel[0] if self.apart else 1

    def sizes(self, pixels: tuple[int, ...], channels: int) -> tuple[int, ...]:
        """Extents as [images, channels, kernel rows, kernel columns, rows, columns]."""
        images, rows, columns = pixels
        return (images, channels, *self.kernel, rows, columns)

    def elements(self, channels: Ints, extent_of: Callable[[AxisMap], Ints | int]) -> Ints:
        """Elements of ``sizes`` for many schedules at once, ``extent_of`` each of which an axis has."""
        total: Ints = channels * self.taps
        for axis in self.pixels:
            total = total * extent_of(axis)
        return total

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions of ``sizes`` as they lie in the scratchpad, the order in which DRAM has them."""
        last = self.axes.channel > self.axes.spatial[1]
        return (0, 4, 5, 2, 3, 1) if last else (0, 1, 2, 3, 4, 5)


def patches_of(op: Op, types: Mapping[str, TensorType], result: Footprint) -> Patches | None:
    """Those of a convolution for the part ``result`` of its output; None where they gain nothing.

    A product reduces over all taps of a window as it is, so patches fill the array no better than
    the image does. They gain where images are smaller than the array, several of them in one
    product; and where strides longer than the kernel leave out pixels, which the rectangle that a
    tile reads has. Dilations leave out some too, and never gained (docs/decisions/0022-im2col.md).
    """
    if op.family is not Family.CONV or is_depthwise(op, types) or op.int("group") != 1:
        return None
    if zero_blocks(op) is not None:  # its pieces are rows of channels that are not all zero
        return None
    axes, kernel = op.axes, op.axes.taps(types[op.inputs[1]].shape)
    strides, dilations = _pair(op, "strides"), _pair(op, "dilations")
    several = types[op.output].shape[axes.batch] > 1
    leaps = any(s > k for s, k in zip(strides, kernel, strict=True))
    if not (several or leaps):
        return None
    pixels = (result[axes.batch], *axes.sizes(result))
    apart = several and min(kernel) > 1
    top, left, *_ = op.ints("pads")
    return Patches(axes, pixels, kernel, strides, dilations, (top, left), apart)


def _pair(op: Op, name: str) -> tuple[int, int]:
    down, across = op.ints(name)
    return down, across
