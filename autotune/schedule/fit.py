"""Whether a schedule fits its group and a machine, and what of the scratchpad it takes."""

from __future__ import annotations

import math

from autotune.fusion.nest import ADDRESS_LOOPS, Buffer, MovingOperand, Nest, Rejection, buffer_sizes
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.capacity import Capacity

MAX_RUNS = 1 << 26
"""Runs of a loop's body in a program. More would take minutes, and counters of the largest array may overflow."""


def trips(nest: Nest, schedule: NestSchedule, dim: int) -> int:
    """Full tiles along a root dimension (a remainder is not counted)."""
    return nest.root_shape[dim] // schedule.tile[dim]


def split_dims(nest: Nest, schedule: NestSchedule) -> tuple[int, ...]:
    """Dimensions that take more than one tile, outer to inner; a reduction of the nest last."""
    split = [d for d in schedule.order if schedule.tile[d] < nest.root_shape[d]]
    return tuple(sorted(split, key=lambda d: d == nest.reduced))


def slots(nest: Nest, schedule: NestSchedule, buffer: Buffer) -> int:
    """Copies of a buffer: ``schedule.buffers`` when a hardware loop refills it, else one."""
    if buffer.chunk is not None:
        k = buffer.chunk[0]
        if nest.contractions[k].k_extent // schedule.k_tile[k] > 1:
            return schedule.buffers
    return schedule.buffers if any(trips(nest, schedule, d) > 1 for d in buffer.dims) else 1


def scratchpad_elements(nest: Nest, schedule: NestSchedule) -> int:
    """Words that one core needs for the nest."""
    return sum(_words(nest, schedule))


def sums_elements(nest: Nest, schedule: NestSchedule) -> int:
    """Those of them that hold sums of products."""
    words = _words(nest, schedule)
    return sum(words[i] for i in nest.sums)


def _words(nest: Nest, schedule: NestSchedule) -> list[int]:
    """Return the words of each buffer."""
    sizes = buffer_sizes(nest, schedule.tile, schedule.k_tile, schedule.im2col)
    return [
        slots(nest, schedule, buffer) * buffer.words(math.prod(size))
        for buffer, size in zip(nest.buffers, sizes, strict=True)
    ]


def runs(nest: Nest, schedule: NestSchedule) -> int:
    """Full tiles of a nest times the pieces of all its reductions: an upper bound of how often the body of a
    loop runs."""
    tiles = math.prod(max(1, trips(nest, schedule, d)) for d in range(len(nest.root_shape)))
    pieces = zip(nest.contractions, schedule.k_tile, strict=True)
    return tiles * math.prod(max(1, c.k_extent // k) for c, k in pieces)


def loops(nest: Nest, schedule: NestSchedule, moving: MovingOperand) -> int:
    """Hardware loops that move an operand."""
    over_tiles = sum(trips(nest, schedule, d) > 1 for d in moving.dims)
    k = moving.contraction
    if k is None:
        return over_tiles
    return over_tiles + (nest.contractions[k].k_extent // schedule.k_tile[k] > 1)


def has_ranks_of(nests: tuple[Nest, ...], schedule: Schedule) -> bool:
    """Whether a schedule has a part for each nest, of its dimensions and reductions.

    Stored schedules of a group may lack it: nests of its kind may have been other ones then.
    """
    return len(schedule.nests) == len(nests) and all(
        len(part.tile) == len(nest.root_shape) and len(part.k_tile) == len(nest.contractions)
        for nest, part in zip(nests, schedule.nests, strict=True)
    )


def check(
    nests: tuple[Nest, ...], schedule: Schedule, capacity: Capacity, cores: int
) -> Rejection | None:
    """None when the schedule is legal for the nests on such a machine, else what failed."""
    if len(schedule.nests) != len(nests):
        return Rejection(f"schedule has {len(schedule.nests)} nests, the group {len(nests)}")
    if not has_ranks_of(nests, schedule):
        return Rejection("schedule was made for another group")
    for nest, part in zip(nests, schedule.nests, strict=True):
        if part.cores > cores:
            return Rejection(f"cores: {part.cores} > {cores}")
        rejection = _check_nest(nest, part)
        if rejection is not None:
            return rejection
        words = _words(nest, part)
        excess = capacity.excess(sum(words), sum(words[i] for i in nest.sums))
        if excess is not None:
            return Rejection(excess)
    return None


def _check_nest(nest: Nest, part: NestSchedule) -> Rejection | None:
    for d, (t, n) in enumerate(zip(part.tile, nest.root_shape, strict=True)):
        if t > n:
            return Rejection(f"tile: {t} > extent {n} of dimension {d}")
        if t < n and d in nest.forced:
            return Rejection(f"tile: dimension {d} of {nest.root!r} cannot be split")
        if t < n and t % nest.granule(d):
            return Rejection(f"tile: {t} along dimension {d} is no multiple of {nest.granule(d)}")
    if part.im2col and not nest.takes_patches:
        return Rejection(f"im2col: no convolution of {nest.root!r} gains by patches")
    outermost = split_dims(nest, part)[:1]
    if part.cores > 1 and not nest.shareable.issuperset(outermost):
        return Rejection(
            f"cores: tiles along dimension {outermost[0]} of {nest.root!r} store the same elements"
        )
    if runs(nest, part) > MAX_RUNS:
        return Rejection(f"loops: {runs(nest, part)} runs of the innermost one > {MAX_RUNS}")
    for moving in nest.moving_operands:
        if loops(nest, part, moving) > ADDRESS_LOOPS:
            return Rejection(
                f"address: {moving.operand!r}, which {moving.reader} reads, moves with "
                f"{loops(nest, part, moving)} loops; an address holds {ADDRESS_LOOPS}: split fewer of "
                f"dimensions {sorted(moving.dims)}"
            )
    for k, c in zip(part.k_tile, nest.contractions, strict=True):
        if k > c.k_extent or (k < c.k_extent and not c.chunkable):
            return Rejection(f"reduction: {k} of {c.k_extent} is not possible here")
    return None
