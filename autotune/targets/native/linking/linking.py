"""Links programs into memory: step tables get the addresses of code, constants are packed.

What ``loader`` makes of a program, or was kept of it on disk, comes in; a linked program is immutable and
may stand in any number of plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role, pack_table
from autotune.kernels.micro.words import WORD_KERNELS, Words
from autotune.kernels.native.executor import NOWHERE, RUN, Stream
from autotune.targets.native.binding.narrow_packing import NarrowPacked
from autotune.targets.native.binding.packing import Packed
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel, Source
from autotune.targets.native.compiling.compiler import (
    Compiler,
    LoadedCode,
    generates_alone,
)
from autotune.targets.native.compiling.memory import ALIGNMENT_BYTES, Floats, ReservedFloats
from autotune.targets.native.cpu.topology import core_count

if TYPE_CHECKING:
    from autotune.targets.native.linking.step_clock import StepClock

WORD = -2
"""Base of an operand that is a decoded instruction: its byte is the number of that. (−1 is NULL.)"""

Row = tuple[int, ...]
AnyPacked = Packed | NarrowPacked


class CodeGone(ProgramError):
    """Code that was kept on disk is there no more: its program has to be bound anew."""


@dataclass(frozen=True, slots=True)
class KeptCode:
    """A micro-kernel by its name alone: what a program that is kept says of code that is."""

    digest: str

    def written(self) -> MicroKernel:
        """Raises ``CodeGone``: the name does not say what is written."""
        raise CodeGone(f"micro-kernel {self.digest} is not kept any more; bind its program again")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a stream (``autotune.kernels.native.executor``), but for addresses: that of a RUN is the
    number of its kernel, counted down from −1. Base i + 1 is tensor i, the one behind the last tensor
    the packed constants, and the next one counts from nothing. ``before`` is the number, among its
    program's, of the stream that a thread runs ahead of it."""

    steps: tuple[Row, ...]
    operands: tuple[Row, ...]
    terms: tuple[Row, ...]
    turns: tuple[Row, ...]
    numbers: tuple[Row, ...]
    scratchpad_bytes: int
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Linkable:
    """A program ready to be linked.

    ``befores`` are the tables that run first, ``streams`` those that threads may share out. ``kernels`` is the
    code that both call; ``rows`` are the instructions that compiled kernels decode. ``packed`` are the constants
    to pack. ``read_in_place`` numbers the tensors that calls read in their own memory. ``clocks`` belong to the
    streams, where those are timed."""

    program: Program
    befores: tuple[Tables, ...]
    streams: tuple[Tables, ...]
    kernels: tuple[Source | Opcode, ...]
    rows: tuple[tuple[int | float, ...], ...]
    packed: tuple[AnyPacked, ...]
    read_in_place: frozenset[int]
    clocks: tuple[StepClock, ...] = ()

    @property
    def sources(self) -> list[Source]:
        """The code that has to be generated."""
        return [kernel for kernel in self.kernels if not isinstance(kernel, Opcode)]

    @property
    def by_name(self) -> Linkable:
        """The same with its code by name alone."""
        kernels = (x if isinstance(x, Opcode) else KeptCode(x.digest) for x in self.kernels)
        return replace(self, kernels=tuple(kernels))


@dataclass(frozen=True, slots=True)
class Linked:
    """A program ready for plans: streams, the table of their bases (``autotune.kernels.native.executor``)
    with tensor i as pointer number i, and what must live as long. ``constants`` are the packed ones of
    all programs that were linked together, ``clocks`` are the streams' where they are timed."""

    program: Program
    streams: tuple[Stream, ...]
    table: npt.NDArray[np.int64]
    constants: Floats
    keeps: tuple[Any, ...]
    clocks: tuple[StepClock, ...] = ()

    def renumbered(self, pointers: Sequence[tuple[int, int]]) -> npt.NDArray[np.int64]:
        """The table with tensor i at byte ``pointers[i][1]`` behind pointer number
        ``pointers[i][0]``."""
        table = self.table.copy()
        table[1 : len(pointers) + 1] = np.asarray(pointers, np.int64).reshape(-1, 2)
        return table


def linked(
    programs: Sequence[Linkable],
    constants: Sequence[Mapping[str, Floats]],
    compiler: Compiler | None,
    packed: MutableMapping[_Sources, Floats] | None = None,
    packing: Packing | None = None,
) -> list[Linked]:
    """Compile the kernels of all programs at once and pack each one's constants, given by name.

    ``packed`` is that of ``Packing``, and ``packing`` the packing of these very programs and constants,
    where it has begun.
    """
    sources = [source for one in programs for source in one.sources]
    code = None if compiler is None or not sources else compiler.load(sources)
    addresses = (
        {}
        if code is None
        else dict(zip([source.digest for source in sources], code.addresses, strict=True))
    )
    pools = (Packing(programs, constants, packed) if packing is None else packing).pools()
    return [
        _linked(one, values, addresses, code, pool)
        for one, values, pool in zip(programs, constants, pools, strict=True)
    ]


