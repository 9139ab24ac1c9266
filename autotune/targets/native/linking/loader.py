"""Loads tile programs for the host CPU: streams become calls, calls machine code and step tables.

``bind`` chooses micro-kernels, ``linkable`` writes the tables of their calls, and ``linking`` puts what
they name into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.targets.native.analysis.copy_elision import ElidedCopies, Reads, elide_copies
from autotune.targets.native.analysis.tree import Leaf, Node, leaves, tree_of
from autotune.targets.native.binding.binding import Binder, NotConverted
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.grouped_products import with_joint_groups
from autotune.targets.native.binding.narrow_packing import NarrowPacked
from autotune.targets.native.binding.packing import Packed
from autotune.targets.native.binding.panels import with_panels
from autotune.targets.native.binding.tasks import Part, parts_of, shared
from autotune.targets.native.binding.vector_runs import convertible
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import Floats
from autotune.targets.native.cpu.vector_isa import VectorIsa
from autotune.targets.native.linking.linking import WORD, Linkable, Linked, linked, offsets
from autotune.targets.native.linking.step_clock import StepClock
from autotune.targets.native.linking.steps import StepTables


@dataclass(frozen=True, slots=True)
class Bound:
    """A program with the micro-kernels chosen: the parts that a thread may take, its streams or what
    ``parts`` cuts them into. ``scratchpad_elements`` are what a thread needs: the program's and
    panels of factors behind it."""

    program: Program
    parts: tuple[Part, ...]
    scratchpad_elements: int

    @property
    def befores(self) -> list[Part]:
        """What comes before parts, each once."""
        return list(dict.fromkeys(p.before for p in self.parts if p.before is not None))

    @property
    def calls(self) -> list[Call]:
        """All calls, of what comes before parts and of the parts."""
        return [call for part in (*self.befores, *self.parts) for call in part.calls.values()]

    @property
    def packed(self) -> list[Packed | NarrowPacked]:
        """The constants to pack, each once."""
        found = (call.packed for call in self.calls)
        return list(dict.fromkeys(packed for packed in found if packed is not None))

    @property
    def read_in_place(self) -> frozenset[int]:
        """Numbers of the tensors that calls reach in their own memory, and not packed."""
        return frozenset(
            operand.number
            for call in self.calls
            for operand in call.operands
            if operand.space is Space.TENSOR
        )


def bind(program: Program, isa: VectorIsa | None) -> Bound:
    """Choose micro-kernels for a verified program; without ``isa`` the compiled ones."""
    parts: list[Part] = []
    elements = program.scratchpad_elements
    for stream in program.streams:
        nodes = tree_of(stream)
        order = tuple(leaves(nodes))
        found, calls = _called(program, nodes, order, isa)
        panels = with_panels(program, order, calls, found)
        elements = max(elements, panels.scratchpad_elements)
        joint = with_joint_groups(program, nodes, panels.calls)
        whole = Part(joint.nodes, joint.calls)
        parts += parts_of(program, whole, found) if len(program.streams) > 1 else (whole,)
    return Bound(program, shared(parts), elements)


def _called(
    program: Program, nodes: tuple[Node, ...], order: tuple[Leaf, ...], isa: VectorIsa | None
) -> tuple[ElidedCopies, dict[int, Call]]:
    """Where a stream's operands live, and its calls; transfers that convert are left out if possible."""
    if isa is not None:
        found = elide_copies(program, order, convertible)
        try:
            return found, Binder(program, found, isa, Reads.of(found, order)).calls(nodes)
        except NotConverted:
            pass
    found = elide_copies(program, order)
    return found, Binder(program, found, isa, Reads.of(found, order)).calls(nodes)


def linkable(bound: Bound, timed: bool = False) -> Linkable:
    """The program with all decided but addresses; ``timed`` puts a clock behind every call."""
    calls = bound.calls
    decoded = [call for call in calls if not isinstance(call.kernel, KernelSpec)]
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

    befores = bound.befores
    parts = [*befores, *bound.parts]
    clocks = tuple(StepClock() for _ in parts) if timed else ()
    found = []
    for i, part in enumerate(parts):
        tables = StepTables(address, base, count + 2, clocks[i] if timed else None)
        tables.add(part.nodes, part.calls)
        before = None if part.before is None else befores.index(part.before)
        found.append(tables.finished(bound.scratchpad_elements, before))
    return Linkable(
        bound.program,
        tuple(found[: len(befores)]),
        tuple(found[len(befores) :]),
        tuple(kernels.values()),
        tuple(call.row for call in decoded),
        tuple(packed),
        bound.read_in_place,
        clocks,
    )


def _name(kernel: KernelSpec | Opcode) -> str | Opcode:
    """What tells a kernel from others: 0.0 equals -0.0, but not in code."""
    return kernel.digest if isinstance(kernel, KernelSpec) else kernel


def link(
    bounds: Sequence[Bound],
    constants: Sequence[Mapping[str, Floats]],
    compiler: Compiler | None,
    timed: bool = False,
) -> list[Linked]:
    """``linked``, of programs that were bound just now."""
    return linked([linkable(bound, timed) for bound in bounds], constants, compiler)
