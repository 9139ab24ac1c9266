"""Figures that follow from a spec's numbers: a row each with name, unit, meaning and formula.

The command line, its JSON and the page in docs come from ``FIGURES``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.targets.spec import HardwareSpec

NARROW = {"bf16": Format.BF16, "int8": Format.INT8}
"""Narrow formats that arrays may multiply, by the name in figures, counters and keys of specs."""
ACCUMULATOR_BYTES = 4
"""Bytes of a sum: fp32 of fp32 and bf16, int32 of int8."""
BUFFERED_TILES = 6
"""Tiles of a matrix product that overlaps its transfers: two buffers of both operands and result."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One derived figure; its name ends in its unit, as names of numbers do."""

    name: str
    unit: str
    doc: str
    of: Callable[[HardwareSpec], float]


def gigamacs(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return 10⁹ multiply-adds per second with every cell of every array busy; 0 where the arrays do
    not multiply the format."""
    return spec.peak_macs(format) * spec.clock_hz / 1e9


def dram_gigabytes(spec: HardwareSpec) -> float:
    """Return 10⁹ bytes per second of the channel."""
    return spec.dram.bytes_per_cycle * spec.clock_hz / 1e9


def ridge(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return the ridge point of the roofline (Williams et al., CACM 52(4), 2009): multiply-adds per
    byte."""
    return spec.peak_macs(format) / spec.dram.bytes_per_cycle


def reuse_limit(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return the multiply-adds per byte that no schedule of a large matrix product exceeds.

    With S elements on chip, M·N·K multiply-adds move at least 2·M·N·K / √S elements (Smith et al.,
    arXiv:1702.02017).
    """
    return math.sqrt(spec.scratchpad.size_bytes // format.bytes) / 2 / format.bytes


def square_tile(spec: HardwareSpec) -> int:
    """Return the side of the largest square fp32 tiles of a product that fit with double
    buffers."""
    return math.isqrt(spec.scratchpad.size_bytes // (BUFFERED_TILES * ELEMENT_BYTES))


def hit_cycles(spec: HardwareSpec) -> int:
    """Return the cycles of a one-burst load from an open row, as the emulator counts, without
    dispatch."""
    return spec.dram.latency_cycles + math.ceil(spec.dram.burst_bytes / spec.dram.bytes_per_cycle)


def closed_cycles(spec: HardwareSpec) -> int:
    """Return the cycles of a one-burst load from a bank without an open row."""
    return hit_cycles(spec) + spec.dram.activate_cycles


def conflict_cycles(spec: HardwareSpec) -> int:
    """Return the cycles of a one-burst load from a bank with another row open."""
    return hit_cycles(spec) + spec.dram.row_miss_cycles


def half_bandwidth_bytes(spec: HardwareSpec) -> float:
    """Return the bytes whose transfer takes as long as its latency on a row conflict.

    Such a transfer reaches half of the bandwidth (Hockney's n½). Exact while it opens no bank
    twice.
    """
    return (spec.dram.latency_cycles + spec.dram.row_miss_cycles) * spec.dram.bytes_per_cycle


def fill_drain_cycles(spec: HardwareSpec) -> int:
    """Return the cycles of a fold beyond one per streamed vector.

    They are the skew over rows and columns, and another pass over rows where the held operand has
    to be shifted in (Samajdar et al., arXiv:1811.02883).
    """
    held = spec.matrix.rows if spec.matrix.dataflow != "os" else 0
    return held + spec.matrix.rows + spec.matrix.cols - 2


def half_peak_length(spec: HardwareSpec) -> int:
    """Return the streamed vectors at which a fold's instruction reaches half of the peak.

    They are K for ``os``, M for ``ws`` and N for ``is``.
    """
    return spec.matrix.setup_cycles + fill_drain_cycles(spec)


def array_words(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return the words that one core's array reads per streamed vector of a format it multiplies.

    It reads one edge of operands, and another of operands (``os``) or of sums to add to (``ws``,
    ``is``). Each cell of an edge of operands takes as many of them as it multiplies in a cycle.
    """
    matrix = spec.matrix
    operand = matrix.macs_per_cell(format) * format.bytes / ELEMENT_BYTES
    other = operand if matrix.dataflow == "os" else 1
    return matrix.rows * operand + matrix.cols * other


def most_array_words(spec: HardwareSpec) -> int:
    """Return the words of the format that the array reads most of, rounded up."""
    formats = (format for format in Format if spec.multiplies(format))
    return math.ceil(max(array_words(spec, format) for format in formats))


def scratchpad_words(spec: HardwareSpec) -> int:
    """Return the words that a port gives per cycle: a bank serves unit stride on all lanes."""
    return spec.scratchpad.banks * -(-spec.vector.lanes // spec.scratchpad.banks)


def accumulator_rows(spec: HardwareSpec) -> int:
    """Return the rows of sums, one for each column of the array, that the memory for sums holds; 0 without one."""
    return spec.scratchpad.accumulator_bytes // (ACCUMULATOR_BYTES * spec.matrix.cols)


def mac_watts(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return the watts of every cell multiplying and adding."""
    return _watts(spec, spec.peak_macs(format) * spec.energy.mac_of(format))


def scratchpad_watts(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return the watts of the scratchpad at full speed.

    The array reads its operands, and for ``ws`` and ``is`` writes sums every cycle. The channel's
    bytes come in.
    """
    sums = spec.matrix.cols if spec.matrix.dataflow != "os" else 0
    read = spec.cores * array_words(spec, format) * ELEMENT_BYTES
    written = spec.cores * sums * ELEMENT_BYTES + spec.dram.bytes_per_cycle
    energy = spec.energy
    return _watts(
        spec,
        read * energy.scratchpad_read_byte_fj + written * energy.scratchpad_write_byte_fj,
    )


def dram_watts(spec: HardwareSpec) -> float:
    """Return the watts of the channel reading all the time, row after row."""
    row = spec.energy.dram_activate_fj / spec.dram.row_bytes
    return _watts(spec, spec.dram.bytes_per_cycle * (spec.energy.dram_read_byte_fj + row))


def static_watts(spec: HardwareSpec) -> float:
    """Return the watts of leakage and clock of all cores."""
    return _watts(spec, spec.cores * spec.energy.static_cycle_fj)


def peak_watts(spec: HardwareSpec, format: Format = Format.FP32) -> float:
    """Return the watts of all of it together; 0 where the arrays do not multiply the format."""
    if not spec.multiplies(format):
        return 0.0
    arrays = mac_watts(spec, format) + scratchpad_watts(spec, format)
    return arrays + dram_watts(spec) + static_watts(spec)


def most_watts(spec: HardwareSpec) -> float:
    """Return the watts of the format that takes most."""
    return max(peak_watts(spec, format) for format in Format)


def _watts(spec: HardwareSpec, cycle_fj: float) -> float:
    return cycle_fj * 1e-15 * spec.clock_hz


def _nanoseconds(cycles: Callable[[HardwareSpec], int]) -> Callable[[HardwareSpec], float]:
    return lambda spec: cycles(spec) / spec.clock_hz * 1e9


_ROWS = (
    Figure("peak_gmacs", "10⁹ multiply-adds/s", "every cell of every array busy with fp32", gigamacs),
    Figure(
        "peak_gflops", "GFLOP/s", "two per multiply-add", lambda spec: 2 * gigamacs(spec)
    ),
    Figure(
        "peak_bf16_gflops", "GFLOP/s", "the same of bf16, 0 where the arrays do not multiply it",
        lambda spec: 2 * gigamacs(spec, Format.BF16),
    ),
    Figure(
        "peak_int8_gops", "10⁹ operations/s", "the same of int8",
        lambda spec: 2 * gigamacs(spec, Format.INT8),
    ),
    Figure(
        "dram_bytes_per_cycle", "bytes/cycle", "peak of the channel that all cores share",
        lambda spec: spec.dram.bytes_per_cycle,
    ),
    Figure("dram_gb_per_second", "GB/s", "the same in time", dram_gigabytes),
    Figure(
        "ridge_macs_per_byte", "multiply-adds/byte",
        "below it DRAM is the limit, above it the arrays are, in fp32", ridge,
    ),
    Figure(
        "ridge_bf16_macs_per_byte", "multiply-adds/byte", "the same of bf16",
        lambda spec: ridge(spec, Format.BF16),
    ),
    Figure(
        "ridge_int8_macs_per_byte", "multiply-adds/byte", "the same of int8",
        lambda spec: ridge(spec, Format.INT8),
    ),
    Figure(
        "reuse_macs_per_byte", "multiply-adds/byte",
        "what the scratchpad lets a large fp32 matrix product reach at most: √elements / 8",
        reuse_limit,
    ),
    Figure(
        "reuse_int8_macs_per_byte", "multiply-adds/byte",
        "the same of int8, whether the arrays multiply it or not: √bytes / 2",
        lambda spec: reuse_limit(spec, Format.INT8),
    ),
    Figure(
        "square_tile_elements", "elements",
        "side of the largest square fp32 tiles of a product, two buffers of each of the three",
        square_tile,
    ),
    Figure(
        "dram_hit_cycles", "cycles", "load of one burst from an open row", hit_cycles
    ),
    Figure("dram_hit_ns", "ns", "the same in time", _nanoseconds(hit_cycles)),
    Figure(
        "dram_closed_cycles", "cycles", "load of one burst from a bank without an open row",
        closed_cycles,
    ),
    Figure("dram_closed_ns", "ns", "the same in time", _nanoseconds(closed_cycles)),
    Figure(
        "dram_conflict_cycles", "cycles", "load of one burst from a bank with another row open",
        conflict_cycles,
    ),
    Figure("dram_conflict_ns", "ns", "the same in time", _nanoseconds(conflict_cycles)),
    Figure(
        "half_bandwidth_bytes", "bytes",
        "transfer that takes as long as the latency of a row conflict before it",
        half_bandwidth_bytes,
    ),
    Figure(
        "fill_drain_cycles", "cycles", "of a fold beyond one per vector streamed through it",
        fill_drain_cycles,
    ),
    Figure(
        "half_peak_vectors", "vectors",
        "streamed per fold (K for os, M for ws, N for is) at which it reaches half of the peak",
        half_peak_length,
    ),
    Figure(
        "array_read_words", "words/cycle",
        "that the array of a core reads at its peak, of the format that takes most",
        most_array_words,
    ),
    Figure(
        "scratchpad_port_words", "words/cycle", "that a port of the scratchpad gives",
        scratchpad_words,
    ),
    Figure(
        "accumulator_rows", "rows",
        "of sums of 32 bits, as wide as the array, in a memory of their own; 0 without one", accumulator_rows,
    ),
    Figure("mac_watts", "W", "arrays at their peak of fp32", mac_watts),
    Figure(
        "scratchpad_watts", "W", "what the arrays then read and write, and the channel's bytes",
        scratchpad_watts,
    ),
    Figure("dram_watts", "W", "channel at its peak", dram_watts),
    Figure("static_watts", "W", "leakage and clock", static_watts),
    Figure("peak_watts", "W", "sum of the four", peak_watts),
    Figure(
        "peak_bf16_watts", "W", "the same of bf16, 0 where the arrays do not multiply it",
        lambda spec: peak_watts(spec, Format.BF16),
    ),
    Figure(
        "peak_int8_watts", "W", "the same of int8",
        lambda spec: peak_watts(spec, Format.INT8),
    ),
)  # fmt: skip

FIGURES: dict[str, Figure] = {row.name: row for row in _ROWS}
"""Figures by name, in printing order."""


def spelled(value: float) -> str:
    """Return a figure for people: whole numbers as they are, others with three digits."""
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def derived(spec: HardwareSpec) -> dict[str, float]:
    """Return every figure of a spec by name."""
    return {name: figure.of(spec) for name, figure in FIGURES.items()}
