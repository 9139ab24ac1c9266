"""Rows of the table of the emulator's counters about the program, its units and sequencers, and energy;
resource_rows.py has those of what it uses."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.isa.opcodes import Opcode, Unit
from autotune.targets.emulator.counter import Counter, Read, opcodes_of, sum_of, total_of
from autotune.targets.emulator.energy import ENERGY, PRICED, SEQUENCED, energy_fj, static_fj
from autotune.targets.emulator.reading import CAUSES, UNITS

_DMA_ONLY = ("stall_channel", "stall_turnaround", "stall_row", "stall_column")
_NEVER = {
    "load": ("stall_operand",),
    "store": ("stall_full",),
    "matrix": (*_DMA_ONLY, "stall_bank"),
    "vector": _DMA_ONLY,
}
"""Causes that cannot take cycles of a unit: a load reads no scratchpad, a store writes none."""


def causes_of(unit: str) -> tuple[str, ...]:
    """The causes that can take cycles of a unit."""
    return tuple(cause for cause in CAUSES if cause not in _NEVER[unit])


def _spent(number: int, cause: str) -> Read:
    return lambda r: r.spent(number, cause)


def _unit_rows(number: int, unit: str) -> list[Counter]:
    opcodes = opcodes_of(Unit(number))
    return [
        Counter(
            f"{unit}_instructions", "instructions", f"executed by the {unit} unit",
            lambda r: r.executed(*opcodes),
        ),
        *(
            Counter(f"{unit}_{cause}_cycles", "cycles", f"{unit} unit {CAUSES[cause]}", _spent(number, cause))
            for cause in causes_of(unit)
        ),
        Counter(
            f"{unit}_idle_cycles", "cycles", f"{unit} unit after its last instruction",
            lambda r: r.core_cycles - r.occupied(number), whole=True,
        ),
    ]  # fmt: skip


def _executed(opcode: Opcode) -> Counter:
    return Counter(
        f"executed_{opcode.name.lower()}", "instructions", f"{opcode.name} instructions",
        lambda r: r.executed(opcode),
    )  # fmt: skip


def program_rows() -> Iterator[Counter]:
    """Of the program and its units."""
    yield Counter(
        "cycles",
        "cycles",
        "from the first dispatch until every unit is done; of a mark from its first start to its last end",
        lambda r: r.cycles,
    )
    yield Counter(
        "core_cycles",
        "cycles",
        "cycles times cores of the machine; each unit's cycles add up to it",
        lambda r: r.core_cycles,
        whole=True,
    )
    for number, unit in enumerate(UNITS):
        yield from _unit_rows(number, unit)
    work = [op for unit in Unit if unit is not Unit.CONTROL for op in opcodes_of(unit)]
    yield Counter(
        "instructions",
        "instructions",
        "dispatched in all",
        lambda r: r.executed(*work, *SEQUENCED),
    )
    yield Counter(
        "control_instructions",
        "instructions",
        "waits and signals by words of their own",
        lambda r: r.executed(*SEQUENCED),
    )
    yield from map(_executed, work)
    yield sum_of("loop_trips", "trips", "of hardware loops; they take no time", "trips")
    yield sum_of(
        "cases_entered", "cases", "dispatches on a runtime parameter that ran their body", "cases"
    )
    yield total_of(
        "semaphore_waits", "waits", "semaphores taken by instructions of units", "waits", len(UNITS)
    )
    yield total_of(
        "semaphore_signals",
        "signals",
        "semaphores added to by instructions of units",
        "signals",
        len(UNITS),
    )


def sequencer_rows() -> Iterator[Counter]:
    """Of the sequencers, one a core."""
    yield Counter(
        "sequencer_busy_cycles",
        "cycles",
        "sequencers dispatching",
        lambda r: r.sequencer(0) - r.sequencer(1) - r.sequencer(2),
        whole=True,
    )
    yield Counter(
        "sequencer_full_cycles",
        "cycles",
        "sequencers held by a full queue",
        lambda r: r.sequencer(1),
        whole=True,
    )
    yield Counter(
        "sequencer_semaphore_cycles",
        "cycles",
        "sequencers waiting for a semaphore themselves",
        lambda r: r.sequencer(2),
        whole=True,
    )
    yield Counter(
        "sequencer_idle_cycles",
        "cycles",
        "sequencers after their last instruction",
        lambda r: r.core_cycles - r.sequencer(0),
        whole=True,
    )


def energy_rows() -> Iterator[Counter]:
    """Of energy, by component."""
    for row in PRICED:
        yield Counter(f"energy_{row.name}_fj", "femtojoules", row.doc, row.energy_fj)
    yield Counter("energy_static_fj", "femtojoules", ENERGY["static"], static_fj, whole=True)
    yield Counter("energy_fj", "femtojoules", "in all", energy_fj, whole=True)
