"""Rows of the table of the emulator's counters: name, unit, meaning, and how each is read off a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autotune.isa.table import INSTRUCTIONS, Opcode, Unit
from autotune.targets.energy import ENERGY, PRICED, SEQUENCED, energy_fj, static_fj
from autotune.targets.reading import CAUSES, READ, UNITS, WRITE, Reading

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


def _opcodes(unit: Unit) -> tuple[Opcode, ...]:
    return tuple(op for op, row in INSTRUCTIONS.items() if row.unit is unit)


def _spent(number: int, cause: str) -> Read:
    return lambda r: r.spent(number, cause)


def _unit_rows(number: int, unit: str) -> list[Counter]:
    opcodes = _opcodes(Unit(number))
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


def _sum(name: str, unit: str, doc: str, source: str, place: int = 0) -> Counter:
    return Counter(name, unit, doc, lambda r: r.sum(source, place))


def _total(name: str, unit: str, doc: str, source: str, count: int) -> Counter:
    return Counter(name, unit, doc, lambda r: r.total(source, count))


def _per_million(part: int, whole: int) -> int:
    return part * 1_000_000 // whole if whole else 0


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
    work = [op for unit in Unit if unit is not Unit.CONTROL for op in _opcodes(unit)]
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
    yield _sum("loop_trips", "trips", "of hardware loops; they take no time", "trips")
    yield _sum(
        "cases_entered", "cases", "dispatches on a runtime parameter that ran their body", "cases"
    )
    yield _total(
        "semaphore_waits", "waits", "semaphores taken by instructions of units", "waits", len(UNITS)
    )
    yield _total(
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


def _direction_rows(way: int, name: str, done: str, by: str) -> Iterator[Counter]:
    yield _sum(f"dram_{name}s", "transfers", f"{by} that reached DRAM", "transfers", way)
    yield _sum(f"dram_{name}_bursts", "bursts", done, "bursts", way)
    yield Counter(
        f"dram_{name}_bytes",
        "bytes",
        f"of whole bursts {done}",
        lambda r: r.sum("bursts", way) * r.spec.dram.burst_bytes,
    )
    again = "; a gather may want one more than once" if way == READ else ""
    yield _sum(
        f"dram_{name}_useful_bytes", "bytes", f"{done} that {by} wanted{again}", "wanted_bytes", way
    )
    yield Counter(
        f"dram_{name}_row_hits",
        "bursts",
        f"{done} from an open row",
        lambda r: r.sum("bursts", way) - r.sum("closed", way) - r.sum("conflicts", way),
    )
    yield _sum(
        f"dram_{name}_row_closed", "rows", f"{done} that opened in a closed bank", "closed", way
    )
    yield _sum(
        f"dram_{name}_row_conflicts",
        "rows",
        f"{done} that had to close another one first",
        "conflicts",
        way,
    )
    yield _sum(
        f"dram_{name}_data_cycles",
        "cycles",
        f"channel moving bursts that are {done}",
        "data_cycles",
        way,
    )


def dram_rows() -> Iterator[Counter]:
    """Of the channel to DRAM, read and written."""
    yield from _direction_rows(READ, "read", "read", "loads")
    yield from _direction_rows(WRITE, "write", "written", "stores")
    yield Counter(
        "dram_row_hits",
        "bursts",
        "that met their row open",
        lambda r: r.total("bursts", 2) - r.total("closed", 2) - r.total("conflicts", 2),
    )
    yield Counter(
        "dram_row_misses",
        "rows",
        "that had to be opened",
        lambda r: r.total("closed", 2) + r.total("conflicts", 2),
    )
    yield _total(
        "dram_turnarounds",
        "turnarounds",
        "of the channel between reading and writing",
        "turnarounds",
        2,
    )
    yield _total("dram_data_cycles", "cycles", "channel moving bursts", "data_cycles", 2)
    yield _total(
        "dram_row_cycles", "cycles", "channel waiting for rows to close and open", "row_cycles", 2
    )
    yield _total("dram_turnaround_cycles", "cycles", "channel turning around", "turn_cycles", 2)
    yield Counter(
        "dram_idle_cycles",
        "cycles",
        "channel doing none of these",
        lambda r: (
            r.cycles
            - r.total("data_cycles", 2)
            - r.total("row_cycles", 2)
            - r.total("turn_cycles", 2)
        ),
        whole=True,
    )
    yield Counter(
        "dram_utilisation_ppm",
        "parts per million",
        "of the program's cycles the channel moved bursts",
        lambda r: _per_million(r.total("data_cycles", 2), r.cycles),
        whole=True,
    )


def matrix_rows() -> Iterator[Counter]:
    """Of the matrix array."""
    yield _sum("matrix_folds", "folds", "array-sized blocks of the held operand", "folds")
    yield _sum("matrix_stream_cycles", "cycles", "array taking in vectors", "stream_cycles")
    yield _sum("matrix_fill_cycles", "cycles", "array filling, skewing and draining", "fill_cycles")
    yield Counter(
        "matrix_setup_cycles",
        "cycles",
        "set-up of matrix instructions",
        lambda r: r.executed(Opcode.MATMUL) * r.spec.matrix.setup_cycles,
    )
    yield _total(
        "macs_issued",
        "macs",
        "cells of the array times vectors streamed, useful or not",
        "macs_issued",
        3,
    )
    yield _total(
        "macs_useful", "macs", "multiply-adds that the programs asked for", "macs_useful", 3
    )
    for place, name in enumerate(("fp32", "bf16", "int8")):
        yield _sum(f"macs_{name}", "macs", f"useful ones on {name} operands", "macs_useful", place)
    yield Counter(
        "matrix_utilisation_ppm",
        "parts per million",
        "useful multiply-adds of what all arrays could do in all cycles",
        lambda r: _per_million(r.total("macs_useful", 3), r.cycles * r.spec.peak_macs_per_cycle),
        whole=True,
    )


def vector_rows() -> Iterator[Counter]:
    """Of the vector unit."""
    yield _sum("vector_passes", "passes", "of up to a lane count of elements", "passes")
    yield _sum("vector_slots", "elements", "that the passes had room for", "slots")
    yield _sum("vector_simple_elements", "elements", "of one-cycle operations", "elements", 0)
    yield _sum("vector_divide_elements", "elements", "of divisions and square roots", "elements", 1)
    yield _sum(
        "vector_transcendental_elements",
        "elements",
        "of exp, log, erf, tanh and what is made of them",
        "elements",
        2,
    )
    yield Counter(
        "vector_setup_cycles",
        "cycles",
        "set-up of vector instructions",
        lambda r: r.executed(*_opcodes(Unit.VECTOR)) * r.spec.vector.setup_cycles,
    )


def scratchpad_rows() -> Iterator[Counter]:
    """Of the scratchpad, by unit."""
    yield _total(
        "scratchpad_read_bytes",
        "bytes",
        "read by stores, matrix and vector unit",
        "read_bytes",
        len(UNITS),
    )
    yield _total(
        "scratchpad_write_bytes",
        "bytes",
        "written by loads, matrix and vector unit",
        "written_bytes",
        len(UNITS),
    )
    for name, parts, units in (
        ("read", "read_bytes", (1, 2, 3)),
        ("write", "written_bytes", (0, 2, 3)),
    ):
        for unit in units:
            yield _sum(
                f"scratchpad_{UNITS[unit]}_{name}_bytes",
                "bytes",
                f"of these by the {UNITS[unit]} unit",
                parts,
                unit,
            )
    yield _sum(
        "padding_bytes", "bytes", "that loads filled in without reading DRAM", "padded_bytes"
    )
    yield _sum(
        "scratchpad_peak_bytes",
        "bytes",
        "high-water mark: highest address touched in any core, plus one",
        "peak_bytes",
    )


def energy_rows() -> Iterator[Counter]:
    """Of energy, by component."""
    for row in PRICED:
        yield Counter(f"energy_{row.name}_fj", "femtojoules", row.doc, row.energy_fj)
    yield Counter("energy_static_fj", "femtojoules", ENERGY["static"], static_fj, whole=True)
    yield Counter("energy_fj", "femtojoules", "in all", energy_fj, whole=True)
