"""Specs drawn at random within stated ranges: machines that nobody described, to train and test on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from autotune.targets.plausibility import CHECKS
from autotune.targets.spec import (
    DATAFLOWS,
    LAYOUTS,
    ControlSpec,
    DramSpec,
    EnergySpec,
    HardwareSpec,
    MatrixSpec,
    ScratchpadSpec,
    VectorSpec,
)

Draw = np.random.Generator


@dataclass(frozen=True, slots=True)
class Range:
    """One drawn number: uniform in its logarithm from ``low`` to ``high``."""

    name: str
    unit: str
    low: float
    high: float
    doc: str

    def draw(self, rng: Draw) -> float:
        """Draw one number."""
        return math.exp(rng.uniform(math.log(self.low), math.log(self.high)))


RANGES: dict[str, Range] = {
    row.name: row
    for row in (
        Range("clock", "Hz", 0.2e9, 2e9, "clock of all units"),
        Range("side", "cells", 4, 256, "side of the array: the geometric mean of rows and columns"),
        Range("aspect", "1", 0.5, 2, "rows over columns of two arrays in five; others are square"),
        Range("lanes", "1/column", 0.5, 8, "vector lanes per column of the array"),
        Range(
            "scratchpad", "bytes/cell", 128, 2048, "scratchpad of a core over cells of its array"
        ),
        Range("banks", "1", 0.5, 8, "scratchpad banks over the words that the array reads a cycle"),
        Range("ridge", "multiply-adds/byte", 4, 1500, "peak of all arrays over the DRAM channel"),
        Range("burst", "bytes", 32, 128, "DRAM burst, a power of two"),
        Range("row", "bytes", 1 << 10, 1 << 14, "DRAM row, a power of two"),
        Range("dram_banks", "1", 8, 1024, "DRAM banks, a power of two"),
        Range("dram_timing", "s", 10e-9, 22e-9, "each of tRCD, tRP and tCL"),
        Range("turnaround", "s", 5e-9, 15e-9, "turn of the channel between reads and writes"),
        Range("transfer_setup", "s", 30e-9, 200e-9, "address generation and fabric of a transfer"),
        Range("matrix_setup", "cycles", 2, 16, "set-up of a matrix instruction"),
        Range("vector_setup", "cycles", 2, 16, "set-up of a vector instruction"),
        Range("divide", "cycles", 2, 16, "pass of a division"),
        Range("transcendental", "cycles", 4, 32, "pass of exp, erf, tanh"),
        Range("queue", "instructions", 4, 64, "queue of a unit, a power of two"),
        Range("mac_energy", "fJ", 1_000, 10_000, "fp32 multiply-add"),
        Range("scratchpad_energy", "fJ/byte", 500, 5_000, "scratchpad access"),
        Range("dram_energy", "fJ/byte", 20_000, 200_000, "DRAM access"),
    )
}
"""Every number that is drawn, with its range. The shipped specs lie within."""

CORES = (1, 1, 1, 1, 2, 2, 4, 8)
"""Cores, drawn with equal chances."""
PORTS = (4, 4, 4, 4, 3, 2, 1)
"""Scratchpad ports, drawn with equal chances."""
DISPATCH_CYCLES = (1, 1, 1, 0, 2, 4)
"""Cycles to dispatch an instruction, drawn with equal chances."""
BF16_RATES = (0, 0, 1, 2)
"""bf16 multiply-adds of a cell per cycle, drawn with equal chances."""
INT8_RATES = (0, 0, 1, 2, 4)
"""int8 multiply-adds of a cell per cycle, drawn with equal chances."""
SQUARE = 0.6
"""Share of arrays with as many rows as columns."""
OTHER_LAYOUT = 0.25
"""Share of machines that keep channels last."""

_FORMATS = 1
"""Seed of the narrow formats, beside a spec's own numbers."""

MIN_CHANNEL, MAX_CHANNEL = 0.5, 1024.0
"""Least and most bytes per cycle of a DRAM channel, whatever the ridge point."""
MIN_SCRATCHPAD_BYTES = 16 << 10
"""Least scratchpad, however small the array."""

ALLOWED = ("narrow scratchpad", "beyond reuse")
"""Findings of ``targets.plausibility`` that a drawn spec may have: shipped ones have them too, ``edge`` the
first, TPU v1 and Eyeriss the second."""


def drawn_specs(count: int, seed: int) -> tuple[HardwareSpec, ...]:
    """Return ``count`` plausible specs; the first ones stay the same when ``count`` grows."""
    return tuple(drawn_spec(seed, number) for number in range(count))


def drawn_spec(seed: int, number: int) -> HardwareSpec:
    """Return the spec ``number`` of a seed: the first plausible one of its own random numbers."""
    rng = np.random.default_rng([seed, number])
    matrix = _matrix(rng)  # drawn once: fewer specs are plausible around a large array
    while True:
        spec = _candidate(rng, f"drawn-{seed}-{number}", matrix)
        if is_plausible(spec):
            return _with_narrow_formats(spec, np.random.default_rng([seed, number, _FORMATS]))


