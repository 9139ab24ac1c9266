"""Programs and tables of the bench against SCALE-Sim; timings and SCALE-Sim stay in the bench."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.targets.emulator.target import EmulatorTarget
from benchmarks.emulator_worker import program_of
from benchmarks.peers.scalesim_layers import systolic_machine
from benchmarks.systolic_figures import DecadeRow, Figures, LayerRow, PeerRow, PlanRow, WholeRow
from benchmarks.systolic_tables import markdown, text
from benchmarks.table import Table
from benchmarks.topology import CASES, Case

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


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_every_layer_of_the_bench_has_a_program_of_its_own_multiply_adds(case: Case) -> None:
    spec = systolic_machine(case.rows, case.cols, case.dataflow)
    machine = EmulatorTarget(spec)
    for layer in case.layers(full=True):
        assert machine.time(program_of(layer, spec)).counters["macs_useful"] == layer.macs


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
