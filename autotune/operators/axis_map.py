"""Affine maps of tiles: the interval of a tensor's dimension that a tile of a nest's root needs.

A *footprint* has one map for every dimension of a tensor. Nothing here depends on tile sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AxisMap:
    """The interval of one tensor dimension that a root tile ``[s, s + t)`` along ``dim`` needs.

    It starts at ``scale·s / per + offset`` and has ``(scale·(t − 1) + window) / per`` elements.
    With ``dim`` None it is fixed: it starts at ``offset`` and has ``window`` elements. ``per`` is 1
    except for groups of channels, whose tiles divide evenly, and for scratch buffers, whose sizes
    round up.
    """

    dim: int | None
    scale: int
    offset: int
    window: int
    per: int = 1

    @overload
    def extent(self, size: int) -> int: ...

    @overload
    def extent(self, size: Ints) -> Ints: ...

    def extent(self, size: int | Ints) -> int | Ints:
        """Return the elements for tiles of ``size`` along ``dim``; a fixed map has ``window``."""
        reach = self.scale * (size - 1) + self.window
        return reach if self.per == 1 else -(-reach // self.per)  # dividing arrays is slow

    def size(self, tile: tuple[int, ...]) -> int:
        """Return the elements for a root tile of the given sizes."""
        return self.window if self.dim is None else self.extent(tile[self.dim])

    def windowed(self, stride: int, pad: int, reach: int) -> AxisMap:
        """Return the map of a sliding window's operand: ``reach`` elements for each result."""
        return AxisMap(
            self.dim,
            self.scale * stride,
            self.offset * stride - pad,
            self.window * stride + self.per * (reach - stride),
            self.per,
        )

    @overload
    def start(self, first: int) -> int: ...

    @overload
    def start(self, first: Ints) -> Ints: ...

    def start(self, first: int | Ints) -> int | Ints:
        """Return the start of the interval of a root tile at ``first``, without the offset."""
        start = self.scale * first
        return start if self.per == 1 else start // self.per

    def is_identity(self) -> bool:
        """Return True if its tiles partition the dimension exactly as root tiles do."""
        return self.dim is not None and (self.scale, self.offset, self.window, self.per) == (
            1,
            0,
            1,
            1,
        )


Footprint = tuple[AxisMap, ...]


def full(extent: int) -> AxisMap:
    """Return the map of a whole dimension, for any tile."""
    return AxisMap(None, 0, 0, extent)


def root_footprint(shape: tuple[int, ...], forced: frozenset[int]) -> Footprint:
    """Return the root's own footprint: identity, or full where a dimension cannot be tiled."""
    return tuple(
        full(n) if d in forced or n == 1 else AxisMap(d, 1, 0, 1) for d, n in enumerate(shape)
    )


def hull(a: Footprint, b: Footprint, root_shape: tuple[int, ...]) -> Footprint:
    """Return the smallest footprint that holds both."""
    return tuple(_hull_axis(x, y, root_shape) for x, y in zip(a, b, strict=True))


def _hull_axis(a: AxisMap, b: AxisMap, root_shape: tuple[int, ...]) -> AxisMap:
    if (a.dim, a.scale, a.per) == (b.dim, b.scale, b.per):
        low = min(a.offset, b.offset)
        reach = max(a.per * a.offset + a.window, b.per * b.offset + b.window)
        return AxisMap(a.dim, a.scale, low, reach - a.per * low, a.per)
    (low_a, high_a), (low_b, high_b) = axis_range(a, root_shape), axis_range(b, root_shape)
    low = min(low_a, low_b)
    return AxisMap(None, 0, low, max(high_a, high_b) - low)


def axis_range(axis: AxisMap, root_shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the first and the one-past-last coordinate over all tiles of the root."""
    if axis.dim is None:
        return axis.offset, axis.offset + axis.window
    return axis.offset, axis.offset + axis.size(root_shape)


def elements(footprint: Footprint, tile: tuple[int, ...]) -> int:
    """Return the elements of a footprint for one root tile."""
    return math.prod(axis.size(tile) for axis in footprint)
