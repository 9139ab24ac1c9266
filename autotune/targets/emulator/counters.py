"""The emulator's counters: one table of rows, and the values of one run.

``counters_manual`` prints docs/counters.md from this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.table import INSTRUCTIONS
from autotune.kernels.emulator.outcome import MAC_FORMATS
from autotune.targets.emulator.energy import ENERGY, PRICED, SEQUENCED, energy_fj, static_fj
from autotune.targets.emulator.reading import CAUSES, READ, UNITS, WRITE, Reading

Read = Callable[[Reading], int]


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter: name, unit of measure, meaning, and how a reading gives its value.

    The counters of a hardware unit add up over cores. A ``whole`` counter exists for a program
    alone. Every other one also exists for a profile mark and for an instruction, and its values add
    up to the program's; ``cycles`` of parts overlap, of ``scratchpad_peak_bytes`` the largest counts.
    """

    name: str
    unit: str
    doc: str
    read: Read
    whole: bool = False


def _one(name: str, unit: str, doc: str, source: str, place: int = 0) -> Counter:
    """Make a counter of one number of a reading."""
    return Counter(name, unit, doc, lambda r: r.sum(source, place))


def _total(name: str, unit: str, doc: str, source: str, count: int) -> Counter:
    """Make a counter that adds up the first ``count`` numbers of one sum of a reading."""
    return Counter(name, unit, doc, lambda r: r.total(source, count))


def _per_million(part: int, whole: int) -> int:
    return part * 1_000_000 // whole if whole else 0


def _opcodes(unit: Unit) -> tuple[Opcode, ...]:
    return tuple(op for op, row in INSTRUCTIONS.items() if row.unit is unit)


_DMA_ONLY = ("stall_channel", "stall_turnaround", "stall_row", "stall_column")
_NEVER = {
    "load": ("stall_operand",),
    "store": ("stall_full",),
    "matrix": (*_DMA_ONLY, "stall_bank"),
    "vector": _DMA_ONLY,
}
"""Causes that cannot take cycles of a unit: a load reads no scratchpad, a store writes none."""
_WORK = tuple(op for unit in Unit if unit is not Unit.CONTROL for op in _opcodes(unit))


def causes_of(unit: str) -> tuple[str, ...]:
    """Return the causes that can take cycles of a unit."""
    return tuple(cause for cause in CAUSES if cause not in _NEVER[unit])


def _spent(number: int, cause: str) -> Read:
    return lambda r: r.spent(number, cause)


def _unit(number: int, unit: str) -> tuple[Counter, ...]:
    opcodes = _opcodes(Unit(number))
    return (
        Counter(f"{unit}_instructions", "instructions", f"executed by the {unit} unit", lambda r: r.executed(*opcodes)),
        *(
            Counter(f"{unit}_{cause}_cycles", "cycles", f"{unit} unit {CAUSES[cause]}", _spent(number, cause))
            for cause in causes_of(unit)
        ),
        Counter(f"{unit}_idle_cycles", "cycles", f"{unit} unit after its last instruction", lambda r: r.core_cycles - r.occupied(number), whole=True),
    )  # fmt: skip


def _executed(opcode: Opcode) -> Counter:
    name = opcode.name
    return Counter(
        f"executed_{name.lower()}",
        "instructions",
        f"{name} instructions",
        lambda r: r.executed(opcode),
    )


_PROGRAM = (
    Counter("cycles", "cycles", "from the first dispatch until every unit is done; of a mark from its first start to its last end", lambda r: r.cycles),
    Counter("core_cycles", "cycles", "cycles times cores of the machine; each unit's cycles add up to it", lambda r: r.core_cycles, whole=True),
    *(row for number, unit in enumerate(UNITS) for row in _unit(number, unit)),
    Counter("instructions", "instructions", "dispatched in all", lambda r: r.executed(*_WORK, *SEQUENCED)),
    Counter("control_instructions", "instructions", "waits and signals by words of their own", lambda r: r.executed(*SEQUENCED)),
    *map(_executed, _WORK),
    _one("loop_trips", "trips", "of hardware loops; they take no time", "trips"),
    _one("cases_entered", "cases", "dispatches on a runtime parameter that ran their body", "cases"),
    _total("semaphore_waits", "waits", "semaphores taken by instructions of units", "waits", len(UNITS)),
    _total("semaphore_signals", "signals", "semaphores added to by instructions of units", "signals", len(UNITS)),
)  # fmt: skip

