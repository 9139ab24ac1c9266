"""Where operands live: which buffers need no copy because the tensor itself can be read or written.

On the CPU a scratchpad is memory like any other. A LOAD whose buffer is only read can be left out if
its readers may read the tensor; a STORE, if what computes its buffer may write the tensor. Both hold
for any program that the verifier accepts, or are not done: what is not proven is copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.targets.native.analysis.coverage import begins_anew, common, covers
from autotune.targets.native.analysis.memory_access import MemoryAccess, accesses_of
from autotune.targets.native.analysis.rectangle import InPlace, Rectangle
from autotune.targets.native.analysis.tree import Block, Leaf

STRIDED = frozenset(
    (
        Opcode.MATMUL,
        Opcode.UNARY,
        Opcode.BINARY,
        Opcode.FMA,
        Opcode.CHAIN,
        Opcode.FILL,
        Opcode.REDUCE,
        Opcode.TRANSFORM,
        Opcode.LOOKUP,
        Opcode.CONVERT,
    )
)
"""Opcodes whose micro-kernels take operands anywhere in memory."""


TRANSFERS = frozenset((Opcode.LOAD, Opcode.STORE, Opcode.GATHER))


@dataclass(slots=True)
class ElidedCopies:
    """The operands of a stream that lie in tensors, by (place of instruction, operand).

    ``dropped`` are the places of the transfers that are left out. ``readers`` holds, by the place of a
    left-out LOAD, the operands that read its tensor. ``narrow`` are operands in the scratchpad in another format
    than the instruction's: buffers that LOADs keep in their tensors' formats, and what reads these."""

    operands: dict[tuple[int, str], InPlace] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    readers: dict[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    narrow: dict[tuple[int, str], InPlace] = field(default_factory=dict)

    def place(self, access: MemoryAccess) -> InPlace | None:
        """Where an operand lies, if not as the instruction says."""
        key = access.leaf.place, access.operand
        return self.operands.get(key) or self.narrow.get(key)


@dataclass(frozen=True, slots=True)
class Moved:
    """Instructions that move together: their places in order, and the paths that they stand in."""

    places: tuple[int, ...]
    paths: frozenset[tuple[Block, ...]]

    @classmethod
    def of(cls, leaves: Iterable[Leaf]) -> Moved:
        """Unrolled instructions, thousands of them, stand in a few paths."""
        leaves = tuple(leaves)
        return cls(tuple(sorted(x.place for x in leaves)), frozenset(x.path for x in leaves))

    def between(self, writer: Leaf, read: Leaf, depth: int) -> bool:
        """Whether one may run behind a writer and before a reader, in one trip of the loops that both
        are in, ``depth`` of them: between them in the stream, or in an inner loop with one of them,
        whose trips bring it there."""
        next_ = bisect_left(self.places, writer.place)
        if next_ < len(self.places) and self.places[next_] < read.place:
            return True
        return any(
            len(common(path, read.path)) > depth or len(common(path, writer.path)) > depth
            for path in self.paths
        )


@dataclass(frozen=True, slots=True)
class Reads:
    """What a stream writes without reading it first, and what still reads the scratchpad with the operands
    where they live."""

    written: tuple[MemoryAccess, ...] = ()
    reading: tuple[MemoryAccess, ...] = ()
    _near: dict[tuple[int, int], list[MemoryAccess]] = field(default_factory=dict, compare=False)
    """What is written in a range of addresses: unrolled taps ask for the same few thousands of times."""

    @classmethod
    def of(cls, found: ElidedCopies, stream: tuple[Leaf, ...]) -> Reads:
        """What reads the scratchpad in a stream."""
        accesses = tuple(t for leaf in stream for t in accesses_of(leaf))
        reading = tuple(
            t
            for t in accesses
            if (t.reads or t.begins is not None)
            and t.leaf.place not in found.dropped
            and (t.leaf.place, t.operand) not in found.operands
        )
        return cls(tuple(t for t in accesses if t.written and not t.keeps), reading)

    def gets(self, read: MemoryAccess, result: MemoryAccess, writers: Moved) -> bool:
        """Whether a reader may get what the ``writers``, which run together, left in ``result``:
        unless it lies elsewhere, or gets what another instruction wrote in between."""
        if not read.meets(result.low, result.high):
            return False
        return not _fresh(read, self._meeting(read.low, read.high), writers)

    def _meeting(self, low: int, high: int) -> list[MemoryAccess]:
        """What is written within [low, high]."""
        if (low, high) not in self._near:
            self._near[low, high] = [t for t in self.written if t.meets(low, high)]
        return self._near[low, high]


NO_READS = Reads()
Converts = Callable[[MemoryAccess, Role], bool]
"""Whether an instruction's kernel converts an operand between fp32 and the format of its tensor."""
STORED = (Format.FP32, Format.BF16, Format.FP16, Format.INT8, Format.UINT8)
"""Formats of tensors that kernels convert to and from fp32."""
BYTES = (Format.INT8, Format.UINT8)
NARROW_PADDING = {Format.BF16: (-128, 128), Format.INT8: (-128, 127), Format.UINT8: (0, 255)}
"""Whole numbers, at least, that buffers of a format may be padded with."""


