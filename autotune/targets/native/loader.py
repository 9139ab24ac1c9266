"""Loads tile programs for the host CPU: streams become calls, calls machine code and step tables.

``bind`` chooses micro-kernels, ``linkable`` writes the tables of their calls, and ``linking`` puts what
they name into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.targets.native.binding import Binder
from autotune.targets.native.call import Call, Operand, Space
from autotune.targets.native.codegen.recipe import Recipe
from autotune.targets.native.codegen.vector_isa import VectorIsa
from autotune.targets.native.compiler import Compiler
from autotune.targets.native.linking import WORD, Linkable, Linked, linked, offsets
from autotune.targets.native.memory import Floats
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


def linkable(bound: Bound, timed: bool = False) -> Linkable:
    """The program with all decided but addresses; ``timed`` puts a clock behind every call."""
    calls = [call for _, table in bound.streams for call in table.values()]
    decoded = [call for call in calls if not isinstance(call.kernel, Recipe)]
    word_of = {id(call): number for number, call in enumerate(decoded)}
    kernels = {_name(call.kernel): call.kernel for call in calls}
    number_of = {name: number for number, name in enumerate(kernels)}
    packed = bound.packed
    byte_of = offsets(packed)
    count = len(bound.program.tensors)

    def address(call: Call) -> int:
        return -1 - number_of[_name(call.kernel)]

    def base(call: Call, operand: Operand) -> tuple[int, int]:
        match operand.space:
            case Space.SCRATCHPAD:
                return 0, 0
            case Space.TENSOR:
                return 1 + operand.number, 0
            case Space.POOL:
                assert call.packed is not None
                return count + 1, byte_of[call.packed]
            case Space.WORD:
                return WORD, word_of[id(call)]

    clocks = tuple(StepClock() for _ in bound.streams) if timed else ()
    streams = []
    for i, (nodes, table) in enumerate(bound.streams):
        tables = StepTables(address, base, count + 2, clocks[i] if timed else None)
        tables.add(nodes, table)
        streams.append(tables.finished(bound.program.scratchpad_elements))
    rows = tuple(call.row for call in decoded)
    code = tuple(kernels.values())
    made = tuple(streams), code, rows, tuple(packed), bound.read_in_place
    return Linkable(bound.program, *made, clocks)


def _name(kernel: Recipe | Opcode) -> str | Opcode:
    """What tells a kernel from others: 0.0 equals -0.0, but not in code."""
    return kernel.digest if isinstance(kernel, Recipe) else kernel


def link(
    bounds: Sequence[Bound],
    constants: Sequence[Mapping[str, Floats]],
    compiler: Compiler | None,
    timed: bool = False,
) -> list[Linked]:
    """``linked``, of programs that were bound just now."""
    return linked([linkable(bound, timed) for bound in bounds], constants, compiler)
