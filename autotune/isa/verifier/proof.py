"""Proves that a program is safe before an engine runs it; stands between lowering and targets.

Proven, for every core and every trip of every loop:

- every field holds a value of its type that fits its bits, no scalar is NaN, codes are known, also
  those of a CHAIN's stages; formats, zero points and epilogues of a MATMUL or CONVERT go together; a
  MATMUL that forwards signals;
- loops and cases nest, are closed, bounded and at most ``MAX_LOOP_DEPTH`` deep; ``level`` fields say
  their nesting; every level that a field names encloses its instruction; HALT ends the stream;
- every scratchpad access lies in ``[0, program.scratchpad_elements)``, and that in what the
  target has. A rectangle's extreme addresses are exact: they are affine in the loop indices, and
  the second slot counts as reached wherever a loop turns it;
- all tensors together fit DRAM's address space;
- rectangles agree with the rank of their tensor (they may lie outside of it: padding); only OUTPUT
  tensors are stored to; an OUTPUT is loaded only after a STORE to it earlier in the same stream
  that runs whenever the load does: not one in a CASE that ended before;
- semaphores neither deadlock nor lose a signal, and one queue alone takes from each (``balance``);
  control instructions wait and signal through WAIT and SIGNAL only. Counts stay at or below 255
  along program order; a queue that runs ahead of the others may raise them further. The body of a
  CASE changes no count, so that it may as well be left out.

Checked, short of a proof: reads of scratchpad that was never written. A read is refused when, the
first time it runs, its first or last element lies in no interval written by an instruction before
it; or when, over all trips, the same holds of its lowest or highest element and intervals written
before it or in its outermost loop. An interval runs from the lowest to the highest word that an
instruction writes over all trips. What a CASE writes counts inside of it alone, since it may not
run. So no program that writes all it reads whatever its cases do is refused, and an accepted one
may still read a gap between the words written. Such a read meets old numbers, never memory outside
of the scratchpad.

Not checked: races between units that no semaphore orders, and between cores in DRAM; that is done by
``autotune.targets.emulator.races``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from autotune.errors import ProgramError
from autotune.isa.access import ACCESSES, Access
from autotune.isa.fields import HEADER, MAX_LOOP_DEPTH, NO_LEVEL
from autotune.isa.notation import LEVEL_POSITIONS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, Values, field_index, fields_getter
from autotune.isa.table import INSTRUCTIONS
from autotune.isa.verifier.balance import Balance
from autotune.isa.verifier.legal_values import find_illegal_value
from autotune.isa.verifier.rules import RULES, Rule
from autotune.isa.verifier.scratchpad import LateReadError, Scratchpad
from autotune.isa.verifier.transfers import Transfers

TENSOR_LIMIT = 1 << 10
"""Tensors that the ``tensor`` field can tell apart."""
DRAM_LIMIT_BYTES = 1 << 46
"""That all tensors may have together: an engine's 64 bits hold every address and hop with it."""


def verify(program: Program, scratchpad_elements: int | None = None) -> None:
    """Return if the program is proven safe (see the module); raise ``ProgramError`` that names
    core, instruction and reason otherwise.

    ``scratchpad_elements`` is what one core of the target has, None to ask only for what the
    program itself declares.
    """
    declared = program.scratchpad_elements
    if declared < 0:
        raise ProgramError(f"{program.name}: {declared} scratchpad elements; it must be 0 or more")
    if scratchpad_elements is not None and declared > scratchpad_elements:
        raise ProgramError(
            f"{program.name}: needs {declared} scratchpad elements, the target has "
            f"{scratchpad_elements}; choose smaller tiles"
        )
    if len(program.tensors) > TENSOR_LIMIT:
        raise ProgramError(
            f"{program.name}: {len(program.tensors)} tensors; a program names at most "
            f"{TENSOR_LIMIT}; split the group"
        )
    size = sum(math.prod(tensor.shape) * tensor.format.bytes for tensor in program.tensors)
    if size > DRAM_LIMIT_BYTES:
        raise ProgramError(
            f"{program.name}: tensors of {size} bytes; DRAM has {DRAM_LIMIT_BYTES}; split the group"
        )
    for core, (stream, credits) in enumerate(zip(program.streams, program.credits, strict=True)):
        try:
            balance = Balance(credits)
        except ProgramError as error:
            raise ProgramError(f"{program.name}: core {core}: {error}") from None
        _StreamProof(program, core, stream, balance).run()


@dataclass(frozen=True, slots=True)
class Inspection:
    """Getters and constants of one opcode: its queue, loop levels, scratchpad accesses, and the
    rule that its fields obey among themselves."""

    opcode: Opcode
    unit: int
    transfers: bool
    levels: Callable[..., tuple[int, ...]]
    accesses: tuple[Access, ...]
    rule: Rule | None


def _inspection(opcode: Opcode) -> Inspection:
    unit = INSTRUCTIONS[opcode].unit
    return Inspection(
        opcode,
        int(unit),
        unit in (Unit.LOAD, Unit.STORE),
        itemgetter(*LEVEL_POSITIONS[opcode]),
        ACCESSES[opcode],
        RULES.get(opcode),
    )


INSPECTIONS: dict[int | float, Inspection] = {
    int(opcode): _inspection(opcode) for opcode in ACCESSES
}


