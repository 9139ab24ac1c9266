"""Schedules: the tuning decisions of a group."""

from __future__ import annotations

import json
from dataclasses import dataclass

from autotune.errors import ScheduleError


@dataclass(frozen=True, slots=True)
class NestSchedule:
    """Decisions of one nest.

    ``tile`` holds root tile extents per dimension. ``order`` lists root dimensions, outer to inner;
    those that are not split are skipped. ``k_tile`` is the reduction piece of each contraction,
    ``buffers`` the copies of each tile, 1 or 2. ``cores`` share the outermost loop. With ``im2col``
    convolutions read patches (``Buffer.patches``) instead of their images.
    """

    tile: tuple[int, ...]
    order: tuple[int, ...]
    k_tile: tuple[int, ...]
    buffers: int = 2
    cores: int = 1
    im2col: bool = False

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.tile))):
            raise ScheduleError(
                f"loop order {self.order} is not a permutation of {len(self.tile)} dimensions"
            )
        if any(t < 1 for t in (*self.tile, *self.k_tile)):
            raise ScheduleError(f"tile {self.tile} and reduction {self.k_tile} must be ≥ 1")
        if self.buffers not in (1, 2):
            raise ScheduleError(f"buffers = {self.buffers} is not 1 or 2")
        if self.cores < 1:
            raise ScheduleError(f"cores = {self.cores} is not ≥ 1")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Decisions of a group: one ``NestSchedule`` per nest, run one after the other."""

    nests: tuple[NestSchedule, ...]

    def to_json(self) -> str:
        """Return lossless, canonical JSON text: equal schedules give equal text."""
        return json.dumps([_plain(n) for n in self.nests], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """Read what ``to_json`` wrote. Raises ``ScheduleError`` for anything else."""
        try:
            return cls(
                tuple(
                    NestSchedule(
                        tuple(map(int, tile)),
                        tuple(map(int, order)),
                        tuple(map(int, k_tile)),
                        int(buffers),
                        int(cores),
                        _reads_patches(rest),
                    )
                    for tile, order, k_tile, buffers, cores, *rest in json.loads(text)
                )
            )
        except (ValueError, TypeError) as error:
            raise ScheduleError(
                f"not a schedule: {error!r}; make a new one with 'autotune search'"
            ) from None


def _plain(nest: NestSchedule) -> list[object]:
    """Return the decisions as a list; the algorithm is named unless it is the direct one."""
    row = [nest.tile, nest.order, nest.k_tile, nest.buffers, nest.cores]
    return [*row, "im2col"] if nest.im2col else row


def _reads_patches(rest: list[object]) -> bool:
    if rest not in ([], ["im2col"]):
        raise ValueError(f"{rest} is not 'im2col'")
    return bool(rest)
