"""Rows of the table of the emulator's counters about what programs use: the channel to DRAM, the matrix array, the
vector unit and the scratchpad; counter_rows.py has those of the program itself."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.isa.opcodes import Opcode, Unit
from autotune.targets.emulator.counter import Counter, opcodes_of, per_million, sum_of, total_of
from autotune.targets.emulator.reading import READ, UNITS, WRITE


def _direction_rows(way: int, name: str, done: str, by: str) -> Iterator[Counter]:
    yield sum_of(f"dram_{name}s", "transfers", f"{by} that reached DRAM", "transfers", way)
    yield sum_of(f"dram_{name}_bursts", "bursts", done, "bursts", way)
    yield Counter(
        f"dram_{name}_bytes",
        "bytes",
        f"of whole bursts {done}",
        lambda r: r.sum("bursts", way) * r.spec.dram.burst_bytes,
    )
    again = "; a gather may want one more than once" if way == READ else ""
    yield sum_of(
        f"dram_{name}_useful_bytes", "bytes", f"{done} that {by} wanted{again}", "wanted_bytes", way
    )
    yield Counter(
        f"dram_{name}_row_hits",
        "bursts",
        f"{done} from an open row",
        lambda r: r.sum("bursts", way) - r.sum("closed", way) - r.sum("conflicts", way),
    )
    yield sum_of(
        f"dram_{name}_row_closed", "rows", f"{done} that opened in a closed bank", "closed", way
    )
    yield sum_of(
        f"dram_{name}_row_conflicts",
        "rows",
        f"{done} that had to close another one first",
        "conflicts",
        way,
    )
    yield sum_of(
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
    yield total_of(
        "dram_turnarounds",
        "turnarounds",
        "of the channel between reading and writing",
        "turnarounds",
        2,
    )
    yield total_of("dram_data_cycles", "cycles", "channel moving bursts", "data_cycles", 2)
    yield total_of(
        "dram_row_cycles", "cycles", "channel waiting for rows to close and open", "row_cycles", 2
    )
    yield total_of("dram_turnaround_cycles", "cycles", "channel turning around", "turn_cycles", 2)
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
        lambda r: per_million(r.total("data_cycles", 2), r.cycles),
        whole=True,
    )


def matrix_rows() -> Iterator[Counter]:
    """Of the matrix array."""
    yield sum_of("matrix_folds", "folds", "array-sized blocks of the held operand", "folds")
    yield sum_of("matrix_stream_cycles", "cycles", "array taking in vectors", "stream_cycles")
    yield sum_of(
        "matrix_fill_cycles", "cycles", "array filling, skewing and draining", "fill_cycles"
    )
    yield Counter(
        "matrix_setup_cycles",
        "cycles",
        "set-up of matrix instructions",
        lambda r: r.executed(Opcode.MATMUL) * r.spec.matrix.setup_cycles,
    )
    yield total_of(
        "macs_issued",
        "macs",
        "cells of the array times vectors streamed, useful or not",
        "macs_issued",
        3,
    )
    yield total_of(
        "macs_useful", "macs", "multiply-adds that the programs asked for", "macs_useful", 3
    )
    for place, name in enumerate(("fp32", "bf16", "int8")):
        yield sum_of(
            f"macs_{name}", "macs", f"useful ones on {name} operands", "macs_useful", place
        )
    yield Counter(
        "matrix_utilisation_ppm",
        "parts per million",
        "useful multiply-adds of what all arrays could do in all cycles",
        lambda r: per_million(r.total("macs_useful", 3), r.cycles * r.spec.peak_macs_per_cycle),
        whole=True,
    )


def vector_rows() -> Iterator[Counter]:
    """Of the vector unit."""
    yield sum_of("vector_passes", "passes", "of up to a lane count of elements", "passes")
    yield sum_of("vector_slots", "elements", "that the passes had room for", "slots")
    yield sum_of("vector_simple_elements", "elements", "of one-cycle operations", "elements", 0)
    yield sum_of(
        "vector_divide_elements", "elements", "of divisions and square roots", "elements", 1
    )
    yield sum_of(
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
        lambda r: r.executed(*opcodes_of(Unit.VECTOR)) * r.spec.vector.setup_cycles,
    )


def scratchpad_rows() -> Iterator[Counter]:
    """Of the scratchpad, by unit."""
    yield total_of(
        "scratchpad_read_bytes",
        "bytes",
        "read by stores, matrix and vector unit",
        "read_bytes",
        len(UNITS),
    )
    yield total_of(
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
            yield sum_of(
                f"scratchpad_{UNITS[unit]}_{name}_bytes",
                "bytes",
                f"of these by the {UNITS[unit]} unit",
                parts,
                unit,
            )
    yield sum_of(
        "padding_bytes", "bytes", "that loads filled in without reading DRAM", "padded_bytes"
    )
    yield sum_of(
        "scratchpad_peak_bytes",
        "bytes",
        "high-water mark: highest address touched in any core, plus one",
        "peak_bytes",
    )
