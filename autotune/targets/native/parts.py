"""Cuts a program's streams into parts that any thread may take: the loader's step behind binding.

Streams of a program are independent, and there is one for each core that shares its outermost loop. A
core that is slower than the others, or meets harder rows, would hold up all of them. So a stream
that is one loop whose trips are proven independent becomes several streams of fewer trips each.
Schedules share a loop among all cores or none (``schedule.space``), so that parts go to all threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from autotune.isa.program import Program
from autotune.isa.table import Opcode
from autotune.targets.native.affine import Affine
from autotune.targets.native.call import Call, Operand, Space
from autotune.targets.native.codegen.recipe import Recipe
from autotune.targets.native.rectangle import Rectangle
from autotune.targets.native.touch import touches_of
from autotune.targets.native.tree import Block, Body, Leaf, Node, leaves

PARTS = 4
"""Of a stream, at most: a core that gets half of the time then delays the others by an eighth of a
program and not by half of it. A part costs some ten nanoseconds."""

Stream = tuple[tuple[Node, ...], Mapping[int, Call]]
"""Nodes, and calls by place."""


def parts_of(program: Program, stream: Stream) -> tuple[Stream, ...]:
    """The stream as independent parts that compute the same; itself alone where it cannot be cut."""
    nodes, calls = stream
    live = tuple(node for node in nodes if any(leaf.place in calls for leaf in leaves((node,))))
    if not live or not isinstance(live[0], Body) or live[0].block.conditional:
        return (stream,)
    loop, rest = live[0], live[1:]
    if not _Trips(program, loop, tuple(leaves(nodes)), calls).independent:
        return (stream,)
    pieces = loop.block.trips + (len(rest) > 0)
    count = min(PARTS, pieces)
    bounds = [i * pieces // count for i in range(count + 1)]
    return tuple(
        _piece(loop, calls, first, min(last, loop.block.trips), rest if last == pieces else ())
        for first, last in pairwise(bounds)
    )


@dataclass(frozen=True, slots=True)
class _Trips:
    """The outermost loop of a stream, with all ``leaves`` of the stream and their ``calls``."""

    program: Program
    loop: Body
    leaves: tuple[Leaf, ...]
    calls: Mapping[int, Call]

    @property
    def independent(self) -> bool:
        """Whether its trips, and what stands behind it, may run in any order at once: nothing is
        kept in the scratchpad, and no two of them write the same element, or read what is written."""
        if not all(_in_tensors(call) for call in self.calls.values()):
            return False
        stores = [leaf for leaf in self.leaves if leaf.opcode is Opcode.STORE]
        loads = {
            leaf.instruction.get("tensor")
            for leaf in self.leaves
            if leaf.opcode in (Opcode.LOAD, Opcode.GATHER)
        }
        written = {leaf.instruction.get("tensor") for leaf in stores}
        return not written & loads and all(self._written_apart(t, stores) for t in written)

    def _written_apart(self, tensor: int, stores: list[Leaf]) -> bool:
        """Whether each trip writes a part of a tensor of its own, and others what is left."""
        found = [
            self._rectangle(leaf) for leaf in stores if leaf.instruction.get("tensor") == tensor
        ]
        inside = [r for r in found if self._is_inside(r.leaf)]
        outside = [r for r in found if not self._is_inside(r.leaf)]
        if len(inside) != 1 or not _moves_on(inside[0]):
            return False
        if not all(inside[0].apart_from(other) for other in outside):
            return False
        step = _outermost(inside[0].first)
        return all(
            _begins_in(operand.at, inside[0]) and _outermost(operand.at) == step
            if self._is_inside(leaf)
            else not _begins_in(operand.at, inside[0], all_trips=True)
            for leaf in self.leaves
            if leaf.place in self.calls
            for operand in self.calls[leaf.place].operands
            if operand.space is Space.TENSOR and operand.number == tensor
        )

    def _is_inside(self, leaf: Leaf) -> bool:
        return leaf.path[:1] == (self.loop.block,)

    def _rectangle(self, leaf: Leaf) -> Rectangle:
        return Rectangle.of(leaf, touches_of(leaf)[0], self.program.tensors)


def _in_tensors(call: Call) -> bool:
    return isinstance(call.kernel, Recipe) and all(
        operand.space in (Space.TENSOR, Space.POOL) for operand in call.operands
    )


def _moves_on(rectangle: Rectangle) -> bool:
    """Whether the outermost loop moves it in some dimension by its extent or more, and alone."""
    return any(
        at.terms == ((0, _outermost(at)),) and _outermost(at) >= extent
        for at, (extent, _) in zip(rectangle.coordinates, rectangle.buffer.dims, strict=True)
    )


def _begins_in(at: Affine, rectangle: Rectangle, all_trips: bool = False) -> bool:
    """Whether an operand's first element is of a rectangle in its first trip, or in all: operands
    lie in the rectangle of one STORE as a whole, and those of others are apart from this one."""
    sizes = zip(rectangle.coordinates, rectangle.buffer.dims, strict=True)
    first = [(c.first, c.first + extent) for c, (extent, _) in sizes]
    reach = rectangle.hull if all_trips else first
    place = np.unravel_index(at.first, rectangle.shape)
    return all(low <= x < high for x, (low, high) in zip(place, reach, strict=True))


def _outermost(at: Affine) -> int:
    """What a trip of the outermost loop adds."""
    return next((step for level, step in at.terms if level == 0), 0)


def _piece(
    loop: Body, calls: Mapping[int, Call], first: int, last: int, rest: tuple[Node, ...]
) -> Stream:
    """Trips ``first`` to ``last`` of the loop, and what stands behind it."""
    found = {leaf.place: calls[leaf.place] for leaf in leaves(rest) if leaf.place in calls}
    if first >= last:
        return rest, found
    block = Block(loop.block.instruction.replace(trips=last - first), ())
    for leaf in leaves((loop,)):
        if leaf.place in calls:
            found[leaf.place] = _begun(calls[leaf.place], first)
    return (Body(block, loop.nodes), *rest), found


def _begun(call: Call, trips: int) -> Call:
    """A call of the loop's first trip as that of a later one."""

    def at(place: Affine) -> Affine:
        return Affine(place.first + _outermost(place) * trips, place.terms)

    def moved(operand: Operand) -> Operand:
        return replace(operand, at=at(operand.at))

    if trips == 0:
        return call
    operands = tuple(moved(operand) for operand in call.operands)
    return replace(call, operands=operands, numbers=tuple(at(number) for number in call.numbers))