def _with_narrow_formats(spec: HardwareSpec, rng: Draw) -> HardwareSpec:
    """Draw what the array multiplies beside fp32; random numbers of their own leave all else as it was."""
    bf16, int8 = (rates[int(rng.integers(len(rates)))] for rates in (BF16_RATES, INT8_RATES))
    matrix = replace(spec.matrix, bf16_macs_per_cell=bf16, int8_macs_per_cell=int8)
    return replace(spec, matrix=matrix)


def is_plausible(spec: HardwareSpec) -> bool:
    """Return True if no check but the ``ALLOWED`` ones finds anything odd."""
    return all(check.finding(spec) is None for check in CHECKS if check.name not in ALLOWED)


def _candidate(rng: Draw, name: str, matrix: MatrixSpec) -> HardwareSpec:
    """Draw a spec around an array; it may be odd."""
    clock_hz, cells = _of(rng, "clock"), matrix.rows * matrix.cols
    cores = CORES[int(rng.integers(len(CORES)))]
    lanes = max(1, round(matrix.cols * _of(rng, "lanes")))
    return HardwareSpec(
        name=name,
        description=f"drawn {matrix.rows}×{matrix.cols} {matrix.dataflow} array",
        sources=(),
        cores=cores,
        clock_hz=clock_hz,
        matrix=matrix,
        vector=VectorSpec(
            lanes,
            _cycles(rng, "vector_setup"),
            _cycles(rng, "divide"),
            _cycles(rng, "transcendental"),
        ),
        scratchpad=ScratchpadSpec(
            max(MIN_SCRATCHPAD_BYTES, 1024 * round(cells * _of(rng, "scratchpad") / 1024)),
            _power((matrix.rows + matrix.cols) * _of(rng, "banks")),
            PORTS[int(rng.integers(len(PORTS)))],
        ),
        dram=_dram(rng, clock_hz, cores * cells),
        control=ControlSpec(
            DISPATCH_CYCLES[int(rng.integers(len(DISPATCH_CYCLES)))], _power(_of(rng, "queue"))
        ),
        energy=_energy(rng, cells),
        layout=LAYOUTS[int(rng.random() < OTHER_LAYOUT)],
    )


def _matrix(rng: Draw) -> MatrixSpec:
    side, aspect = _of(rng, "side"), _of(rng, "aspect")
    if rng.random() < SQUARE:
        aspect = 1.0
    rows, cols = _whole(side * math.sqrt(aspect)), _whole(side / math.sqrt(aspect))
    dataflow = DATAFLOWS[int(rng.integers(len(DATAFLOWS)))]
    return MatrixSpec(rows, cols, dataflow, _cycles(rng, "matrix_setup"))


def _dram(rng: Draw, clock_hz: float, peak_macs: int) -> DramSpec:
    bytes_per_cycle = peak_macs / _of(rng, "ridge")
    activate, precharge, column = (_clocks(rng, "dram_timing", clock_hz) for _ in range(3))
    return DramSpec(
        round(min(MAX_CHANNEL, max(MIN_CHANNEL, bytes_per_cycle)), 2),
        _power(_of(rng, "burst")),
        _power(_of(rng, "row")),
        _power(_of(rng, "dram_banks")),
        activate,
        precharge,
        column,
        _clocks(rng, "turnaround", clock_hz),
        _clocks(rng, "transfer_setup", clock_hz),
    )


def _energy(rng: Draw, cells: int) -> EnergySpec:
    mac, scratchpad, dram = (
        round(_of(rng, f"{kind}_energy")) for kind in ("mac", "scratchpad", "dram")
    )
    return EnergySpec(
        mac_fj=mac,
        mac_bf16_fj=mac * 2 // 5,
        mac_int8_fj=mac // 15,
        vector_fj=mac // 2,
        scratchpad_read_byte_fj=scratchpad,
        scratchpad_write_byte_fj=scratchpad,
        dram_read_byte_fj=dram,
        dram_write_byte_fj=dram,
        dram_activate_fj=0,
        dispatch_fj=25_000,
        static_cycle_fj=mac * cells // 10,
    )


def _of(rng: Draw, name: str) -> float:
    return RANGES[name].draw(rng)


def _cycles(rng: Draw, name: str) -> int:
    return round(_of(rng, name))


def _clocks(rng: Draw, name: str, clock_hz: float) -> int:
    """Draw a time in seconds; return it in clock cycles, at least one."""
    return max(1, round(_of(rng, name) * clock_hz))


def _power(value: float) -> int:
    """Return the nearest power of two, in the logarithm."""
    return 1 << round(math.log2(value))


def _whole(cells: float) -> int:
    """Round a side of an array as builders do: to even numbers, from 32 on to multiples of 16."""
    step = 16 if cells >= 32 else 2
    return max(step, step * round(cells / step))
