"""The emulator's counters: name, unit, meaning; one row each, in the order in which they print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter. All count over a whole execution; those of a unit add up over cores."""

    name: str
    unit: str
    doc: str


UNITS = ("load", "store", "matrix", "vector")
"""Units with a queue, in the order of ``isa.Unit``."""

CAUSES = {
    "busy": "at work",
    "stall_dispatch": "free, and its next instruction not dispatched yet",
    "stall_semaphore": "free, and its next instruction waiting for a semaphore",
    "stall_channel": "holding a transfer while the DRAM channel serves another one",
    "stall_row": "waiting for DRAM rows to open",
    "stall_bank": "slowed by scratchpad bank conflicts",
}
"""What the cycles of a unit are spent on, in the order of the engine's SPENT codes."""

_DMA_ONLY = ("stall_channel", "stall_row")
ENERGY = {
    "mac": "useful multiply-adds",
    "vector": "elements of vector operations, times their cost class",
    "scratchpad": "bytes read and written there",
    "dram": "bytes of whole bursts",
    "static": "leakage and clock of every core in every cycle",
}
"""Components of the energy ledger; ``energy_fj`` is their sum."""


def causes_of(unit: str) -> tuple[str, ...]:
    """The causes that can take cycles of a unit."""
    if unit == "matrix":
        return tuple(c for c in CAUSES if c not in (*_DMA_ONLY, "stall_bank"))
    if unit == "vector":
        return tuple(c for c in CAUSES if c not in _DMA_ONLY)
    return tuple(CAUSES)


def _unit_rows(unit: str) -> list[Counter]:
    rows = [
        Counter(
            f"{unit}_instructions",
            "instructions",
            f"executed by the {unit} unit, with its waits and signals",
        )
    ]
    rows += [
        Counter(f"{unit}_{cause}_cycles", "cycles", f"{unit} unit {CAUSES[cause]}")
        for cause in causes_of(unit)
    ]
    rows.append(Counter(f"{unit}_idle_cycles", "cycles", f"{unit} unit after its last instruction"))
    return rows


_ROWS = [
    Counter("cycles", "cycles", "from the first dispatch until every unit is done"),
    Counter(
        "core_cycles",
        "cycles",
        "cycles times cores of the machine; each unit's cycles add up to it",
    ),
    *(row for unit in UNITS for row in _unit_rows(unit)),
    Counter("control_instructions", "instructions", "waits and signals of the sequencer itself"),
    Counter("instructions", "instructions", "dispatched in all"),
    Counter("loop_trips", "trips", "of hardware loops; they take no time"),
    Counter("semaphore_waits", "waits", "semaphores taken"),
    Counter("semaphore_signals", "signals", "semaphores added to"),
    Counter("sequencer_busy_cycles", "cycles", "sequencers dispatching"),
    Counter("sequencer_full_cycles", "cycles", "sequencers held by a full queue"),
    Counter(
        "sequencer_semaphore_cycles", "cycles", "sequencers waiting for a semaphore themselves"
    ),
    Counter("sequencer_idle_cycles", "cycles", "sequencers after their last instruction"),
    Counter("dram_reads", "transfers", "loads that reached DRAM"),
    Counter("dram_writes", "transfers", "stores that reached DRAM"),
    Counter("dram_read_bursts", "bursts", "read"),
    Counter("dram_write_bursts", "bursts", "written"),
    Counter("dram_read_bytes", "bytes", "of whole bursts read"),
    Counter("dram_write_bytes", "bytes", "of whole bursts written"),
    Counter("dram_read_useful_bytes", "bytes", "read that a load wanted"),
    Counter("dram_write_useful_bytes", "bytes", "written that a store wanted"),
    Counter("padding_bytes", "bytes", "that loads filled in without reading DRAM"),
    Counter("dram_row_hits", "bursts", "that met their row open"),
    Counter("dram_row_misses", "bursts", "that had to open their row"),
    Counter("dram_data_cycles", "cycles", "channel moving bursts"),
    Counter("dram_row_cycles", "cycles", "channel waiting for rows to open"),
    Counter("dram_idle_cycles", "cycles", "channel neither moving nor opening"),
    Counter("matrix_folds", "folds", "array-sized blocks of outputs computed"),
    Counter("macs_issued", "macs", "cells of the array times products streamed, useful or not"),
    Counter("macs_useful", "macs", "multiply-adds that the programs asked for"),
    Counter("vector_passes", "passes", "of up to a lane count of elements"),
    Counter("vector_simple_elements", "elements", "of one-cycle operations"),
    Counter("vector_divide_elements", "elements", "of divisions and square roots"),
    Counter(
        "vector_transcendental_elements",
        "elements",
        "of exp, log, erf, tanh and what is made of them",
    ),
    Counter("scratchpad_read_bytes", "bytes", "read by stores, matrix and vector unit"),
    Counter("scratchpad_write_bytes", "bytes", "written by loads, matrix and vector unit"),
    Counter("scratchpad_peak_bytes", "bytes", "highest address touched in any core, plus one"),
    *(Counter(f"energy_{name}_fj", "femtojoules", doc) for name, doc in ENERGY.items()),
    Counter("energy_fj", "femtojoules", "in all"),
]

COUNTERS: dict[str, Counter] = {row.name: row for row in _ROWS}