class Linker:
    """Links programs with constants, each pair once; programs that pack the same arrays alike share one copy.

    Holds what it linked, and the constants, whose addresses are keys.
    """

    def __init__(self, compiler: Compiler | None) -> None:
        self._compiler = compiler
        self._linked: dict[_Key, tuple[Linkable, Linked]] = {}
        self._packed: dict[_Sources, Floats] = {}

    def linked(
        self, programs: Sequence[Linkable], constants: Sequence[Mapping[str, Floats]]
    ) -> list[Linked]:
        """Return what ``linked`` returns; only new pairs are compiled and packed."""
        keys = [_key(one, values) for one, values in zip(programs, constants, strict=True)]
        pairs = zip(keys, programs, constants, strict=True)
        new = {key: (one, values) for key, one, values in pairs if key not in self._linked}
        if new:
            ones, values = zip(*new.values(), strict=True)
            made = linked(ones, values, self._compiler, self._packed)
            self._linked |= dict(zip(new, zip(ones, made, strict=True), strict=True))
        return [self._linked[key][1] for key in keys]

    def keep(self, programs: Iterable[Linkable]) -> None:
        """Forget what was linked of all other programs; it leaves memory with the last plan that uses it."""
        kept = {id(one) for one in programs}
        self._linked = {key: row for key, row in self._linked.items() if key[0] in kept}
        used = {id(row[1].constants) for row in self._linked.values()}
        self._packed = {key: one for key, one in self._packed.items() if id(one) in used}


_Key = tuple[int, tuple[int, ...]]
"""Identity of a program, and the addresses of its constants."""


def _key(one: Linkable, constants: Mapping[str, Floats]) -> _Key:
    return id(one), tuple(value.ctypes.data for value in constants.values())


def offsets(packed: Sequence[AnyPacked]) -> dict[AnyPacked, int]:
    """The byte where each of a program's packed constants begins, behind the first one's."""
    starts, total = {}, 0
    for one in packed:
        starts[one] = 4 * total
        total += _room(one)
    return starts


def packed_bytes(one: Linkable) -> int:
    """Return the memory that a program's packed constants take."""
    return 4 * sum(map(_room, one.packed))


def _room(packed: AnyPacked) -> int:
    """Elements up to where the next one may begin."""
    step = ALIGNMENT_BYTES // 4
    return -(-packed.elements // step) * step


BLOCK_BYTES = 32 << 20
"""Packed constants of a block: threads share the work by blocks."""
PACKING_THREADS = 4
"""Most threads that pack: more wait for memory."""


class Packing:
    """Packs the constants of programs: blocks that any threads may fill, then the memory of each program.

    Programs that pack the same arrays alike share one copy. Without that, every step of a recurrent
    network would read its own copy of the weights, and a core's cache would hold none of them.
    ``packed`` are constants that were packed before, None the read-only ones of all linked programs
    that exist; it grows by the others.
    """

    def __init__(
        self,
        programs: Sequence[Linkable],
        constants: Sequence[Mapping[str, Floats]],
        packed: MutableMapping[_Sources, Floats] | None = None,
    ) -> None:
        self._known = known = _PACKED if packed is None else packed
        self._found: dict[_Sources, Floats] = {}
        self._asked: list[_Sources] = []
        blocks = [PackedBlock(0)]
        placed: set[_Sources] = set()
        for one, values in zip(programs, constants, strict=True):
            sources = tuple(_source(one, packed, values) for packed in one.packed)
            self._asked.append(sources)
            if sources in placed or sources in self._found:
                continue
            held = known.get(sources) if _may_share(one, values, known) else None
            if held is not None:
                self._found[sources] = held
                continue
            placed.add(sources)
            if blocks[-1].size_bytes >= BLOCK_BYTES:
                blocks.append(PackedBlock(blocks[-1].end))
            blocks[-1].add(sources, one, values)
        self.blocks = tuple(blocks)
        self._memory: ReservedFloats | None = None
        self._lock = Lock()

    def fill(self, block: PackedBlock) -> None:
        """Pack the constants of one block. Other threads may fill others."""
        with self._lock:
            if self._memory is None:
                self._memory = ReservedFloats(self.blocks[-1].end)
        block.fill(self._memory)

    def pools(self) -> list[Floats]:
        """Return the packed constants of each program; fill the blocks that nobody has filled."""
        self._fill([block for block in self.blocks if not block.is_filled])
        for block in self.blocks:
            for sources, one, values, pool in block.filled():
                self._found[sources] = pool
                if _may_share(one, values, self._known):
                    self._known[sources] = pool
        return [self._found[sources] for sources in self._asked]

    def _fill(self, blocks: Sequence[PackedBlock]) -> None:
        """Fill blocks, in several threads unless this one generates code alone: memory is slower than two cores."""
        threads = 1 if generates_alone() else min(len(blocks), core_count(), PACKING_THREADS)
        if threads < 2:
            for block in blocks:
                self.fill(block)
            return
        from concurrent.futures import ThreadPoolExecutor  # not for a network of few weights

        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self.fill, blocks):
                pass


