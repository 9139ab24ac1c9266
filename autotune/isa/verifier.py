"""Proves that a program is safe before an engine runs it; stands between lowering and targets.

Proven, for every core and every trip of every loop:

- every field holds a value of its type that fits its bits, no scalar is NaN, codes are known;
- loops nest, are closed, bounded and at most ``MAX_LOOP_DEPTH`` deep; ``level`` fields say their
  nesting; every loop level that a field names encloses its instruction; HALT ends the stream;
- every scratchpad access lies in ``[0, program.scratchpad_elements)``, and that in what the
  target has. A rectangle's extreme addresses are exact: they are affine in the loop indices, and
  the second slot counts as reached wherever a loop turns it;
- rectangles agree with the rank of their tensor (they may lie outside of it: padding); only OUTPUT
  tensors are stored to; an OUTPUT is loaded only after a STORE to it earlier in the same stream;
- semaphores neither deadlock nor lose a signal, and one queue alone takes from each (``balance``);
  control instructions wait and signal through WAIT and SIGNAL only. Counts stay at or below 255
  along program order; a queue that runs ahead of the others may raise them further.

Checked, short of a proof: reads of scratchpad that was never written. A read is refused when, the
first time it runs, its first or last element lies in no interval written by an instruction before
it; or when, over all trips, the same holds of its lowest or highest element and intervals written
before it or in its outermost loop. An interval runs from the lowest to the highest element that an
instruction writes over all trips. So no program that writes all it reads is refused, and an
accepted one may still read a gap between the elements written. Such a read meets old numbers,
never memory outside of the scratchpad.

Not checked: races between units that no semaphore orders, and between cores in DRAM.
"""

from __future__ import annotations

from autotune.errors import ProgramError
from autotune.isa.access import BIAS_DIMENSION, Values
from autotune.isa.balance import Balance
from autotune.isa.inspection import BEYOND, INSPECTIONS, NOTHING_BEYOND, Inspection
from autotune.isa.misfits import first_misfit
from autotune.isa.notation import LEVEL_POSITIONS
from autotune.isa.program import Instruction, Program, Role, field_index
from autotune.isa.scratchpad import LateReadError, Scratchpad
from autotune.isa.table import (
    INSTRUCTIONS,
    MAX_LOOP_DEPTH,
    MAX_RANK,
    NO_LEVEL,
    Opcode,
    Unit,
    When,
)

TENSOR_LIMIT = 1 << 10
"""Tensors that the ``tensor`` field can tell apart."""


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
    for core, (stream, credits) in enumerate(zip(program.streams, program.credits, strict=True)):
        try:
            balance = Balance(credits)
        except ProgramError as error:
            raise ProgramError(f"{program.name}: core {core}: {error}") from None
        _StreamProof(program, core, stream, balance).run()


_MATMUL = field_index(Opcode.MATMUL)
_ACCUMULATE, _EPILOGUE = _MATMUL["accumulate"], _MATMUL["epilogue"]
_K_LEVEL, _BIAS_AXIS = _MATMUL["k_level"], _MATMUL["bias_axis"]
_HALT, _LOOP, _END, _WAIT, _MARK = map(
    int, (Opcode.HALT, Opcode.LOOP, Opcode.END, Opcode.WAIT, Opcode.MARK)
)
_TRIPS, _LOOP_LEVEL = (field_index(Opcode.LOOP)[name] for name in ("trips", "level"))
_END_LEVEL = field_index(Opcode.END)["level"]
_UNIT, _SEMAPHORE = (field_index(Opcode.WAIT)[name] for name in ("unit", "semaphore"))
assert field_index(Opcode.SIGNAL) == field_index(Opcode.WAIT)
_UNITS = frozenset(map(int, Unit))
_ENCLOSING = tuple(frozenset((*range(depth), NO_LEVEL)) for depth in range(MAX_LOOP_DEPTH + 1))
"""Levels that a field may name inside of so many loops."""
_MATRIX_UNIT = int(Unit.MATRIX)
_DMA_UNITS = (int(Unit.LOAD), int(Unit.STORE))
_TENSOR = field_index(Opcode.LOAD)["tensor"]
assert field_index(Opcode.STORE)["tensor"] == _TENSOR