def _never(access: MemoryAccess, role: Role) -> bool:
    return False


def elide_copies(
    program: Program, stream: tuple[Leaf, ...], converts: Converts = _never
) -> ElidedCopies:
    """Decide for every operand of a stream. A LOAD or STORE that converts is left out only where all
    that it serves does so itself."""
    accesses = [access for leaf in stream for access in accesses_of(leaf)]
    transfers = [
        Rectangle.of(access.leaf, access, program.tensors)
        for access in accesses
        if access.leaf.opcode in TRANSFERS
    ]
    movable = frozenset(r.leaf.place for r in transfers if _movable(program, r))
    filled = {r.leaf.place: _fillings(r, accesses) for r in transfers}
    roles = tuple(tensor.role for tensor in program.tensors)
    formats = tuple(tensor.format for tensor in program.tensors)
    buffers = _Buffers(accesses, filled, movable, roles, formats, converts)
    found = ElidedCopies()
    for rectangle in transfers:
        if rectangle.leaf.place not in movable:
            if _stays_narrow(rectangle, roles):
                found.narrow.update(buffers.read_narrow(rectangle))
            continue
        if rectangle.leaf.opcode is Opcode.LOAD:
            operands = buffers.read_in_place(rectangle)
        elif _alone(rectangle, transfers):
            operands = buffers.written_in_place(rectangle)
        else:
            operands = None
        if operands is not None:
            found.operands.update(operands)
            found.dropped.add(rectangle.leaf.place)
            if rectangle.leaf.opcode is Opcode.LOAD:
                found.readers[rectangle.leaf.place] = tuple(operands)
    return found


def _movable(program: Program, rectangle: Rectangle) -> bool:
    """Whether a transfer neither pads nor clips, reads what no one writes, and converts, if at all,
    between fp32 and a narrow format."""
    leaf, tensor = rectangle.leaf, program.tensors[rectangle.tensor]
    if leaf.opcode is Opcode.GATHER or not rectangle.inside:
        return False
    if rectangle.converts and not (
        rectangle.buffer.format is Format.FP32 and tensor.format in STORED
    ):
        return False
    return (leaf.opcode is Opcode.STORE) == (tensor.role is Role.OUTPUT)


def _stays_narrow(rectangle: Rectangle, roles: Sequence[Role]) -> bool:
    """Whether a LOAD that widens and pads may keep its tensor's format: that has the padding's value."""
    leaf, format = rectangle.leaf, rectangle.format
    if leaf.opcode is not Opcode.LOAD or not rectangle.converts or format not in NARROW_PADDING:
        return False
    fits = rectangle.buffer.format is Format.FP32 and roles[rectangle.tensor] is not Role.OUTPUT
    low, high = NARROW_PADDING[format]
    pad = leaf.instruction.scalar("pad")
    return fits and low <= pad <= high and pad == round(pad)


