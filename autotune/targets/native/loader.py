"""Loads tile programs for the host CPU: streams become calls, calls machine code and step tables.

``bind`` chooses micro-kernels, ``link`` compiles those of many programs together and packs their
constants. A linked program is immutable and may stand in any number of plans.
"""

from __future__ import annotations

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
from autotune.targets.native.compiler import Compiler, LoadedCode
from autotune.targets.native.memory import ALIGNMENT_BYTES, Floats, populated_floats
from autotune.targets.native.packing import Packed
from autotune.targets.native.parts import parts_of
from autotune.targets.native.residence import Reads, residence
from autotune.targets.native.step_clock import StepClock
from autotune.targets.native.steps import StepTables
from autotune.targets.native.tree import Node, leaves, tree_of


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
        """The code that has to be generated, in the order of the calls, once each; 0.0 equals -0.0,
        but not in code."""
        calls = (call for _, table in self.streams for call in table.values())
        kernels = (call.kernel for call in calls)
        return list({k.digest: k for k in kernels if isinstance(k, Recipe)}.values())


@dataclass(frozen=True, slots=True)
class Linked:
    """A program ready for plans: streams, the table of their bases (``autotune.kernels.native``)
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


def bind(program: Program, isa: VectorIsa | None) -> Bound:
    """Choose micro-kernels for a verified program; without ``isa`` the compiled ones."""
    streams: list[tuple[tuple[Node, ...], Mapping[int, Call]]] = []
    for stream in program.streams:
        nodes = tree_of(stream)
        order = tuple(leaves(nodes))
        found = residence(program, order)
        binder = Binder(program, found, isa, Reads.of(found, order))
        whole = nodes, binder.calls(nodes)
        streams += parts_of(program, whole, found) if len(program.streams) > 1 else (whole,)
    return Bound(program, tuple(streams))


def link(
    bounds: Sequence[Bound],
    constants: Sequence[Mapping[str, Floats]],
    compiler: Compiler | None,
    timed: bool = False,
) -> list[Linked]:
    """Compile the kernels of all programs at once and pack each one's constants, given by name;
    ``timed`` puts a clock behind every call."""
    kernels = [kernel for bound in bounds for kernel in bound.kernels]
    code = None if compiler is None or not kernels else compiler.load(kernels)
    addresses = (
        {}
        if code is None
        else dict(zip([kernel.digest for kernel in kernels], code.addresses, strict=True))
    )
    pool, starts = _pool(bounds)
    return [
        _linked(bound, values, addresses, code, (pool, start), timed)
        for bound, values, start in zip(bounds, constants, starts, strict=True)
    ]


def _pool(bounds: Sequence[Bound]) -> tuple[Floats, list[int]]:
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
    constants: Mapping[str, Floats],
    addresses: Mapping[str, int],
    code: LoadedCode | None,
    place: tuple[Floats, int],
    timed: bool,
) -> Linked:
    program = bound.program
    calls = [call for _, table in bound.streams for call in table.values()]
    pool, start = place
    offsets = _packed(bound, constants, pool[start:])
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
    clocks = tuple(StepClock() for _ in bound.streams) if timed else ()
    for i, (nodes, table) in enumerate(bound.streams):
        tables = StepTables(address, base, absolute, clocks[i] if timed else None)
        tables.add(nodes, table)
        streams.append(tables.stream(program.scratchpad_elements))
    pointers = [
        (0, 0),
        *((i, 0) for i in range(count)),
        (NOWHERE, pool[start:].ctypes.data),
        (NOWHERE, 0),
    ]
    bases, kept = np.asarray(pointers, np.int64), (code, words, constants, clocks)
    return Linked(program, tuple(streams), bases, pool, kept, clocks)


def _packed(bound: Bound, constants: Mapping[str, Floats], pool: Floats) -> dict[Packed, int]:
    """Fill the pool with a program's packed constants; the byte where each begins."""
    starts, total = {}, 0
    for packed in bound.packed:
        tensor = bound.program.tensors[packed.tensor]
        assert tensor.role is Role.CONSTANT
        packed.pack(constants[tensor.name], pool[total : total + packed.elements])
        starts[packed] = 4 * total
        total += _room(packed)
    return starts
