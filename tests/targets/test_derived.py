"""Derived figures: closed forms, what the engine itself does, and what the papers print."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from autotune.targets.derived import (
    BUFFERED_TILES,
    FIGURES,
    array_words,
    derived,
    fill_drain_cycles,
    half_peak_length,
    spelled,
)
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.spec import DATAFLOWS, HardwareSpec
from tests.targets.machine_case import PLAIN, counted, fill, load, make, tensor

# Cycles of a nanosecond each, powers of two, and one price each, so that figures can be read off.
ROUND = replace(
    PLAIN,
    cores=2,
    clock_hz=1e9,
    matrix=replace(
        PLAIN.matrix, rows=8, cols=16, dataflow="ws", setup_cycles=6, bf16_macs_per_cell=2,
        int8_macs_per_cell=8,
    ),
    scratchpad=replace(PLAIN.scratchpad, size_bytes=6 * 4 * 50 * 50, banks=8, accumulator_bytes=3000),
    dram=replace(
        PLAIN.dram, bytes_per_cycle=16.0, burst_bytes=64, row_bytes=1024, activate_cycles=14,
        precharge_cycles=12, column_cycles=10, setup_cycles=8,
    ),
    energy=replace(
        PLAIN.energy, mac_fj=1000, mac_bf16_fj=500, mac_int8_fj=50, scratchpad_read_byte_fj=100, scratchpad_write_byte_fj=200,
        dram_read_byte_fj=5000, dram_activate_fj=1024, static_cycle_fj=3000,
    ),
)  # fmt: skip
CLOSED_FORMS = {
    "peak_gmacs": 2 * 8 * 16,
    "peak_gflops": 2 * 2 * 8 * 16,
    "peak_bf16_gflops": 2 * 2 * 2 * 8 * 16,
    "peak_int8_gops": 8 * 2 * 2 * 8 * 16,
    "dram_bytes_per_cycle": 16,
    "dram_gb_per_second": 16,
    "ridge_macs_per_byte": 2 * 8 * 16 / 16,
    "ridge_bf16_macs_per_byte": 2 * 2 * 8 * 16 / 16,
    "ridge_int8_macs_per_byte": 8 * 2 * 8 * 16 / 16,
    "reuse_macs_per_byte": 15000**0.5 / 8,
    "reuse_int8_macs_per_byte": 60000**0.5 / 2,
    "square_tile_elements": 50,
    "dram_hit_cycles": 8 + 10 + 4,
    "dram_hit_ns": 22,
    "dram_closed_cycles": 22 + 14,
    "dram_closed_ns": 36,
    "dram_conflict_cycles": 36 + 12,
    "dram_conflict_ns": 48,
    "half_bandwidth_bytes": 44 * 16,
    "fill_drain_cycles": 8 + 8 + 16 - 2,
    "half_peak_vectors": 6 + 30,
    "array_read_words": 8 * 8 // 4 + 16,
    "scratchpad_port_words": 8,
    "accumulator_rows": 3000 / 16 // 4,
    "mac_watts": 256 * 1e-12 * 1e9,
    "scratchpad_watts": (2 * 24 * 4 * 100 + (2 * 16 * 4 + 16) * 200) * 1e-6,
    "dram_watts": 16 * 5001 * 1e-6,
    "static_watts": 6e-3,
    "peak_watts": 0.256 + 0.048 + 0.080016 + 0.006,
    "peak_bf16_watts": 2 * 0.128 + 0.048 + 0.080016 + 0.006,
    "peak_int8_watts": 8 * 0.0128 + (0.048 + 2 * 8 * 4 * 100e-6) + 0.080016 + 0.006,
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_its_closed_form(name: str) -> None:
    assert derived(ROUND)[name] == pytest.approx(CLOSED_FORMS[name], rel=1e-12)


def test_every_figure_has_a_closed_form_a_unit_and_a_meaning() -> None:
    assert set(FIGURES) == set(CLOSED_FORMS)
    assert all(row.unit and row.doc and row.name == name for name, row in FIGURES.items())


def burst(spec: HardwareSpec, row: int) -> Instruction:
    """A load of one burst from the beginning of a row."""
    first = row * spec.dram.row_bytes // 4
    return load(0, 0, spec.dram.burst_bytes // 4, coord0=first)


@pytest.mark.parametrize("name", spec_names())
def test_latencies_are_those_of_the_emulator(name: str) -> None:
    spec = load_spec(name)
    spec = replace(spec, control=replace(spec.control, dispatch_cycles=0))
    figures, rows = derived(spec), spec.dram.banks + 1
    x = tensor("x", rows * spec.dram.row_bytes // 4)

    def cycles(*body: Instruction) -> int:
        return counted(*body, spec=spec, tensors=(x,))["cycles"]

    opened = cycles(burst(spec, 0))
    assert opened == figures["dram_closed_cycles"]
    for row, figure in ((0, "dram_hit_cycles"), (spec.dram.banks, "dram_conflict_cycles")):
        assert cycles(burst(spec, 0), burst(spec, row)) - opened == figures[figure]


def test_a_transfer_of_the_half_bandwidth_size_takes_twice_its_latency() -> None:
    spec = replace(ROUND, control=replace(ROUND.control, dispatch_cycles=0))
    elements = int(derived(spec)["half_bandwidth_bytes"]) // 4
    x = tensor("x", 8 * 1024)
    conflict = load(0, 0, elements, coord0=4 * 256)  # in the bank of row 0, there are 4
    found = counted(load(0, 0, 16), conflict, spec=spec, tensors=(x,))["cycles"]
    assert found - derived(spec)["dram_closed_cycles"] == 2 * elements * 4 / 16


def product(spec: HardwareSpec, held: int, streamed: int) -> dict[str, int]:
    """Counters of one MATMUL of ``held`` blocks of the array's size, one below the other, and that
    many vectors; operands all read one element."""
    rows, cols = spec.matrix.rows, spec.matrix.cols
    m, n, k = {
        "os": (held * rows, cols, streamed),
        "ws": (streamed, cols, held * rows),
        "is": (cols, streamed, held * rows),
    }[spec.matrix.dataflow]
    return counted(fill(), make(Opcode.MATMUL, m=m, n0=n, k0=k), spec=spec)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize(("rows", "cols"), [(4, 8), (16, 16), (12, 14)])
def test_the_array_does_half_of_its_peak_at_the_half_peak_length(
    dataflow: str, rows: int, cols: int
) -> None:
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, rows=rows, cols=cols, dataflow=dataflow))
    length = half_peak_length(spec)
    found = product(spec, 1, length)
    assert found["macs_useful"] * 2 == found["matrix_busy_cycles"] * rows * cols
    one_more = product(spec, 1, length + 1)["matrix_busy_cycles"]
    assert one_more == spec.matrix.setup_cycles + length + 1 + fill_drain_cycles(spec)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("streamed", [1, 40])
def test_the_array_reads_as_many_words_as_the_engine_counts(dataflow: str, streamed: int) -> None:
    """A further fold reads its held block, where one is held, and both edges for every vector."""
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, dataflow=dataflow))
    reads = [product(spec, held, streamed)["scratchpad_read_bytes"] // 4 for held in (1, 2)]
    block = 0 if dataflow == "os" else spec.matrix.rows * spec.matrix.cols
    assert reads[1] - reads[0] == streamed * array_words(spec) + block


@given(st.integers(256, 1 << 26))
def test_no_larger_square_tile_fits(words: int) -> None:
    spec = replace(PLAIN, scratchpad=replace(PLAIN.scratchpad, size_bytes=4 * words))
    side = derived(spec)["square_tile_elements"]
    assert BUFFERED_TILES * side**2 <= words < BUFFERED_TILES * (side + 1) ** 2


@pytest.mark.parametrize("name", spec_names())
def test_power_is_split_without_rest_and_the_roofs_meet_at_the_ridge(name: str) -> None:
    figures = derived(load_spec(name))
    parts = [figures[f"{part}_watts"] for part in ("mac", "scratchpad", "dram", "static")]
    assert sum(parts) == pytest.approx(figures["peak_watts"])
    assert figures["ridge_macs_per_byte"] * figures["dram_gb_per_second"] == pytest.approx(
        figures["peak_gmacs"]
    )


@pytest.mark.parametrize(
    ("name", "figure", "printed", "within"),
    [
        ("tpuv1-like", "peak_int8_gops", 92_000, 0.005),  # 92 TOPS (Jouppi 2017, table 2)
        ("gemmini-like", "peak_int8_gops", 2 * 16 * 16, 1e-9),  # defaultConfig at 1 GHz
        ("server", "peak_bf16_gflops", 123_000, 0.002),  # 123 Tflop/s (Google Cloud, TPU v3)
        ("tpuv1-like", "dram_gb_per_second", 34, 0.006),  # 34 GB/s (table 2)
        ("tpuv1-like", "ridge_macs_per_byte", 1350, 0.01),  # section 4
        ("tpuv1-like", "static_watts", 28, 1e-9),  # idle (table 2)
        ("eyeriss-like", "peak_gmacs", 16.8 * 2, 1e-9),  # 16.8 at 100 MHz (Chen 2017)
        ("eyeriss-like", "dram_gb_per_second", 0.48, 1e-9),  # 64 bit at 60 MHz
        ("gemmini-like", "dram_bytes_per_cycle", 128 / 8, 1e-9),  # dma_buswidth
        ("tpuv1-like", "accumulator_rows", 4096, 1e-9),  # "4096, 256-element, 32-bit" (section 2)
        (
            "gemmini-like",
            "accumulator_rows",
            1024,
            1e-9,
        ),  # acc_capacity 64 KiB, rows of 16 (DAC 2021)
    ],
)
def test_published_figures_follow_from_published_numbers(
    name: str, figure: str, printed: float, within: float
) -> None:
    assert derived(load_spec(name))[figure] == pytest.approx(printed, rel=within)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (28.0, "28"), (91750.4, "91,750.4"), (0.0679, "0.0679"), (1234567, "1,234,567")],
)
def test_figures_are_spelled_for_people(value: float, text: str) -> None:
    assert spelled(value) == text