def _alone(store: Rectangle, transfers: list[Rectangle]) -> bool:
    """Whether no other transfer moves what a STORE writes, so that it may write earlier."""
    return all(
        other is store
        or other.tensor != store.tensor
        or (other.leaf.opcode is Opcode.STORE and store.apart_from(other))
        for other in transfers
    )


Operands = dict[tuple[int, str], InPlace]


@dataclass(frozen=True, slots=True)
class _Filling:
    """Places of the first and the last of the instructions that together fill a buffer anew."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Buffers:
    """All accesses of a stream; for the place of each STORE what fills its buffer anew, the latest
    first; the places of transfers that neither pad, clip nor convert: such a STORE may read anywhere in
    memory."""

    accesses: list[MemoryAccess]
    filled: dict[int, tuple[_Filling, ...]]
    movable: frozenset[int]
    roles: tuple[Role, ...]
    formats: tuple[Format, ...]
    converts: Converts

    def read_in_place(self, rectangle: Rectangle) -> Operands | None:
        """The readers of a LOAD's buffer in its tensor; None if one of them cannot."""
        own = self._readers(rectangle)
        return None if own is None else self._located(rectangle, own)

    def read_narrow(self, rectangle: Rectangle) -> Operands:
        """A LOAD's buffer in its tensor's format, and its readers there; none of them if one cannot."""
        own = self._readers(rectangle)
        if not own or rectangle.buffer.alternation is not None:
            return {}
        strides = tuple(stride for _, stride in rectangle.buffer.dims)
        place = InPlace(None, rectangle.narrow_first, strides, rectangle.format)
        found: Operands = {(rectangle.leaf.place, rectangle.buffer.operand): place}
        for access in own:
            converts = access.format is Format.FP32 and not access.written
            converts = converts and access.leaf.opcode not in (Opcode.MATMUL, Opcode.STORE)
            converts = converts and self.converts(access, self.roles[rectangle.tensor])
            located = rectangle.locate_narrow(access) if converts else None
            if located is None:
                return {}
            found[access.leaf.place, access.operand] = located
        return found

    def _readers(self, rectangle: Rectangle) -> list[MemoryAccess] | None:
        """What reads a LOAD's elements and nothing else of its buffer; None if that is not proven, or it is
        written to."""
        load = rectangle.leaf
        near = self._near(rectangle)
        behind = [t for t in near if _in_body_behind(t, load)]
        ends = min((t.leaf for t in behind if t.written), key=lambda leaf: leaf.place, default=None)
        own = [t for t in behind if ends is None or t.leaf.place < ends.place]
        if ends is not None:
            # what ends the buffer's life may read it first, element by element
            own += [t for t in behind if t.leaf is ends and not t.written]
            # in a loop with it they read the LOAD's elements in the first trip only
            if any(len(common(t.leaf.path, ends.path)) > len(load.path) for t in own):
                return None
        others = [t for t in near if t not in own and t.reads]
        load_moves = Moved.of([load])
        return own if all(_fresh(t, near, load_moves, self._latest(t)) for t in others) else None

    def _latest(self, access: MemoryAccess) -> int | None:
        """From which place on what a STORE reads is filled anew, where that is known."""
        fillings = self.filled.get(access.leaf.place, ())
        return fillings[0].first if fillings else None

    def written_in_place(self, rectangle: Rectangle) -> Operands | None:
        """What fills a STORE's buffer and what reads it then, in its tensor; None if one cannot. What
        passes over the buffer last, such as a sum behind products, may be read no earlier than they are."""
        for filling in self.filled[rectangle.leaf.place]:
            found = self._written_from(rectangle, filling)
            if found is not None:
                return found
        return None

    def _written_from(self, rectangle: Rectangle, filling: _Filling) -> Operands | None:
        store, begins = rectangle.leaf, filling.first
        near = self._near(rectangle)
        own = [t for t in near if begins < t.leaf.place < store.place and _under(t, store.path)]
        own += [t for t in near if t.leaf.place == begins and t.written]
        if any(t.reads and not t.written and t.leaf.place <= filling.last for t in own):
            return None
        behind = [t for t in near if _in_body_behind(t, store)]
        ends = min((t.leaf.place for t in behind if t.written), default=-1)
        own += [t for t in behind if ends < 0 or t.leaf.place < ends]
        moved = Moved.of([store, *(t.leaf for t in own)])
        others = [t for t in near if t not in own and t.reads]
        if not all(_fresh(t, near, moved, self._latest(t)) for t in others):
            return None
        return self._located(rectangle, own)

    def _located(self, rectangle: Rectangle, own: list[MemoryAccess]) -> Operands | None:
        found: Operands = {}
        loads = rectangle.leaf.opcode is Opcode.LOAD
        if rectangle.converts and not loads and not all(t.written for t in own):
            return None  # they would read what was rounded
        for access in own:
            leaf = access.leaf
            if rectangle.converts:
                role = self.roles[rectangle.tensor]
                anywhere = access.format is Format.FP32 and self.converts(access, role)
                if leaf.opcode is Opcode.STORE:
                    anywhere = anywhere and self._copies_bytes(rectangle, leaf)
            else:
                anywhere = leaf.opcode in STRIDED or (
                    loads and leaf.opcode is Opcode.STORE and leaf.place in self.movable
                )
            place = rectangle.locate(access) if anywhere else None
            if place is None:
                return None
            found[leaf.place, access.operand] = place
        return found

    def _copies_bytes(self, load: Rectangle, store: Leaf) -> bool:
        """Whether a STORE of what a LOAD has widened copies bytes of one format."""
        same = self.formats[store.instruction.get("tensor")] is load.format
        return same and load.format in BYTES and store.place in self.movable

    def _near(self, rectangle: Rectangle) -> list[MemoryAccess]:
        low, high = rectangle.buffer.low, rectangle.buffer.high
        return [t for t in self.accesses if t.leaf is not rectangle.leaf and t.meets(low, high)]


