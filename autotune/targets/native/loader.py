"""Loads tile programs for the host CPU: streams become calls, calls machine code and step tables.

``bind`` chooses micro-kernels, ``link`` compiles those of many programs together and packs their
constants. A linked program is immutable and may stand in any number of plans.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.isa.field_table import field_table
from autotune.isa.program import Program, Role
from autotune.kernels.engine import WORD_KERNELS, Words
from autotune.kernels.native import NOWHERE, Stream
from autotune.targets.native.binding import Binder
from autotune.targets.native.call import Call, Operand, Space
from autotune.targets.native.codegen.recipe import Recipe
from autotune.targets.native.codegen.vector_isa import VectorIsa
from autotune.targets.native.compiler import Compiler
from autotune.targets.native.packing import Packed
from autotune.targets.native.parts import parts_of
from autotune.targets.native.residence import Reads, residence
from autotune.targets.native.steps import StepTables
from autotune.targets.native.tree import Node, leaves, tree_of

ALIGNMENT_BYTES = 64
POPULATED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Bound:
    """A program with the micro-kernels chosen: for each part that a thread may take (one of its
    streams, or of what ``parts`` cuts it into) the nodes, and the calls by place."""

    program: Program
    streams: tuple[tuple[tuple[Node, ...], Mapping[int, Call]], ...]

    @property
    def packed(self) -> list[Packed]:
        """The constants to pack, each once."""
        calls = (call for _, calls in self.streams for call in calls.values())
        return list(dict.fromkeys(call.packed for call in calls if call.packed is not None))

    @property
    def read_in_place(self) -> frozenset[int]:
        """Numbers of the tensors that calls reach in their own memory, and not packed."""
        return frozenset(
            operand.number
            for _, calls in self.streams
            for call in calls.values()
            for operand in call.operands
            if operand.space is Space.TENSOR
        )

    @property
    def kernels(self) -> list[Recipe]:
        """The code that has to be generated, in the order of the calls, once each."""
        calls = (call for _, table in self.streams for call in table.values())
        kernels = (call.kernel for call in calls)
        return list(dict.fromkeys(k for k in kernels if isinstance(k, Recipe)))


@dataclass(frozen=True, slots=True)
class Linked:
    """A program ready for plans: streams, the table of their bases (``autotune.kernels.native``)
    with tensor i as pointer number i, and what must live as long."""

    program: Program
    streams: tuple[Stream, ...]
    table: npt.NDArray[np.int64]
    keeps: tuple[Any, ...]

    def renumbered(self, pointers: Sequence[tuple[int, int]]) -> npt.NDArray[np.int64]:
        """The table with tensor i at byte ``pointers[i][1]`` behind pointer number
        ``pointers[i][0]``."""
        table = self.table.copy()
        table[1 : len(pointers) + 1] = np.asarray(pointers, np.int64).reshape(-1, 2)
        return table


def bind(program: Program, isa: VectorIsa | None) -> Bound:
    """Choose micro-kernels for a verified program; without ``isa`` the compiled ones."""
    streams: list[tuple[tuple[Node, ...], Mapping[int, Call]]] = []
    for stream in program.streams:
        nodes = tree_of(stream)
        order = tuple(leaves(nodes))
        found = residence(program, order)
        binder = Binder(program, found, isa, Reads.of(found, order))
        whole = nodes, binder.calls(nodes)
        streams += parts_of(program, whole) if len(program.streams) > 1 else (whole,)
    return Bound(program, tuple(streams))


def link(
    bounds: Sequence[Bound],
    constants: Sequence[Mapping[str, npt.NDArray[np.float32]]],
    compiler: Compiler | None,
) -> list[Linked]:
    """Compile the kernels of all programs at once and pack each one's constants, given by name."""
    kernels = [kernel for bound in bounds for kernel in bound.kernels]
    code = None if compiler is None or not kernels else compiler.load(kernels)
    addresses = (
        {}
        if code is None
        else dict(zip([kernel.digest for kernel in kernels], code.addresses, strict=True))
    )
    pool, starts = _pool(bounds)
    return [
        _linked(bound, values, addresses, (code, pool), pool[start:])
        for bound, values, start in zip(bounds, constants, starts, strict=True)
    ]


