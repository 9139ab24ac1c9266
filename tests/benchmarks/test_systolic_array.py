"""The emulated array takes the cycles that a register-level simulation of one takes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import DATAFLOWS
from benchmarks.peers.scalesim_layers import Layer, LayerRun, execute, read_layers, systolic_machine
from tests.benchmarks.systolic_array import Matrix, Simulated, simulate

REFERENCE = Path(__file__).parent / "reference" / "scalesim"
RTL = [
    {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
    for line in (REFERENCE / "rtl_os_check.txt").read_text().splitlines()
]
SMALL = [
    (dataflow, layer)
    for dataflow in DATAFLOWS
    for layer in read_layers(REFERENCE / f"gemm_sweep_arr16_{dataflow}.csv")
    if layer.last_cycle < 2000
]


def operands(m: int, k: int, n: int) -> tuple[Matrix, Matrix]:
    """Positive, so that every product changes its sum."""
    random = np.random.default_rng(m * k + n)
    return random.integers(1, 9, (m, k)), random.integers(1, 9, (k, n))


def both(dataflow: str, rows: int, cols: int, m: int, k: int, n: int) -> tuple[Simulated, LayerRun]:
    left, right = operands(m, k, n)
    simulated = simulate(dataflow, left, right, rows, cols)
    np.testing.assert_array_equal(simulated.product, left @ right)
    machine = systolic_machine(rows, cols, dataflow)
    return simulated, execute(Layer("case", m, k, n, 0), EmulatorTarget(machine))


extents = st.integers(1, 6)


@given(st.sampled_from(DATAFLOWS), extents, extents, st.integers(1, 20))
@settings(max_examples=60)
def test_a_fold_takes_the_cycles_between_its_first_and_its_last_edge(
    dataflow: str, rows: int, cols: int, streamed: int
) -> None:
    m, k, n = {
        "os": (rows, streamed, cols),
        "ws": (streamed, rows, cols),
        "is": (cols, rows, streamed),
    }[dataflow]
    simulated, run = both(dataflow, rows, cols, m, k, n)
    assert run.folds == 1
    assert simulated.changes[-1] == simulated.edges
    assert simulated.edges - 1 == run.last_cycle + 1


@given(st.sampled_from(DATAFLOWS), *[extents] * 2, *[st.integers(1, 14)] * 3)
@settings(max_examples=60)
def test_folds_follow_each_other_without_a_gap(
    dataflow: str, rows: int, cols: int, m: int, k: int, n: int
) -> None:
    """A layer has one edge more than cycles, however many folds it has."""
    simulated, run = both(dataflow, rows, cols, m, k, n)
    assert simulated.edges - 1 == run.last_cycle + 1


@pytest.mark.parametrize("row", RTL, ids=lambda row: f"{row['R']}x{row['C']}x{row['K']}")
def test_the_rtl_settles_on_the_edge_on_which_the_simulation_does(row: dict[str, int]) -> None:
    simulated, run = both("os", row["R"], row["C"], row["R"], row["K"], row["C"])
    assert simulated.changes[-1] == row["last_change_after_edges"]
    assert run.last_cycle + 1 == row["formula_TRC2"]
    assert run.last_cycle + 1 == row["last_change_after_edges"] - 1


@given(extents, extents, st.integers(1, 20))
@settings(max_examples=30)
def test_the_edge_too_many_is_the_one_that_registers_the_first_operand(
    rows: int, cols: int, depth: int
) -> None:
    """From the second edge on a sum changes on every one: as many as the fold has cycles."""
    simulated, run = both("os", rows, cols, rows, depth, cols)
    assert simulated.changes == tuple(range(2, simulated.edges + 1))
    assert len(simulated.changes) == run.last_cycle + 1


@pytest.mark.parametrize(("dataflow", "layer"), SMALL)
def test_scale_sim_prints_the_index_of_the_last_simulated_cycle(
    dataflow: str, layer: Layer
) -> None:
    left, right = operands(layer.m, layer.k, layer.n)
    simulated = simulate(dataflow, left, right, 16, 16)
    assert (simulated.edges - 1) - 1 == layer.last_cycle


def test_the_oracle_tells_the_dataflows_apart() -> None:
    left, right = operands(9, 5, 7)
    edges = [simulate(dataflow, left, right, 2, 3).edges for dataflow in DATAFLOWS]
    assert len(set(edges)) == len(edges)