def _fresh(
    read: MemoryAccess, near: Sequence[MemoryAccess], moved: Moved, begins: int | None = None
) -> bool:
    """Whether a reader gets what instructions other than the ``moved`` ones wrote last, in the
    same trip of all their common loops, with none of the moved ones in between. ``begins`` is the
    place from which on what it reads is filled anew, where that is known. The last writers are asked first:
    they are what most readers get."""
    for writer in reversed(near):
        if not writer.written or writer.leaf.place >= read.leaf.place:
            continue
        begun = writer.leaf.place == begins
        if writer.keeps and not begun:
            continue
        shared = common(writer.leaf.path, read.leaf.path)
        fills = begun or covers(writer, shared, read)
        if fills and not moved.between(writer.leaf, read.leaf, len(shared)):
            return True
    return False


def _fillings(store: Rectangle, accesses: list[MemoryAccess]) -> tuple[_Filling, ...]:
    """What fills a STORE's buffer anew, as late as possible first; none where nothing is known to fill
    it, and for other transfers."""
    if store.leaf.opcode is not Opcode.STORE:
        return ()
    depth, writers, found = len(store.leaf.path), list[MemoryAccess](), list[_Filling]()
    low, high = store.buffer.low, store.buffer.high
    for access in reversed(accesses):
        if access.leaf.place >= store.leaf.place or not access.written:
            continue
        if not (_under(access, store.leaf.path) and access.meets(low, high)):
            continue
        if not begins_anew(access, depth):
            continue
        if covers(access, store.leaf.path, store.buffer):
            found.append(_Filling(access.leaf.place, access.leaf.place))
            continue
        writers.append(access)
        if store.filled_by(writers, depth):
            found.append(_Filling(access.leaf.place, writers[0].leaf.place))
            writers = []
    return tuple(found)


def _under(access: MemoryAccess, path: tuple[Block, ...]) -> bool:
    """Whether it runs inside of the blocks of ``path``."""
    return access.leaf.path[: len(path)] == path


def _in_body_behind(access: MemoryAccess, leaf: Leaf) -> bool:
    return access.leaf.place > leaf.place and _under(access, leaf.path)