_SEQUENCERS = (
    Counter("sequencer_busy_cycles", "cycles", "sequencers dispatching", lambda r: r.sequencer(0) - r.sequencer(1) - r.sequencer(2), whole=True),
    Counter("sequencer_full_cycles", "cycles", "sequencers held by a full queue", lambda r: r.sequencer(1), whole=True),
    Counter("sequencer_semaphore_cycles", "cycles", "sequencers waiting for a semaphore themselves", lambda r: r.sequencer(2), whole=True),
    Counter("sequencer_idle_cycles", "cycles", "sequencers after their last instruction", lambda r: r.core_cycles - r.sequencer(0), whole=True),
)  # fmt: skip


def _direction(way: int, name: str, done: str, by: str) -> tuple[Counter, ...]:
    again = "; a gather may want one more than once" if way == READ else ""
    return (
        _one(f"dram_{name}s", "transfers", f"{by} that reached DRAM", "transfers", way),
        _one(f"dram_{name}_bursts", "bursts", done, "bursts", way),
        Counter(f"dram_{name}_bytes", "bytes", f"of whole bursts {done}", lambda r: r.sum("bursts", way) * r.spec.dram.burst_bytes),
        _one(f"dram_{name}_useful_bytes", "bytes", f"{done} that {by} wanted{again}", "wanted_bytes", way),
        Counter(f"dram_{name}_row_hits", "bursts", f"{done} from an open row", lambda r: r.sum("bursts", way) - r.sum("closed", way) - r.sum("conflicts", way)),
        _one(f"dram_{name}_row_closed", "rows", f"{done} that opened in a closed bank", "closed", way),
        _one(f"dram_{name}_row_conflicts", "rows", f"{done} that had to close another one first", "conflicts", way),
        _one(f"dram_{name}_data_cycles", "cycles", f"channel moving bursts that are {done}", "data_cycles", way),
    )  # fmt: skip


def _dram_idle(r: Reading) -> int:
    busy = r.total("data_cycles", 2) + r.total("row_cycles", 2) + r.total("turn_cycles", 2)
    return r.cycles - busy


_DRAM = (
    *_direction(READ, "read", "read", "loads"),
    *_direction(WRITE, "write", "written", "stores"),
    Counter("dram_row_hits", "bursts", "that met their row open", lambda r: r.total("bursts", 2) - r.total("closed", 2) - r.total("conflicts", 2)),
    Counter("dram_row_misses", "rows", "that had to be opened", lambda r: r.total("closed", 2) + r.total("conflicts", 2)),
    _total("dram_turnarounds", "turnarounds", "of the channel between reading and writing", "turnarounds", 2),
    _total("dram_data_cycles", "cycles", "channel moving bursts", "data_cycles", 2),
    _total("dram_row_cycles", "cycles", "channel waiting for rows to close and open", "row_cycles", 2),
    _total("dram_turnaround_cycles", "cycles", "channel turning around", "turn_cycles", 2),
    Counter("dram_idle_cycles", "cycles", "channel doing none of these", _dram_idle, whole=True),
    Counter("dram_utilisation_ppm", "parts per million", "of the program's cycles the channel moved bursts", lambda r: _per_million(r.total("data_cycles", 2), r.cycles), whole=True),
)  # fmt: skip


