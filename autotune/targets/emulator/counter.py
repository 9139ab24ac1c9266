"""One of the emulator's counters, and how it is read off a run; counter_rows.py and
resource_rows.py have all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.table import INSTRUCTIONS
from autotune.targets.emulator.reading import Reading

Read = Callable[[Reading], int]


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter; those of a unit add up over cores.

    Those that are not ``whole`` count over a profile mark or an instruction as well, and over all
    of these add up to the program's (``cycles`` and ``scratchpad_peak_bytes`` but for overlap).
    """

    name: str
    unit: str
    doc: str
    read: Read
    whole: bool = False


def sum_of(name: str, unit: str, doc: str, source: str, place: int = 0) -> Counter:
    """A counter that is one number of a run's reading."""
    return Counter(name, unit, doc, lambda r: r.sum(source, place))


def total_of(name: str, unit: str, doc: str, source: str, count: int) -> Counter:
    """A counter that is the first ``count`` numbers of a run's reading, added up."""
    return Counter(name, unit, doc, lambda r: r.total(source, count))


def per_million(part: int, whole: int) -> int:
    """A share in parts per million; 0 of nothing."""
    return part * 1_000_000 // whole if whole else 0


def opcodes_of(unit: Unit) -> tuple[Opcode, ...]:
    """The opcodes of a unit."""
    return tuple(op for op, row in INSTRUCTIONS.items() if row.unit is unit)
