"""Readings: the engine's sums of one region (the program, a mark, an instruction) by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode
from autotune.kernels.emulator.outcome import SUMS, By, Outcome
from autotune.targets.spec import HardwareSpec

UNITS = ("load", "store", "matrix", "vector")
"""Units with a queue, in the order of ``isa.Unit``."""

CAUSES = {
    "busy": "at work",
    "stall_dispatch": "free, and its next instruction not dispatched yet",
    "stall_operand": "waiting for data that another unit has still to write",
    "stall_full": "waiting for a place in the scratchpad that is still in use",
    "stall_semaphore": "waiting for a semaphore that stands for neither",
    "stall_port": "waiting for a port of the scratchpad",
    "stall_channel": "holding a transfer while the DRAM channel serves another one",
    "stall_turnaround": "waiting for the channel to change between reading and writing",
    "stall_row": "waiting for DRAM rows to close and open",
    "stall_column": "waiting for the first word of an open row",
    "stall_bank": "slowed by scratchpad bank conflicts",
}
"""Uses of a unit's cycles, in the order of the engine's SPENT codes."""

_CAUSE_CODES = {cause: code for code, cause in enumerate(CAUSES)}
_OFFSETS: dict[str, int] = {}
_end = 0
for _name, _length in SUMS:
    _OFFSETS[_name] = _end
    _end += _length
_EXECUTED, _SPENT = _OFFSETS["executed"], _OFFSETS["spent"]
READ, WRITE = 0, 1
"""Directions of DRAM traffic."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Sums of a region, and the cycles from its first start to its last end.

    ``core_cycles`` is cycles times cores of the machine. ``sequencers`` holds (clock, held by a
    full queue, waiting) per core; it is empty for a part of a program.
    """

    spec: HardwareSpec
    sums: Sequence[int]
    cycles: int
    sequencers: Sequence[tuple[int, int, int]] = ()

    @classmethod
    def of_program(cls, outcome: Outcome, spec: HardwareSpec) -> Reading:
        """Return the reading of a whole run, summed by program."""
        return cls(spec, outcome.sums[By.PROGRAM][0].tolist(), outcome.cycles, outcome.sequencers)

    @classmethod
    def of_parts(cls, outcome: Outcome, by: By, spec: HardwareSpec) -> list[Reading]:
        """Return the readings of every mark or instruction, in the engine's order."""
        return [cls.of_part(row, spec) for row in outcome.sums[by].tolist()]

    @classmethod
    def of_part(cls, row: Sequence[int], spec: HardwareSpec) -> Reading:
        """Return the reading of a mark or an instruction."""
        first, last = row[_OFFSETS["first"]], row[_OFFSETS["last"]]
        return cls(spec, row, last - first)

    @property
    def core_cycles(self) -> int:
        """Cycles of all cores."""
        return self.cycles * self.spec.cores

    def sum(self, name: str, place: int = 0) -> int:
        """Return one number of the engine's sums."""
        return self.sums[_OFFSETS[name] + place]

    def total(self, name: str, count: int) -> int:
        """Add up the first ``count`` numbers of one of the engine's sums."""
        at = _OFFSETS[name]
        return sum(self.sums[at : at + count])

    def executed(self, *opcodes: Opcode) -> int:
        """Return the number of executed instructions of these opcodes."""
        return sum(self.sums[_EXECUTED + opcode] for opcode in opcodes)

    def spent(self, unit: int, cause: str) -> int:
        """Return the cycles of a unit, over all cores."""
        return self.sums[_SPENT + len(CAUSES) * unit + _CAUSE_CODES[cause]]

    def occupied(self, unit: int) -> int:
        """Return the busy and stall cycles of a unit."""
        at = _SPENT + len(CAUSES) * unit
        return sum(self.sums[at : at + len(CAUSES)])

    def sequencer(self, place: int) -> int:
        """Return clock (0), cycles held by a full queue (1) or waiting (2), over all cores."""
        return sum(core[place] for core in self.sequencers)