_HALT, _LOOP, _CASE, _END, _WAIT, _SIGNAL = map(
    int, (Opcode.HALT, Opcode.LOOP, Opcode.CASE, Opcode.END, Opcode.WAIT, Opcode.SIGNAL)
)
_LOOP_FIELDS = fields_getter(Opcode.LOOP, "trips", "level")
_CASE_FIELDS = fields_getter(Opcode.CASE, "low", "high", "level")
_END_LEVEL = field_index(Opcode.END)["level"]
_UNIT_AND_SEMAPHORE = fields_getter(Opcode.WAIT, "unit", "semaphore")
assert field_index(Opcode.SIGNAL) == field_index(Opcode.WAIT)
_SEMAPHORES_OF = fields_getter(Opcode.HALT, *(field.name for field in HEADER[1:]))
"""Three to wait for, three to signal; of any opcode."""
_ENCLOSING = tuple(frozenset((*range(depth), NO_LEVEL)) for depth in range(MAX_LOOP_DEPTH + 1))
"""Levels that a field may name inside of so many loops and cases."""


class _StreamProof:
    """Walks one core's stream in program order; ``at`` is the instruction it looks at."""

    def __init__(
        self, program: Program, core: int, stream: tuple[Instruction, ...], balance: Balance
    ) -> None:
        self.program = program
        self.core = core
        self.stream = stream
        self.at = 0
        self.is_case: list[bool] = []
        self.enclosing = _ENCLOSING[0]
        self.balance = balance
        self.transfers = Transfers(program.tensors)
        self.scratchpad = Scratchpad(program.scratchpad_elements)

    def run(self) -> None:
        """Raise ``ProgramError`` unless the stream is safe."""
        illegal = find_illegal_value(self.stream)
        if illegal is not None:
            self.at, reason = illegal
            raise self._refusal(reason)
        try:
            self._walk()
        except LateReadError as error:
            self.at = error.at
            raise self._refusal(str(error)) from None
        except ProgramError as error:
            raise self._refusal(str(error)) from None

    def _refusal(self, reason: str) -> ProgramError:
        place = f"{self.program.name}: core {self.core}, instruction {self.at}"
        values = self.stream[self.at].values if self.at < len(self.stream) else ()
        if values and values[0] in Opcode._value2member_map_:
            place += f" ({Opcode(int(values[0])).name})"
        return ProgramError(f"{place}: {reason}")

    def _walk(self) -> None:
        for at, instruction in enumerate(self.stream):
            self.at = at
            values = instruction.values
            look = INSPECTIONS.get(values[0])
            if look is None:
                self._control(values)
            else:
                self._work(look, values)
        if not self.stream or self.stream[-1].values[0] != _HALT:
            raise ProgramError("the stream does not end with HALT")
        if self.is_case:
            raise ProgramError(f"{len(self.is_case)} loops or cases are open at HALT")
        self.balance.finish()

    def _control(self, values: Values) -> None:
        opcode = values[0]
        if opcode == _WAIT:
            unit, semaphore = _UNIT_AND_SEMAPHORE(values)
            self.balance.wait(semaphore, unit)
        elif opcode == _SIGNAL:
            unit, semaphore = _UNIT_AND_SEMAPHORE(values)
            self.balance.signal(semaphore)
        elif opcode == _LOOP:
            trips, level = _LOOP_FIELDS(values)
            self._enter(level, is_case=False)
            self.scratchpad.enter(level, trips)
        elif opcode == _CASE:
            self._enter_case(values)
        elif opcode == _END:
            self._leave(int(values[_END_LEVEL]))
        elif opcode == _HALT and self.at != len(self.stream) - 1:
            raise ProgramError("HALT before the end of the stream")

    def _enter(self, level: int, is_case: bool) -> None:
        depth = len(self.is_case)
        if level != depth:
            raise ProgramError(
                f"level {level} inside of {depth} loops and cases; it must be {depth}"
            )
        if depth == MAX_LOOP_DEPTH:
            raise ProgramError(f"nested deeper than {MAX_LOOP_DEPTH} loops and cases")
        self.is_case.append(is_case)
        self.enclosing = _ENCLOSING[depth + 1]
        self.balance.enter()

    def _enter_case(self, values: Values) -> None:
        low, high, level = _CASE_FIELDS(values)
        if low > high:
            raise ProgramError(f"enters from {low} to {high}, hence never; low is at most high")
        self._enter(level, is_case=True)
        self.scratchpad.enter_case(level)
        self.transfers.enter_case()

    def _leave(self, level: int) -> None:
        innermost = len(self.is_case) - 1
        if innermost < 0:
            raise ProgramError("END without a LOOP or CASE")
        if level != innermost:
            raise ProgramError(f"level {level} closes the loop or case of level {innermost}")
        self.balance.leave()
        self.enclosing = _ENCLOSING[innermost]
        if self.is_case.pop():
            self.transfers.leave_case()
            self.scratchpad.leave_case()
        else:
            self.scratchpad.leave()

    def _work(self, look: Inspection, values: Values) -> None:
        """An instruction of a queue other than control."""
        semaphores = _SEMAPHORES_OF(values)
        idle = not any(semaphores)
        if not idle:
            for semaphore in semaphores[:3]:
                if semaphore:
                    self.balance.wait(semaphore, look.unit)
        if not self.enclosing.issuperset(look.levels(values)):
            self._refuse_level(look, values)
        if look.rule is not None:
            look.rule(values)
        if look.transfers:
            self.transfers.check(values)
        for access in look.accesses:
            self.scratchpad.access(access, values, self.at)
        if not idle:
            for semaphore in semaphores[3:]:
                if semaphore:
                    self.balance.signal(semaphore)

    def _refuse_level(self, look: Inspection, values: Values) -> None:
        fields = INSTRUCTIONS[look.opcode].all_fields
        for position in LEVEL_POSITIONS[look.opcode]:
            if values[position] not in self.enclosing:
                raise ProgramError(
                    f"{fields[position].name} {values[position]} is not a loop around it "
                    f"({len(self.is_case)} are open)"
                )
