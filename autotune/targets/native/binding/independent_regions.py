"""The pieces of a stream that may run in any order, and the proof: tasks.py makes parts of them.

A piece ends with a STORE at the top of the stream; the first one may be a loop, whose trips then are pieces.
What all pieces read and none of them overwrites, such as an image with its padding, is made before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.copy_elision import ElidedCopies
from autotune.targets.native.analysis.coverage import common, cover_together, covers
from autotune.targets.native.analysis.memory_access import MemoryAccess, accesses_of
from autotune.targets.native.analysis.rectangle import Rectangle
from autotune.targets.native.analysis.tree import Body, Leaf, Node, leaves
from autotune.targets.native.binding.call import Call, Space

_READING = frozenset((Opcode.LOAD, Opcode.GATHER, Opcode.LOOKUP))
_SHARED = frozenset((Opcode.LOAD, Opcode.TRANSFORM))
"""What may come before all pieces: no run of vector instructions, of which one call may do several."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """``before`` makes what pieces share; ``loop`` is the first piece where its trips are pieces, else
    None; ``rest`` are the others, in order."""

    before: tuple[Leaf, ...]
    loop: Body | None
    rest: tuple[tuple[Node, ...], ...]

    @property
    def count(self) -> int:
        """Pieces."""
        return (0 if self.loop is None else self.loop.block.trips) + len(self.rest)


def pieces_of(
    program: Program, nodes: tuple[Node, ...], calls: Mapping[int, Call], places: ElidedCopies
) -> Pieces | None:
    """None where the stream is one piece, or nothing is proven."""
    begin, found = _segments(nodes)
    if not found:
        return None
    scratch = _Scratch.of(nodes, places)
    before = scratch.constant(begin)
    found[0] = (*(leaf for leaf in begin if leaf not in before), *found[0])
    live = [node for node in found[0] if any(leaf.place in calls for leaf in leaves((node,)))]
    first = live[0] if len(live) == 1 else None
    loop = first if isinstance(first, Body) and not first.block.conditional else None
    if loop is not None and (loop.block.trips == 1 or not _stores_inside(loop, found[0])):
        loop = None
    pieces = Pieces(before, loop, tuple(found[loop is not None :]))
    if pieces.count < 2:
        return None
    proof = _Proof(program, pieces, calls, scratch)
    return pieces if proof.holds else None


def _stores_inside(loop: Body, piece: tuple[Node, ...]) -> bool:
    """Return True if every STORE of a piece is in its loop.

    Trips of a loop behind which a STORE stands compute one result together, even where the STORE
    itself is elided: they are steps of a reduction.
    """
    stores = [leaf for leaf in leaves(piece) if leaf.opcode is Opcode.STORE]
    inside = list(leaves((loop,)))
    return all(any(store is leaf for leaf in inside) for store in stores)


def _segments(nodes: tuple[Node, ...]) -> tuple[list[Leaf], list[tuple[Node, ...]]]:
    """The instructions that a stream begins with and pieces may share, and what is behind them, cut
    behind each node that stores."""
    begin: list[Leaf] = []
    found: list[tuple[Node, ...]] = []
    current: list[Node] = []
    for node in nodes:
        if isinstance(node, Leaf) and node.opcode in _SHARED and not (found or current):
            begin.append(node)
            continue
        current.append(node)
        if any(leaf.opcode is Opcode.STORE for leaf in leaves((node,))):
            found.append(tuple(current))
            current = []
    if current:  # what is stored nowhere
        found.append(tuple(current))
    return begin, found


@dataclass(frozen=True, slots=True)
class _Scratch:
    """What a stream still accesses in the scratchpad, with operands where they live."""

    accesses: tuple[MemoryAccess, ...]

    @classmethod
    def of(cls, nodes: tuple[Node, ...], places: ElidedCopies) -> _Scratch:
        return cls(
            tuple(
                access
                for leaf in leaves(nodes)
                if leaf.place not in places.dropped
                for access in accesses_of(leaf)
                if (leaf.place, access.operand) not in places.operands
            )
        )

    def constant(self, begin: list[Leaf]) -> tuple[Leaf, ...]:
        """Those of the first instructions whose result is never overwritten, and who read nothing but
        what others of them have made."""
        found: list[MemoryAccess] = []
        for leaf in begin:
            own = [t for t in self.accesses if t.leaf is leaf]
            made = [t for t in own if t.written]
            reads = [t for t in own if t.reads or t.begins is not None]
            ready = all(any(covers(writer, (), read) for writer in found) for read in reads)
            if ready and len(made) == 1 and self._alone(made[0]):
                found.append(made[0])
        return tuple(access.leaf for access in found)

    def _alone(self, made: MemoryAccess) -> bool:
        others = [t for t in self.accesses if t.written and t.leaf is not made.leaf]
        return not any(t.meets(made.low, made.high) for t in others)

    def stays(self, first: tuple[Leaf, ...], inside: tuple[Leaf, ...], depth: int) -> bool:
        """Whether a piece, of which ``depth`` loops are around each run of it, reads only what it has
        written itself, or what the ``first`` instructions have."""
        own = [t for t in self.accesses if t.leaf in inside]
        before = [t for t in self.accesses if t.leaf in first]
        return all(
            _begins_itself(read, depth)
            or any(covers(writer, (), read) for writer in before)
            or any(_covers_in_piece(writer, read, depth) for writer in own)
            or _cover_in_piece(own, read)
            for read in own
            if read.reads or read.begins is not None
        )


def _begins_itself(access: MemoryAccess, depth: int) -> bool:
    """Whether what it reads is what it has written in earlier trips of an inner loop."""
    return access.begins is not None and access.begins >= depth and not access.keeps


def _covers_in_piece(writer: MemoryAccess, read: MemoryAccess, depth: int) -> bool:
    """Whether a reader gets in every run of a piece what a writer, or a later one, left there."""
    if not writer.written or writer.leaf.place >= read.leaf.place:
        return False
    path = common(writer.leaf.path, read.leaf.path)
    return len(path) >= depth and covers(writer, path, read)


def _cover_in_piece(own: list[MemoryAccess], read: MemoryAccess) -> bool:
    """Whether a reader gets in every run of a piece what several writers around it left there."""
    path = read.leaf.path
    writers = [
        t for t in own if t.written and t.leaf.place < read.leaf.place and t.leaf.path == path
    ]
    return cover_together(writers, path, read)


@dataclass(frozen=True, slots=True)
class _Proof:
    """That pieces may run in any order at once."""

    program: Program
    pieces: Pieces
    calls: Mapping[int, Call]
    scratch: _Scratch

    @property
    def holds(self) -> bool:
        """No two pieces write the same element, none reads what is written, and none leaves another
        one anything in the scratchpad."""
        pieces = self.pieces
        rest = [tuple(leaves(piece)) for piece in pieces.rest]
        inside = () if pieces.loop is None else tuple(leaves((pieces.loop,)))
        every = [leaf for piece in (inside, *rest) for leaf in piece]
        reading = (leaf for leaf in (*pieces.before, *every) if leaf.opcode in _READING)
        read = {leaf.instruction.get("tensor") for leaf in reading}
        written = {t for piece in (inside, *rest) for t in self._stores(piece)}
        if written & read:
            return False
        if not self.scratch.stays(pieces.before, inside, 1):
            return False
        if not all(self.scratch.stays(pieces.before, piece, 0) for piece in rest):
            return False
        return (
            self._apart([inside, *rest])
            and self._trips_apart(inside, written)
            and all(self._in_its_place(piece) for piece in rest)
        )

    def _stores(self, piece: tuple[Leaf, ...]) -> dict[int, list[Rectangle]]:
        """What a piece stores, by tensor."""
        found: dict[int, list[Rectangle]] = {}
        for leaf in piece:
            if leaf.opcode is Opcode.STORE:
                one = Rectangle.of(leaf, accesses_of(leaf)[0], self.program.tensors)
                found.setdefault(one.tensor, []).append(one)
        return found

    def _apart(self, pieces: list[tuple[Leaf, ...]]) -> bool:
        """Whether no element is stored by two of them."""
        stores = [self._stores(piece) for piece in pieces]
        return all(
            one.apart_from(other)
            for a, b in combinations(stores, 2)
            for tensor in a.keys() & b.keys()
            for one in a[tensor]
            for other in b[tensor]
        )

    def _trips_apart(self, inside: tuple[Leaf, ...], written: set[int]) -> bool:
        """Whether each trip of the loop writes a part of every tensor of its own."""
        if not inside:
            return True
        stores = self._stores(inside)
        for tensor in written:
            found = stores.get(tensor, [])
            steps = {outermost(one.first) for one in found}
            if len(steps) != 1 or not _move_on(found):
                return False
            if not all(
                outermost(at) in steps and any(_begins_in(at, one) for one in found)
                for at in self._places(inside, tensor)
            ):
                return False
        return True

    def _in_its_place(self, piece: tuple[Leaf, ...]) -> bool:
        """Whether all that is computed in a tensor lies where the piece itself stores."""
        stores = self._stores(piece)
        return all(
            any(_begins_in(at, one) for one in stores.get(tensor, ()))
            for tensor in self._all_written()
            for at in self._places(piece, tensor)
        )

    def _all_written(self) -> set[int]:
        loop = () if self.pieces.loop is None else (self.pieces.loop,)
        nodes = (*loop, *(node for piece in self.pieces.rest for node in piece))
        return set(self._stores(tuple(leaves(nodes))))

    def _places(self, piece: tuple[Leaf, ...], tensor: int) -> list[Affine]:
        """Where calls take or put anything in a tensor, but for STOREs that are made."""
        return [
            operand.at
            for leaf in piece
            if leaf.place in self.calls
            and not (leaf.opcode is Opcode.STORE and self.calls[leaf.place].row)
            for operand in self.calls[leaf.place].operands
            if operand.space is Space.TENSOR and operand.number == tensor
        ]


def _move_on(stores: list[Rectangle]) -> bool:
    """Whether the outermost loop alone moves them all in some dimension, from the same place by the
    same step, and none of them reaches further than that."""
    sides = [zip(one.coordinates, one.buffer.dims, strict=True) for one in stores]
    for along in zip(*sides, strict=True):
        places = {at for at, _ in along}
        step = outermost(next(iter(places)))
        alone = len(places) == 1 and next(iter(places)).terms == ((0, step),)
        if alone and all(extent <= step for _, (extent, _) in along):
            return True
    return False


def _begins_in(at: Affine, rectangle: Rectangle) -> bool:
    """Whether an operand's first element is of a rectangle, both in their first trips: operands lie in
    the rectangle of one STORE as a whole, and those of other pieces and trips are apart from it."""
    place = np.unravel_index(at.first, rectangle.shape)
    sides = zip(rectangle.coordinates, rectangle.buffer.dims, strict=True)
    return all(
        side.first <= x < side.first + extent
        for x, (side, (extent, _)) in zip(place, sides, strict=True)
    )


def outermost(at: Affine) -> int:
    """What a trip of the outermost loop adds."""
    return next((step for level, step in at.terms if level == 0), 0)