def _array_use(r: Reading) -> int:
    """Return the share of all cells' cycles that useful multiply-adds take, in parts per million."""
    peaks = [max(1, r.spec.matrix.macs_per_cell(format)) for format in MAC_FORMATS]
    shared = math.lcm(*peaks)
    useful = sum(r.sum("macs_useful", i) * (shared // peak) for i, peak in enumerate(peaks))
    return _per_million(useful, r.cycles * r.spec.peak_macs_per_cycle * shared)


_MATRIX = (
    _one("matrix_folds", "folds", "array-sized blocks of the held operand", "folds"),
    _one("matrix_stream_cycles", "cycles", "array taking in vectors", "stream_cycles"),
    _one("matrix_fill_cycles", "cycles", "array filling, skewing and draining", "fill_cycles"),
    Counter("matrix_setup_cycles", "cycles", "set-up of matrix instructions", lambda r: r.executed(Opcode.MATMUL) * r.spec.matrix.setup_cycles),
    _total("macs_issued", "macs", "cells of the array times vectors streamed, useful or not", "macs_issued", 3),
    _total("macs_useful", "macs", "multiply-adds that the programs asked for", "macs_useful", 3),
    *(
        _one(f"macs_{name}", "macs", f"useful ones on {name} operands", "macs_useful", place)
        for place, name in enumerate(("fp32", "bf16", "int8"))
    ),
    Counter("matrix_utilisation_ppm", "parts per million", "useful multiply-adds of what all arrays could do in all cycles, each format by its peak", _array_use, whole=True),
)  # fmt: skip

_VECTOR = (
    _one("vector_passes", "passes", "of up to a lane count of elements", "passes"),
    _one("vector_slots", "elements", "that the passes had room for", "slots"),
    _one("vector_simple_elements", "elements", "of one-cycle operations", "elements", 0),
    _one("vector_divide_elements", "elements", "of divisions and square roots", "elements", 1),
    _one("vector_transcendental_elements", "elements", "of exp, log, erf, tanh and what is made of them", "elements", 2),
    Counter("vector_setup_cycles", "cycles", "set-up of vector instructions", lambda r: r.executed(*_opcodes(Unit.VECTOR)) * r.spec.vector.setup_cycles),
)  # fmt: skip

_SCRATCHPAD = (
    _total("scratchpad_read_bytes", "bytes", "read by stores, matrix and vector unit", "read_bytes", len(UNITS)),
    _total("scratchpad_write_bytes", "bytes", "written by loads, matrix and vector unit", "written_bytes", len(UNITS)),
    *(
        _one(f"scratchpad_{UNITS[unit]}_{name}_bytes", "bytes", f"of these by the {UNITS[unit]} unit", source, unit)
        for name, source, units in (("read", "read_bytes", (1, 2, 3)), ("write", "written_bytes", (0, 2, 3)))
        for unit in units
    ),
    _one("padding_bytes", "bytes", "that loads filled in without reading DRAM", "padded_bytes"),
    _one("scratchpad_peak_bytes", "bytes", "high-water mark: highest address touched in any core, plus one", "peak_bytes"),
)  # fmt: skip

_ENERGY = (
    *(Counter(f"energy_{row.name}_fj", "femtojoules", row.doc, row.energy_fj) for row in PRICED),
    Counter("energy_static_fj", "femtojoules", ENERGY["static"], static_fj, whole=True),
    Counter("energy_fj", "femtojoules", "in all", energy_fj, whole=True),
)

FAMILIES: dict[str, tuple[Counter, ...]] = {
    "Program and units": _PROGRAM,
    "Sequencers": _SEQUENCERS,
    "DRAM": _DRAM,
    "Matrix array": _MATRIX,
    "Vector unit": _VECTOR,
    "Scratchpad": _SCRATCHPAD,
    "Energy": _ENERGY,
}
"""Counters by the hardware that they describe."""

COUNTERS: dict[str, Counter] = {row.name: row for rows in FAMILIES.values() for row in rows}
"""Every counter by name, in printing order."""

PART_COUNTERS = tuple(name for name, row in COUNTERS.items() if not row.whole)
"""Names of the counters that a profile mark has too."""


class Counters(Mapping[str, int]):
    """Counters of one reading by name; each is computed on demand."""

    __slots__ = ("_reading", "_rows")

    def __init__(self, reading: Reading, names: tuple[str, ...] | None = None) -> None:
        self._reading = reading
        self._rows = COUNTERS if names is None else {name: COUNTERS[name] for name in names}

    def __getitem__(self, name: str) -> int:
        return self._rows[name].read(self._reading)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Callable[..., dict[str, int]], tuple[object, ...]]:
        values = {name: row.read(self._reading) for name, row in self._rows.items()}
        if self._rows is COUNTERS:  # workers send thousands: names would cost more than values
            return _unpickle, (tuple(values.values()),)
        return dict, (values,)


def _unpickle(values: tuple[int, ...]) -> dict[str, int]:
    """Return all counters of a pickled run by name."""
    return dict(zip(COUNTERS, values, strict=True))
