"""Whether an instruction writes all that another one reads, in the same trip of the loops around both: what
copy_elision.py and independent_regions.py prove with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.memory_access import MemoryAccess
from autotune.targets.native.analysis.tree import Block

Extents = Sequence[tuple[int, int]]
"""(extent, stride) of every dimension and inner loop."""


def common(a: tuple[Block, ...], b: tuple[Block, ...]) -> tuple[Block, ...]:
    """The loops that two instructions both stand in."""
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] is b[depth]:
        depth += 1
    return a[:depth]


def begins_anew(writer: MemoryAccess, depth: int) -> bool:
    """Whether in every trip of the loop at level ``depth`` − 1 it runs, first without reading what
    it writes."""
    runs = not any(block.conditional for block in writer.leaf.path[depth:])
    return runs and not writer.keeps and (writer.begins is None or writer.begins >= depth)


def covers(writer: MemoryAccess, path: tuple[Block, ...], read: MemoryAccess) -> bool:
    """Whether in one trip of the loops of ``path`` a writer in them writes every word that ``read``
    may access in the same trip."""
    depth = len(path)
    if not begins_anew(writer, depth) or writer.element_bytes != read.element_bytes:
        return False
    if not _alternate_alike(writer, read, depth):
        return False
    outer, inner = writer.at.split(depth)
    read_outer, read_inner = read.at.split(depth)
    if outer.terms != read_outer.terms:
        return False
    written = [*writer.dims, *_loops(writer, inner)]
    wanted = [*read.dims, *_loops(read, read_inner)]
    low, high = inner.within(writer.leaf.trips)
    low, high = low + outer.first, high + outer.first + writer.span
    wanted_low, wanted_high = read_inner.within(read.leaf.trips)
    wanted_low += read_outer.first
    wanted_high += read_outer.first + read.span
    if _dense(written, high - low + 1):
        return low <= wanted_low and wanted_high <= high
    return low == wanted_low and _same_steps(written, wanted)


def _alternate_alike(writer: MemoryAccess, read: MemoryAccess, depth: int) -> bool:
    """Whether both are in the same of two buffers in a trip of the first ``depth`` loops."""
    own = writer.alternation
    return own == read.alternation and (own is None or own.turn < depth)


def cover_together(
    writers: Sequence[MemoryAccess], path: tuple[Block, ...], read: MemoryAccess
) -> bool:
    """Whether several ``writers`` together write every word that ``read`` accesses, as quarters of a result do.

    It is said of one trip of the loops of ``path``, which alone move writers and reader. Writers that overlap do not count twice.
    """
    outer, inner = read.at.split(len(path))
    near = [writer for writer in writers if writer.meets(read.low, read.high)]
    steps = {stride: 1 for writer in near for n, stride in writer.dims if n > 1}
    wanted = [(stride, n) for n, stride in read.dims if n > 1]
    steps |= dict(wanted)
    sides = sorted(steps.items(), reverse=True)
    is_rectangle = len({stride for stride, _ in wanted}) == len(wanted)
    if inner.terms or not is_rectangle or not _nests(sides):
        return False
    boxes = list[tuple[tuple[int, int], ...]]()
    for writer in near:
        box = _box_of(writer, path, read, outer, sides)
        if box is not None and not any(_meet(box, other) for other in boxes):
            boxes.append(box)
    return sum(_volume(box) for box in boxes) == math.prod(n for _, n in sides)


def _nests(sides: Sequence[tuple[int, int]]) -> bool:
    """Whether each step of a rectangle, the furthest first, is past all of its further dimensions."""
    return all(stride > 0 for stride, _ in sides) and all(
        stride >= inner * n for (stride, _), (inner, n) in pairwise(sides)
    )


def _box_of(
    writer: MemoryAccess,
    path: tuple[Block, ...],
    read: MemoryAccess,
    outer: Affine,
    sides: Sequence[tuple[int, int]],
) -> tuple[tuple[int, int], ...] | None:
    """Return first and one past the last along each of ``sides`` of what a writer makes of a rectangle; None if that is nothing,
    is not known, or it keeps what stood there."""
    at, inner = writer.at.split(len(path))
    if not begins_anew(writer, len(path)) or writer.begins is not None or inner.terms:
        return None
    if writer.element_bytes != read.element_bytes or not _alternate_alike(writer, read, len(path)):
        return None
    extents = {stride: n for n, stride in writer.dims if n > 1}
    if at.terms != outer.terms or not extents.keys() <= {stride for stride, _ in sides}:
        return None
    left, box, room = at.first - outer.first, list[tuple[int, int]](), math.inf
    for stride, n in sides:
        first, left = divmod(left, stride)
        end = first + extents.get(stride, 1)
        if end * stride > room:  # it goes on in what is further out
            return None
        box.append((max(0, first), min(n, end)))
        room = stride
    return tuple(box) if not left and all(first < end for first, end in box) else None


def _meet(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


def _volume(box: Sequence[tuple[int, int]]) -> int:
    return math.prod(end - first for first, end in box)


def _loops(access: MemoryAccess, inner: Affine) -> Extents:
    """Trips and step of inner loops, counted from their lowest word on."""
    return [(access.leaf.trips(level), abs(step)) for level, step in inner.terms]


def _dense(extents: Extents, words: int) -> bool:
    """Whether a rectangle's elements are ``words`` different ones; steps of 0 write one again."""
    reach, count = 0, 1
    for stride, n in _moving(extents):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
        count *= n
    return count == words


def _same_steps(written: Extents, wanted: Extents) -> bool:
    """Whether a rectangle goes as another one that begins at the same word: as rows' maxima do that lie
    apart among other numbers of those rows."""
    return _moving(written) == _moving(wanted)


def _moving(extents: Extents) -> list[tuple[int, int]]:
    """Stride and extent of those dimensions that reach another word, the nearest first."""
    return sorted((stride, n) for n, stride in extents if n > 1 and stride)
