"""Cuts a program's streams into parts that any thread may take: the loader's step behind binding.

Streams of a program are independent, and there is one for each core that shares its outermost loop. A
core that is slower than the others, or meets harder rows, would hold up all of them. So a stream
whose pieces are proven independent (independent_regions.py) becomes several streams of fewer pieces each.
Schedules share a loop among all cores or none (``schedule.space``), so that parts go to all threads.
What pieces have in common, such as an image with its padding, or Winograd's transform of it, each thread makes
once, for all parts that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from autotune.isa.program import Program
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.copy_elision import ElidedCopies
from autotune.targets.native.analysis.tree import Block, Body, Node, leaves
from autotune.targets.native.binding.call import Call, Operand
from autotune.targets.native.binding.independent_regions import Pieces, outermost, pieces_of

PARTS = 8
"""Of a stream, at most: a core that gets half of the time then delays the others by a sixteenth of a
program and not by half of it. A part costs some ten nanoseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one thread does: nodes, and calls by place. ``before`` is what a thread does ahead of the
    first of its parts that have it."""

    nodes: tuple[Node, ...]
    calls: Mapping[int, Call]
    before: Part | None = None


def parts_of(program: Program, stream: Part, places: ElidedCopies) -> tuple[Part, ...]:
    """The stream, whose operands live at ``places``, as independent parts that compute the same;
    itself alone where it cannot be cut."""
    pieces = pieces_of(program, stream.nodes, stream.calls, places)
    if pieces is None:
        return (stream,)
    count = min(PARTS, pieces.count)
    bounds = [i * pieces.count // count for i in range(count + 1)]
    before = _called(pieces.before, stream.calls) if pieces.before else None
    return tuple(
        _part(pieces, stream.calls, before, first, last) for first, last in pairwise(bounds)
    )


def shared(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, with one ``before`` where several are equal: streams of a program mostly begin alike."""
    seen: dict[str, Part] = {}

    def common(before: Part) -> Part:
        return seen.setdefault(repr(tuple(before.calls.values())), before)  # unlike ==, tells -0.0

    return tuple(
        part if part.before is None else replace(part, before=common(part.before)) for part in parts
    )


def _called(nodes: tuple[Node, ...], calls: Mapping[int, Call]) -> Part:
    found = {leaf.place: calls[leaf.place] for leaf in leaves(nodes) if leaf.place in calls}
    return Part(nodes, found)


def _part(
    pieces: Pieces, calls: Mapping[int, Call], before: Part | None, first: int, last: int
) -> Part:
    """Pieces ``first`` to ``last``."""
    trips = pieces.count - len(pieces.rest)
    rest = pieces.rest[max(0, first - trips) : max(0, last - trips)]
    nodes: list[Node] = []
    if first < trips and pieces.loop is not None:
        nodes.append(_trips(pieces.loop, min(last, trips) - first))
    nodes += [node for piece in rest for node in piece]
    found = dict(_called(tuple(nodes), calls).calls)
    if first < trips and pieces.loop is not None:
        moved = _called((pieces.loop,), calls).calls
        found |= {place: _begun(call, first) for place, call in moved.items()}
    return Part(tuple(nodes), found, before)


def _trips(loop: Body, trips: int) -> Body:
    """A loop of so many trips: its instructions keep the loop that they had."""
    return Body(Block(loop.block.instruction.replace(trips=trips), ()), loop.nodes)


def _begun(call: Call, trips: int) -> Call:
    """A call of the loop's first trip as that of a later one."""

    def at(place: Affine) -> Affine:
        return Affine(place.first + outermost(place) * trips, place.terms)

    def moved(operand: Operand) -> Operand:
        return replace(operand, at=at(operand.at))

    if trips == 0:
        return call
    operands = tuple(moved(operand) for operand in call.operands)
    return replace(call, operands=operands, numbers=tuple(at(number) for number in call.numbers))
