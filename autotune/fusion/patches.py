"""Patches (im2col): a convolution's operand as one column of window × channels per pixel.

DMA makes them on the way from DRAM. The analysis finds where they may pay; a schedule chooses them.
"""

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
    """Patches for one tile of a convolution's result.

    ``pixels`` are that tile's images, rows and columns. ``kernel``, ``strides``, ``dilations`` and
    ``pads`` are by rows and columns. ``apart`` is True if images, kernel rows and the rest are too
    many dimensions for one instruction.
    """

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
        """DMA instructions per tile: one for each kernel row if one instruction cannot hold all."""
        return self.kernel[0] if self.apart else 1

    def sizes(self, pixels: tuple[int, ...], channels: int) -> tuple[int, ...]:
        """Return extents as [images, channels, kernel rows, kernel columns, rows, columns]."""
        images, rows, columns = pixels
        return (images, channels, *self.kernel, rows, columns)

    def elements(self, channels: Ints, extent_of: Callable[[AxisMap], Ints | int]) -> Ints:
        """Return the elements of ``sizes`` for many schedules at once; ``extent_of`` gives an
        axis's extents."""
        total: Ints = channels * self.taps
        for axis in self.pixels:
            total = total * extent_of(axis)
        return total

    @property
    def order(self) -> tuple[int, ...]:
        """Order of the dimensions of ``sizes`` in the scratchpad, which is DRAM's order."""
        last = self.axes.channel > self.axes.spatial[1]
        return (0, 4, 5, 2, 3, 1) if last else (0, 1, 2, 3, 4, 5)


def patches_of(op: Op, types: Mapping[str, TensorType], result: Footprint) -> Patches | None:
    """Return the patches for the part ``result`` of a convolution's output; None if they gain
    nothing.

    A product reduces over all taps of a window anyway, so patches fill the array no better than the
    image. They gain in two cases. Images are smaller than the array, and one product takes several
    of them. Or strides exceed the kernel, so a tile's rectangle holds pixels that no window reads.
    Dilations skip pixels too, but never gained (docs/decisions/0022-im2col.md).
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
