"""Proof that a program is safe; an unverified program never runs.

Proven, for every core and every trip of every loop:

- Every field holds a value of its type and fits its bits. No scalar is NaN. Codes are known, also
  those of a CHAIN's stages. Formats, zero points and epilogue of a MATMUL or CONVERT go together. A
  MATMUL that forwards signals a semaphore.
- Loops and cases nest, are closed and bounded, and are at most ``MAX_LOOP_DEPTH`` deep. ``level``
  fields state their nesting. Every level in a field encloses its instruction. HALT ends the stream.
- Every scratchpad access lies in ``[0, program.scratchpad_elements)``, and this in the target's
  scratchpad. A rectangle's extreme addresses are exact, as they are affine in the loop indices. The
  second slot counts as reached wherever a loop turns it.
- All tensors together fit DRAM's address space.
- Rectangles agree with the rank of their tensor; they may lie outside of it, as padding. Stores go
  to OUTPUT tensors alone. An OUTPUT is loaded only after a STORE to it in the same stream, outside
  of any CASE that has ended.
- Semaphores neither deadlock nor lose a signal, and one queue alone takes from each (``balance``).
  Control instructions wait and signal through WAIT and SIGNAL only. Counts stay at or below 255
  along program order; a queue that runs ahead may raise them further. The body of a CASE changes no
  count, so it may be left out.

Checked, but not proven: reads of scratchpad that nothing wrote. A read is refused in two cases. In
its first run, its first or last element lies in no interval written before it. Or over all trips,
its lowest or highest element lies in no interval written before it or in its outermost loop. An
interval runs from the lowest to the highest word that an instruction writes over all trips. Writes
inside a CASE count inside of it alone. So a program is accepted if it writes all that it reads,
whatever its cases do. An accepted program may still read a gap between written words: old numbers,
never memory outside of the scratchpad.

Not checked: races between units that no semaphore orders, and between cores in DRAM. See
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
"""Bytes of all tensors together: every address and hop then fits an engine's 64 bits."""


def verify(program: Program, scratchpad_elements: int | None = None) -> None:
    """Return if the program is proven safe.

    Raises ``ProgramError`` with core, instruction and reason otherwise. ``scratchpad_elements`` is
    the scratchpad of one core of the target; None checks the program's own declaration only.
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
    """Checks of one opcode: its queue, loop levels, scratchpad accesses, and the rule between its
    fields."""

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
"""Three to wait for and three to signal, of any opcode."""
_ENCLOSING = tuple(frozenset((*range(depth), NO_LEVEL)) for depth in range(MAX_LOOP_DEPTH + 1))
"""Levels that a field may name, by the number of open loops and cases."""


class _StreamProof:
    """Walks one core's stream in program order; ``at`` is the current instruction."""

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
        """Check an instruction of a queue other than control."""
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
