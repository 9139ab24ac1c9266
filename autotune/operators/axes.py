"""Axes of images and weights in both layouts: nothing else tells window operators' layouts apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from autotune.errors import InputError

T = TypeVar("T")

Perm = tuple[int, ...]
"""A permutation of axes as ``numpy.transpose`` takes it."""

MAX_MOVED_AXES = 5
"""Axes of a tensor that one instruction moves: a transpose of more goes in several steps."""


class Layout(StrEnum):
    """Where a network's images keep their channels."""

    CHANNELS_FIRST = "channels_first"
    CHANNELS_LAST = "channels_last"

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the layout of this name. Raises ``InputError`` for any other."""
        try:
            return cls(text)
        except ValueError:
            raise InputError(f"layout {text!r} is not one of: {', '.join(cls)}") from None


@dataclass(frozen=True, slots=True)
class Axes:
    """Axis numbers of a window operator's images, and of a convolution's weight."""

    batch: int
    channel: int
    spatial: tuple[int, int]
    """Rows, columns."""
    out_channel: int
    """Of the weight, as are the following ones; its input channels are those of one group."""
    in_channel: int
    kernel: tuple[int, int]

    @property
    def image_order(self) -> Perm:
        """The permutation that brings an image to [N, C, H, W]."""
        return (self.batch, self.channel, *self.spatial)

    @property
    def weight_order(self) -> Perm:
        """The permutation that brings a weight to [M, C/group, KH, KW]."""
        return (self.out_channel, self.in_channel, *self.kernel)

    def image(self, batch: T, channel: T, spatial: Sequence[T]) -> tuple[T, ...]:
        """Place one value per axis of an image."""
        return _placed(self.image_order, (batch, channel, *spatial))

    def weight(self, out_channel: T, in_channel: T, kernel: Sequence[T]) -> tuple[T, ...]:
        """Place one value per axis of a weight."""
        return _placed(self.weight_order, (out_channel, in_channel, *kernel))

    def sizes(self, shape: Sequence[T]) -> tuple[T, T]:
        """Return rows and columns of an image."""
        return shape[self.spatial[0]], shape[self.spatial[1]]

    def taps(self, shape: Sequence[T]) -> tuple[T, T]:
        """Return rows and columns of a weight's window."""
        return shape[self.kernel[0]], shape[self.kernel[1]]


def _placed(order: Perm, values: tuple[T, ...]) -> tuple[T, ...]:
    """Put ``values[i]`` at axis ``order[i]``."""
    return tuple(values[order.index(axis)] for axis in range(len(order)))


CHANNELS_FIRST = Axes(0, 1, (2, 3), out_channel=0, in_channel=1, kernel=(2, 3))
"""x [N,C,H,W], w [M,C/group,KH,KW]."""
CHANNELS_LAST = Axes(0, 3, (1, 2), out_channel=3, in_channel=2, kernel=(0, 1))
"""x [N,H,W,C], w [KH,KW,C/group,M]."""


SIGNAL_RANK, IMAGE_RANK = 3, 4
"""Tensors of rank 3 are signals [N, C, T], of rank 4 and up images [N, …, H, W]. A convolution of one
dimension is one of images of a single row, between reshapes."""


def to_channels_last(rank: int) -> Perm:
    """Return the permutation from [N, …, H, W] to [N, H, W, …].

    Channels may take several axes, as they do while a network shuffles them.
    """
    if rank == SIGNAL_RANK:
        return (0, 2, 1)
    return (0, rank - 2, rank - 1, *range(1, rank - 2))


def inverse(perm: Perm) -> Perm:
    """Return the permutation that undoes ``perm``."""
    return tuple(perm.index(axis) for axis in range(len(perm)))
