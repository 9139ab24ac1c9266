"""Whether an instruction writes all that another one reads, in the same trip of the loops around both: what
copy_elision.py and independent_regions.py prove with."""

from __future__ import annotations

from collections.abc import Sequence

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
    if writer.alternation != read.alternation or (
        writer.alternation is not None and writer.alternation.turn >= depth
    ):
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