class PackedBlock:
    """Packed constants of some programs, side by side from float ``begin`` of the memory on."""

    def __init__(self, begin: int) -> None:
        self._entries: list[tuple[_Sources, int, Linkable, Mapping[str, Floats]]] = []
        self._begin = self.end = begin
        self._pool: Floats | None = None

    def add(self, sources: _Sources, one: Linkable, constants: Mapping[str, Floats]) -> None:
        """Place what a program packs behind what is there."""
        self._entries.append((sources, self.end, one, constants))
        self.end += sum(map(_room, one.packed))

    @property
    def size_bytes(self) -> int:
        """Memory of the block."""
        return 4 * (self.end - self._begin)

    @property
    def is_filled(self) -> bool:
        """True once ``fill`` has ended."""
        return self._pool is not None

    def fill(self, memory: ReservedFloats) -> None:
        """Pack the constants into their places; other threads run meanwhile."""
        memory.populate(self._begin, self.end)
        for _, start, one, constants in self._entries:
            _pack(one, constants, memory.floats[start:])
        self._pool = memory.floats

    def filled(self) -> Iterator[tuple[_Sources, Linkable, Mapping[str, Floats], Floats]]:
        """Give what each program packed, and where it begins."""
        assert self._pool is not None
        for sources, start, one, constants in self._entries:
            yield sources, one, constants, self._pool[start:]


_Source = tuple[int, tuple[int, ...], tuple[int, ...], AnyPacked]
"""Address, shape and strides of an array, and how it is packed, whichever tensor it is."""
_Sources = tuple[_Source, ...]
"""All that a program packs."""
_PACKED: WeakValueDictionary[_Sources, Floats] = WeakValueDictionary()
"""Packed read-only constants of all linked programs that exist. Each holds its constants, so that no
address is of another array meanwhile. Versions of a network with open dimensions share weights by it."""


def _may_share(
    one: Linkable, constants: Mapping[str, Floats], known: MutableMapping[_Sources, Floats]
) -> bool:
    """Return True if what a program packs may be another's: nobody writes to it."""
    names = {one.program.tensors[packed.tensor].name for packed in one.packed}
    return known is not _PACKED or not any(constants[x].flags.writeable for x in names)


def _source(one: Linkable, packed: AnyPacked, constants: Mapping[str, Floats]) -> _Source:
    array = constants[one.program.tensors[packed.tensor].name]
    return array.ctypes.data, array.shape, array.strides, replace(packed, tensor=0)


def _linked(
    one: Linkable,
    constants: Mapping[str, Floats],
    addresses: Mapping[str, int],
    code: LoadedCode | None,
    pool: Floats,
) -> Linked:
    tensors = one.program.tensors
    words = Words(pack_table(one.rows), tensors) if one.rows else None
    places = [] if words is None else words.addresses()
    kernels = [
        int(WORD_KERNELS[kernel]) if isinstance(kernel, Opcode) else addresses[kernel.digest]
        for kernel in one.kernels
    ]
    absolute = len(tensors) + 2
    befores = [_stream(tables, kernels, places, absolute) for tables in one.befores]
    streams = tuple(
        _stream(
            tables,
            kernels,
            places,
            absolute,
            None if tables.before is None else befores[tables.before],
        )
        for tables in one.streams
    )
    inside = [(i, 0) for i in range(len(tensors))]
    pointers = [(0, 0), *inside, (NOWHERE, pool.ctypes.data), (NOWHERE, 0)]
    kept = (code, words, constants, one.clocks)
    return Linked(one.program, streams, np.asarray(pointers, np.int64), pool, kept, one.clocks)


def _pack(one: Linkable, constants: Mapping[str, Floats], pool: Floats) -> None:
    """Fill ``pool`` with a program's packed constants."""
    for packed, byte in offsets(one.packed).items():
        tensor = one.program.tensors[packed.tensor]
        assert tensor.role is Role.CONSTANT
        packed.pack(constants[tensor.name], pool[byte // 4 : byte // 4 + packed.elements])


def _stream(
    tables: Tables,
    kernels: Sequence[int],
    places: Sequence[int],
    absolute: int,
    before: Stream | None = None,
) -> Stream:
    """The tables with addresses in them."""
    steps = [
        (RUN, kernels[-1 - row[1]], *row[2:]) if row[0] == RUN and row[1] < 0 else row
        for row in tables.steps
    ]
    operands = [
        (absolute, places[row[1]], *row[2:]) if row[0] == WORD else row for row in tables.operands
    ]
    rest = tables.terms, tables.turns, tables.numbers
    return Stream(steps, operands, *rest, tables.scratchpad_bytes, before)
