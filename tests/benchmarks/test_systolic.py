"""The programs and tables of the bench against SCALE-Sim; timings and SCALE-Sim stay in the bench."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.targets.emulator import EmulatorTarget
from fold_programs import Folding, array_spec, fold_program
from systolic_figures import DecadeRow, Figures, LayerRow, PeerRow, PlanRow, WholeRow
from systolic_tables import Table, markdown, text
from topology import CASES, Case, Layer

# g257x129x65 of SCALE-Sim 3.0.0 on a 16×16 array with unlimited bandwidth
SCALESIM_CYCLES = {"os": 14534, "ws": 13634, "is": 14874}

FIGURES = Figures(
    full=False,
    peers=(
        PeerRow(
            case="net 4×4 os",
            of_layers=9,
            layers=(LayerRow("same", 99, 100, 3.0, 0.5), LayerRow("other", 99, 99, 1.0, 0.5)),
            scalesim_cpu_seconds=4.0,
            emulator_cpu_seconds=0.001,
            emulator_first_cpu_seconds=0.01,
            scalesim_process_cpu_seconds=5.0,
            emulator_process_cpu_seconds=0.5,
            scalesim_peak_rss_bytes=200 << 20,
            emulator_peak_rss_bytes=30 << 20,
        ),
    ),
    wholes=(WholeRow("net 4×4 os", 9, 1000, 5000, 0.001, 0.01, 30 << 20),),
    plans=(PlanRow("greedy", 10, 1000, 50_000, 0.0005),),
    decades=(DecadeRow(1, 100, 0.5), DecadeRow(10, 1000, 5.0)),
)


def busy_cycles(layer: Layer, case: Case) -> int:
    machine = EmulatorTarget(array_spec(case))
    return machine.time(fold_program(layer, case)).counters["matrix_busy_cycles"]


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
def test_executed_folds_take_one_cycle_more_than_scalesim_counts_from_0(dataflow: str) -> None:
    layer = Layer("g257x129x65", 257, 65, 1, 65, 1, 129, 1, 1)
    case = Case("any", 16, 16, dataflow, ())
    assert busy_cycles(layer, case) == SCALESIM_CYCLES[dataflow] + 1


@given(
    st.tuples(*[st.integers(1, 70)] * 3),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from(["os", "ws", "is"]),
)
def test_folds_cover_the_product_and_take_the_closed_form(
    product: tuple[int, int, int], rows: int, cols: int, dataflow: str
) -> None:
    m, k, n = product
    case = Case("any", rows, cols, dataflow, ())
    folding = Folding.of(product, case)
    for extent, size, count in zip(product, folding.tile, folding.folds, strict=True):
        assert size * (count - 1) < extent <= size * count
    fold, streamed = {  # extents held in the array, cycles that one fold streams and fills
        "os": ((m, n), k + rows + cols - 2),
        "ws": ((k, n), m + 2 * rows + cols - 2),
        "is": ((k, m), n + 2 * rows + cols - 2),
    }[dataflow]
    folds = -(-fold[0] // rows) * -(-fold[1] // cols)
    layer = Layer("any", m, k, 1, k, 1, n, 1, 1)
    assert busy_cycles(layer, case) == folds * streamed


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_every_layer_of_the_bench_has_a_legal_program(case: Case) -> None:
    machine = EmulatorTarget(array_spec(case))
    for layer in case.layers(full=True):
        found = machine.time(fold_program(layer, case)).counters
        folds = Folding.of(layer.product, case).folds
        assert found["matrix_instructions"] >= folds[0] * folds[1] * folds[2]


def test_a_layer_agrees_only_when_scalesim_counts_one_less() -> None:
    row = FIGURES.peers[0].layers[0]
    assert row.agrees
    assert not replace(row, emulator_cycles=99).agrees
    assert not replace(row, emulator_cycles=101).agrees


def test_tables_say_how_many_layers_ran_and_agree_and_the_ratio() -> None:
    for shown in (text(FIGURES), markdown(FIGURES)):
        row = next(line for line in shown.splitlines() if "2 of 9" in line)
        for cell in ("1 of 2", "4,000", "200", "30"):
            assert cell in row
        assert "FULL=1" in shown
        assert "FULL=1" not in markdown(replace(FIGURES, full=True))


def test_a_table_refuses_a_row_of_another_length() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        Table("t", ("a", "b"), (("1",),))
