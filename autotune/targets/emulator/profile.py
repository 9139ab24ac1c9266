"""A profile: one execution by profile marks, instructions and energy postings.

The engine books every cycle on the instruction that it was spent in, or before. This module gives
the books names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autotune.isa.assembly import instruction_text
from autotune.isa.program import Instruction, Program
from autotune.kernels.emulator.outcome import By, Outcome
from autotune.targets.emulator.counters import PART_COUNTERS, Counters
from autotune.targets.emulator.energy import ledger
from autotune.targets.emulator.ledger import Ledger
from autotune.targets.emulator.reading import Reading
from autotune.targets.protocol import Execution
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class InstructionProfile:
    """All executions of the instruction at ``index`` of a core's stream; ``text`` as in assembly.

    A LOOP or CASE has the trips that it began, and takes no time.
    """

    core: int
    index: int
    text: str
    counters: Mapping[str, int]


@dataclass(frozen=True)
class Profile:
    """Cycles, traffic and energy of one execution, by place.

    ``marks`` maps each profile mark's id (None: before any mark) to its ``PART_COUNTERS``.
    ``instructions`` are the executed ones, core by core, in stream order. Every counter of all
    marks adds up to the whole's, and so does every counter of all instructions. Two are exceptions:
    parts overlap in ``cycles``, and the largest ``scratchpad_peak_bytes`` is the whole's.
    ``ledger`` charges energy to positions in ``instructions``, and leakage to None; its total is
    ``execution.energy_fj``.
    """

    execution: Execution
    marks: Mapping[int | None, Mapping[str, int]]
    instructions: tuple[InstructionProfile, ...]
    ledger: Ledger

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", MappingProxyType(dict(self.marks)))
        total, due = self.ledger.total_fj, self.execution.energy_fj
        assert total == due, f"{total} fJ in the ledger, {due} fJ executed"


def profile_of(
    program: Program,
    marks: tuple[int | None, ...],
    execution: Execution,
    outcome: Outcome,
    spec: HardwareSpec,
) -> Profile:
    """Return the profile of an execution whose ``outcome`` was summed in every way.

    ``marks`` are the ids in the engine's order.
    """
    by_mark = Reading.of_parts(outcome, By.MARK, spec)
    places = list(_placed(program, Reading.of_parts(outcome, By.INSTRUCTION, spec)))
    whole = Reading.of_program(outcome, spec)
    return Profile(
        execution,
        {mark: _part(reading) for mark, reading in zip(marks, by_mark, strict=True)},
        tuple(
            InstructionProfile(core, index, instruction_text(instruction), _part(reading))
            for core, index, instruction, reading in places
        ),
        ledger(whole, enumerate(reading for *_, reading in places), spec),
    )


def _placed(
    program: Program, readings: list[Reading]
) -> Iterator[tuple[int, int, Instruction, Reading]]:
    """Yield core, position, instruction and reading of each executed instruction."""
    rows = iter(readings)
    for core, stream in enumerate(program.streams):
        for index, instruction in enumerate(stream):
            reading = next(rows)
            if any(reading.sums):
                yield core, index, instruction, reading


def _part(reading: Reading) -> Counters:
    return Counters(reading, PART_COUNTERS)
