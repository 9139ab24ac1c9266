"""Plausibility of a legal spec: numbers that contradict each other, or that no memory has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.targets.derived import (
    accumulator_rows,
    closed_cycles,
    half_peak_length,
    most_array_words,
    reuse_limit,
    ridge,
    scratchpad_words,
    square_tile,
)
from autotune.targets.spec import HardwareSpec, Memory

DRAM_LATENCY_NS = (10.0, 2000.0)
"""Less than tRCD + tCL of any DRAM, and more than a burst takes through a loaded fabric."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it says of a spec, or None where there is nothing to say."""

    name: str
    doc: str
    finding: Callable[[HardwareSpec], str | None]


def _narrow_scratchpad(spec: HardwareSpec) -> str | None:
    wants, gives = most_array_words(spec), scratchpad_words(spec)
    if wants <= gives or spec.memory is Memory.CACHED:  # a real machine reads by its caches
        return None
    return (
        f"the array reads {wants} words a cycle, a scratchpad port gives {gives}; the emulator does "
        f"not slow the array down for it: raise scratchpad.banks to {1 << (wants - 1).bit_length()}"
    )


def _slow_dma(spec: HardwareSpec) -> str | None:
    moves = spec.cores * spec.scratchpad.banks * ELEMENT_BYTES
    if moves >= spec.dram.bytes_per_cycle:
        return None
    return (
        f"DRAM moves {spec.dram.bytes_per_cycle:g} bytes a cycle, the scratchpads take {moves}: "
        "raise scratchpad.banks, or the bandwidth is never reached"
    )


def _beyond_reuse(spec: HardwareSpec) -> str | None:
    needs, limit = ridge(spec), reuse_limit(spec)
    if needs <= limit:
        return None
    return (
        f"the ridge point is {needs:.1f} multiply-adds per byte, but {spec.scratchpad.size_bytes} "
        f"bytes of scratchpad allow {limit:.1f}: no large fp32 matrix product reaches the peak"
    )


def _few_sums(spec: HardwareSpec) -> str | None:
    """Jouppi et al. (ISCA 2017, section 2) choose the TPU's accumulators so: a weight has to meet as many rows as the ridge
    point of its format asks for, and twice that to overlap its replacement."""
    rows = accumulator_rows(spec)
    multiplied = (x for x in Format if spec.multiplies(x))
    format = max(multiplied, key=lambda x: (spec.peak_macs(x), -x.bytes))
    needs = 2 * format.bytes * ridge(spec, format)
    if not rows or spec.matrix.dataflow != "ws" or rows >= needs:
        return None
    return (
        f"{rows} rows of sums; two buffers of those that hide a weight of {format.name} behind its rows are {needs:.0f}: raise "
        "scratchpad.accumulator_bytes"
    )


def _long_array(spec: HardwareSpec) -> str | None:
    length, side = half_peak_length(spec), square_tile(spec)
    if length <= side:
        return None
    return (
        f"half of the peak takes {length} vectors per fold, the largest double-buffered square tile "
        f"has {side}: the array is large for its scratchpad"
    )


def _odd_latency(spec: HardwareSpec) -> str | None:
    nanoseconds = closed_cycles(spec) / spec.clock_hz * 1e9
    low, high = DRAM_LATENCY_NS
    if low <= nanoseconds <= high:
        return None
    return (
        f"a burst from a closed row takes {nanoseconds:.1f} ns; DRAM takes {low:g} to {high:g}: "
        "latencies are in core clock cycles"
    )


def _short_row(spec: HardwareSpec) -> str | None:
    if spec.dram.row_bytes >= spec.dram.burst_bytes:
        return None
    return (
        f"a row of {spec.dram.row_bytes} bytes is shorter than a burst of {spec.dram.burst_bytes}"
    )


def _cheap_dram(spec: HardwareSpec) -> str | None:
    there, here = spec.energy.dram_read_byte_fj, spec.energy.scratchpad_read_byte_fj
    if there >= here:
        return None
    return f"a byte from DRAM costs {there} fJ, from the scratchpad {here}: are they interchanged?"


CHECKS = (
    Check(
        "narrow scratchpad", "the array reads more words per cycle than a scratchpad port gives",
        _narrow_scratchpad,
    ),
    Check("slow DMA", "DRAM moves more bytes per cycle than the scratchpads take", _slow_dma),
    Check(
        "beyond reuse", "the ridge point is above what the scratchpad lets a matrix product reuse",
        _beyond_reuse,
    ),
    Check(
        "few sums", "held weights meet fewer rows than their bytes from DRAM take to hide",
        _few_sums,
    ),
    Check(
        "long array", "half of the peak takes longer streams than the largest square tile has",
        _long_array,
    ),
    Check(
        "odd latency",
        "a burst from a closed row takes less than {:g} or more than {:g} ns".format(
            *DRAM_LATENCY_NS
        ),
        _odd_latency,
    ),
    Check("short row", "a DRAM row is shorter than a burst", _short_row),
    Check("cheap DRAM", "a byte costs less energy from DRAM than from the scratchpad", _cheap_dram),
)  # fmt: skip
"""Checks in printing order."""


def warnings_of(spec: HardwareSpec) -> tuple[str, ...]:
    """Return a sentence for each odd number; none of them makes the spec illegal."""
    findings = (check.finding(spec) for check in CHECKS)
    return tuple(finding for finding in findings if finding is not None)