def _pool(bounds: Sequence[Bound]) -> tuple[npt.NDArray[np.float32], list[int]]:
    """Room for the packed constants of all programs, and where each one's begin."""
    starts, total = [], 0
    for bound in bounds:
        starts.append(total)
        total += sum(map(_room, bound.packed))
    return populated_floats(total), starts


def _room(packed: Packed) -> int:
    """Elements up to where the next one may begin."""
    step = ALIGNMENT_BYTES // 4
    return -(-packed.elements // step) * step


def _linked(
    bound: Bound,
    constants: Mapping[str, npt.NDArray[np.float32]],
    addresses: Mapping[str, int],
    keeps: tuple[Any, ...],
    pool: npt.NDArray[np.float32],
) -> Linked:
    program = bound.program
    calls = [call for _, table in bound.streams for call in table.values()]
    offsets = _packed(bound, constants, pool)
    decoded = [call for call in calls if not isinstance(call.kernel, Recipe)]
    words = Words(field_table([call.row for call in decoded]), program.tensors) if decoded else None
    places = [] if words is None else words.addresses()
    word_of = {id(call): place for call, place in zip(decoded, places, strict=True)}
    count = len(program.tensors)
    pool_base, absolute = count + 1, count + 2

    def address(call: Call) -> int:
        if isinstance(call.kernel, Recipe):
            return addresses[call.kernel.digest]
        return int(WORD_KERNELS[call.kernel])

    def base(call: Call, operand: Operand) -> tuple[int, int]:
        match operand.space:
            case Space.SCRATCHPAD:
                return 0, 0
            case Space.TENSOR:
                return 1 + operand.number, 0
            case Space.POOL:
                assert call.packed is not None
                return pool_base, offsets[call.packed]
            case Space.WORD:
                return absolute, word_of[id(call)]

    streams = []
    for nodes, table in bound.streams:
        tables = StepTables(address, base)
        tables.add(nodes, table)
        streams.append(tables.stream(program.scratchpad_elements))
    pointers = [(0, 0), *((i, 0) for i in range(count)), (NOWHERE, pool.ctypes.data), (NOWHERE, 0)]
    return Linked(
        program, tuple(streams), np.asarray(pointers, np.int64), (*keeps, words, constants)
    )


def _packed(
    bound: Bound, constants: Mapping[str, npt.NDArray[np.float32]], pool: npt.NDArray[np.float32]
) -> dict[Packed, int]:
    """Fill the pool with a program's packed constants; the byte where each begins."""
    starts, total = {}, 0
    for packed in bound.packed:
        tensor = bound.program.tensors[packed.tensor]
        assert tensor.role is Role.CONSTANT
        packed.pack(constants[tensor.name], pool[total : total + packed.elements])
        starts[packed] = 4 * total
        total += _room(packed)
    return starts


def populated_floats(count: int) -> npt.NDArray[np.float32]:
    """As ``aligned_floats``, with its pages there at once: one by one, when they are first touched,
    they take half as long again, and large pages may have to be made first (0.3 s for 100 MB)."""
    if 4 * count < POPULATED_BYTES or not hasattr(mmap, "MAP_POPULATE"):
        return aligned_floats(count)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    return np.frombuffer(mmap.mmap(-1, 4 * count, flags=flags), np.float32)


def aligned_floats(count: int) -> npt.NDArray[np.float32]:
    """``count`` floats that begin on a cache line."""
    raw = np.empty(4 * count + ALIGNMENT_BYTES, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[skip : skip + 4 * count].view(np.float32)
