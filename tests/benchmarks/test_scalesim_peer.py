"""What the bench gives to SCALE-Sim, and what it says when that is not there; needs no SCALE-Sim."""

from __future__ import annotations

import configparser
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.child import run_child
from benchmarks.scalesim_peer import simulate, write_inputs
from benchmarks.topology import CASES, Case, Layer

CONV = Layer("conv", 8, 10, 3, 3, 4, 16, 2, 2)


def test_a_layer_is_the_product_that_its_output_extents_make() -> None:
    assert CONV.product == (4 * 5, 36, 16)  # ⌈(8 − 3 + 2) / 2⌉ = 4: rounded up, as SCALE-Sim does
    assert CONV.macs == 20 * 36 * 16


@pytest.mark.parametrize(("field", "value"), [("ifh", 2), ("sh", 0), ("nf", -1)])
def test_a_layer_without_an_output_cannot_be_made(field: str, value: int) -> None:
    with pytest.raises(ValueError, match="conv: "):
        replace(CONV, **{field: value})


def test_resnet50_and_alexnet_have_the_multiply_adds_of_their_papers() -> None:
    macs = {case.topology: sum(layer.macs for layer in case.layers(True)) for case in CASES}
    # He et al., table 1: 3.8 · 10^9 at valid padding of the 3×3 layers
    assert macs["resnet50"] == pytest.approx(3.5e9, rel=0.05)
    # dense layers of Krizhevsky et al.: 58.6 · 10^6 weights, one multiply-add each
    dense = [layer for layer in CASES[1].layers(True) if layer.name.startswith("FC")]
    assert sum(layer.macs for layer in dense) == (9216 + 1000) * 4096 + 4096 * 4096


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_every_chosen_layer_is_in_its_topology_once(case: Case) -> None:
    names = [layer.name for layer in case.layers(full=True)]
    assert len(set(names)) == len(names)
    assert sorted(layer.name for layer in case.layers(full=False)) == sorted(case.chosen)


def test_the_input_files_say_array_dataflow_and_layer(tmp_path: Path) -> None:
    write_inputs(tmp_path, Case("any", 8, 4, "ws", ()), [CONV])
    config = configparser.ConfigParser()
    config.read(tmp_path / "scale.cfg")
    array = config["architecture_presets"]
    assert (array["ArrayHeight"], array["ArrayWidth"], array["Dataflow"]) == ("8", "4", "ws")
    header, row = (tmp_path / "conv" / "topology.csv").read_text().splitlines()
    assert row == "conv,8,10,3,3,4,16,2,"
    assert header.count(",") == row.count(",")


@pytest.mark.parametrize("change", [{"sw": 1}, {"name": "DPconv"}])
def test_a_layer_that_scalesim_would_misread_is_refused(
    change: dict[str, int | str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="SCALE-Sim"):
        write_inputs(tmp_path, CASES[0], [replace(CONV, **change)])


def test_a_missing_scalesim_is_reported_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="make bench-systolic"):
        simulate(CASES[0], [CONV], tmp_path / "python")


def test_a_worker_reports_its_own_memory_and_a_failure_its_reason() -> None:
    worker = "tests.benchmarks.memory_worker"
    small, large = (run_child(Path(sys.executable), worker, [size]) for size in ("1", "300"))
    assert large["peak_rss_bytes"] - small["peak_rss_bytes"] > 100 << 20
    with pytest.raises(RuntimeError, match="invalid literal"):
        run_child(Path(sys.executable), worker, ["x"])