class _StreamProof:
    """Walks one core's stream in program order; ``at`` is the instruction it looks at."""

    def __init__(
        self, program: Program, core: int, stream: tuple[Instruction, ...], balance: Balance
    ) -> None:
        self.program = program
        self.core = core
        self.stream = stream
        self.at = 0
        self.depth = 0
        self.enclosing = _ENCLOSING[0]
        self.stored: set[int] = set()
        self.balance = balance
        self.scratchpad = Scratchpad(program.scratchpad_elements)

    def run(self) -> None:
        """Raise ``ProgramError`` unless the stream is safe."""
        misfit = first_misfit(self.stream)
        if misfit is not None:
            self.at = misfit[0]
            raise self._refusal(misfit[1])
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
        final = len(self.stream) - 1
        for at, instruction in enumerate(self.stream):
            self.at = at
            values = instruction.values
            look = INSPECTIONS.get(int(values[0]))
            if look is not None:
                self._work(look, values)
            elif values[0] != _HALT:
                self._control(values)
            elif self.at != final:
                raise ProgramError("HALT before the end of the stream")
        if not self.stream or self.stream[-1].values[0] != _HALT:
            raise ProgramError("the stream does not end with HALT")
        if any(self.stream[-1].values[1:]):
            raise ProgramError("HALT waits for or signals a semaphore; use WAIT or SIGNAL")
        if self.depth:
            raise ProgramError(f"{self.depth} loops are open at HALT")
        self.balance.finish()

    def _control(self, values: Values) -> None:
        if any(values[1:7]):
            raise ProgramError("control waits for or signals a semaphore; use WAIT or SIGNAL")
        opcode = values[0]
        if opcode == _LOOP:
            self._enter(int(values[_TRIPS]), int(values[_LOOP_LEVEL]))
        elif opcode == _END:
            self._leave(int(values[_END_LEVEL]))
        elif opcode != _MARK:
            self._wait_or_signal(opcode == _WAIT, int(values[_UNIT]), int(values[_SEMAPHORE]))

    def _wait_or_signal(self, is_wait: bool, unit: int, semaphore: int) -> None:
        if unit not in _UNITS:
            raise ProgramError(f"unit {unit} is not one of the {len(_UNITS)} queues")
        if semaphore == 0:
            raise ProgramError("semaphore 0 means none")
        if is_wait:
            self.balance.wait(semaphore, unit)
        else:
            self.balance.signal(semaphore)

    def _enter(self, trips: int, level: int) -> None:
        if level != self.depth:
            raise ProgramError(
                f"level {level} inside of {self.depth} loops; it must be {self.depth}"
            )
        if self.depth == MAX_LOOP_DEPTH:
            raise ProgramError(f"nested deeper than {MAX_LOOP_DEPTH} loops")
        if trips < 1:
            raise ProgramError("0 trips; a loop runs at least once")
        self._set_depth(self.depth + 1)
        self.scratchpad.enter(level, trips)
        self.balance.enter()

    def _leave(self, level: int) -> None:
        if not self.depth:
            raise ProgramError("END without a LOOP")
        if level != self.depth - 1:
            raise ProgramError(f"level {level} closes the loop of level {self.depth - 1}")
        self.balance.leave()
        self._set_depth(self.depth - 1)
        self.scratchpad.leave(level)

    def _set_depth(self, depth: int) -> None:
        self.depth = depth
        self.enclosing = _ENCLOSING[depth]

    def _work(self, look: Inspection, values: Values) -> None:
        """An instruction of a queue other than control."""
        waits_and_signals = any(values[1:7])
        if waits_and_signals:
            for semaphore in values[1:4]:
                if semaphore:
                    self.balance.wait(int(semaphore), look.unit)
        if not self.enclosing.issuperset(look.levels(values)):
            self._refuse_level(look, values)
        if 0 in look.extents(values):
            raise ProgramError("an extent is 0; every extent is at least 1")
        for name, position, known in look.codes:
            if values[position] not in known:
                raise ProgramError(f"{name} {values[position]} is not one of {sorted(known)}")
        if look.unit in _DMA_UNITS:
            self._transfer(int(values[0]), values)
        elif look.unit == _MATRIX_UNIT:
            self._matmul(values)
        for access in look.accesses:
            self.scratchpad.access(access, values, self.at)
        if waits_and_signals:
            for semaphore in values[4:7]:
                if semaphore:
                    self.balance.signal(int(semaphore))

    def _refuse_level(self, look: Inspection, values: Values) -> None:
        fields = INSTRUCTIONS[look.opcode].all_fields
        for position in LEVEL_POSITIONS[look.opcode]:
            if values[position] not in self.enclosing:
                raise ProgramError(
                    f"{fields[position].name} {values[position]} is not a loop around it "
                    f"({self.depth} are open)"
                )

    def _matmul(self, values: Values) -> None:
        if (
            When.BY_LEVEL in (values[_ACCUMULATE], values[_EPILOGUE])
            and values[_K_LEVEL] == NO_LEVEL
        ):
            raise ProgramError("accumulate or epilogue goes by k_level, which names no loop")
        axis = int(values[_BIAS_AXIS])
        if axis and axis not in BIAS_DIMENSION:
            raise ProgramError(f"bias_axis {axis} is not one of 0, {list(BIAS_DIMENSION)}")

    def _transfer(self, opcode: int, values: Values) -> None:
        """Tensor, role and rank of a LOAD or STORE."""
        number = int(values[_TENSOR])
        if number >= len(self.program.tensors):
            raise ProgramError(f"tensor {number} of {len(self.program.tensors)}")
        tensor = self.program.tensors[number]
        rank = len(tensor.shape)
        if rank < MAX_RANK and BEYOND[opcode, rank](values) != NOTHING_BEYOND[opcode, rank]:
            raise ProgramError(
                f"tensor {tensor.name!r} has rank {rank}; dimensions from {rank} on must have "
                "size 1, coordinate 0 and step 0"
            )
        if opcode == Opcode.STORE:
            if tensor.role is not Role.OUTPUT:
                raise ProgramError(f"stores to {tensor.name!r}, which is {tensor.role}, not output")
            self.stored.add(number)
        elif tensor.role is Role.OUTPUT and number not in self.stored:
            raise ProgramError(f"loads output {tensor.name!r} before anything is stored to it")
