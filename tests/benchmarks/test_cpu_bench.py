"""The bench of the native engine: its ratios, how it asks engines, what it makes of failures; needs
neither peer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune.datasets import NETWORKS
from benchmarks import cpu, cpu_engine
from benchmarks.cpu import Effort, distance, kept_figures, take_turns
from benchmarks.cpu_engine import Case, Engine, EngineFailure
from benchmarks.cpu_figures import EngineRow, Figures, NetworkRow, Summary, geometric_mean
from benchmarks.cpu_networks import NAMES, NetworkCase, make_case
from benchmarks.cpu_tables import as_json, failures, from_json, markdown, summary_table, text

PYTHON = Path(sys.executable)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(cpu_engine, "WORKER", "tests.benchmarks.stub_engine")
    return Case(tmp_path / "network.onnx", tmp_path / "inputs.npz", 1)


def row(**rounds: tuple[float, ...]) -> NetworkRow:
    engines = {name: EngineRow(found, 1.0, 1e-7) for name, found in rounds.items()}
    return NetworkRow("any", 1, 10**9, engines)


def test_a_speed_is_the_median_over_rounds_that_saw_the_same_machine() -> None:
    # the machine was three times slower in the second round; each round says two
    found = row(onnxruntime=(2.0, 6.0, 2.0), openvino=(1.0, 3.0, 1.0), autotune=(4.0, 12.0, 4.0))
    assert found.speed("openvino", "onnxruntime") == 2.0
    assert found.speed("autotune", "onnxruntime") == 0.5
    assert found.speed_of_better("autotune") == 0.25
    assert found.engines["onnxruntime"].spread == 2.0


def test_ratios_with_an_engine_that_did_not_run_are_absent() -> None:
    found = row(onnxruntime=(2.0,), openvino=(1.0,))
    assert found.speed("autotune", "openvino") is None
    assert found.speed_of_better("autotune") is None
    assert geometric_mean([None, 4.0, 1.0]) == pytest.approx(2.0)
    assert geometric_mean([None]) is None


def test_the_share_of_the_peak_counts_two_operations_a_multiply_add() -> None:
    assert row(onnxruntime=(0.04,)).of_peak("onnxruntime", 100.0) == pytest.approx(0.5)


def test_outputs_that_differ_are_named() -> None:
    near, far = EngineRow((1.0,), 1.0, 1e-6), EngineRow((1.0,), 1.0, float("nan"))
    rows = (NetworkRow("any", 1, 0, {"onnxruntime": near, "autotune": far}),)
    assert Figures("a CPU", {1: 1.0}, rows).disagreeing() == ["any on autotune: nan of the range"]


def test_the_distance_is_a_share_of_the_range(tmp_path: Path) -> None:
    a, b, c = (tmp_path / f"{name}.npz" for name in "abc")
    np.savez(a, np.asarray([0.0, 1.0, 4.0]))
    np.savez(b, np.asarray([0.0, 1.5, 4.0]))
    np.savez(c, np.asarray([0.0, 1.5]))
    assert distance(b, a) == 0.125
    assert distance(c, a) == float("inf")


def test_engines_take_turns_and_give_the_median_of_each(case: Case, tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    with Engine("one", PYTHON, case, tmp_path) as one, Engine("two", PYTHON, case, tmp_path) as two:
        assert one.open_seconds == 0.5
        assert take_turns([one, two], Effort(2, 0.0), failed) == {
            "one": (2.0, 2.0),
            "two": (2.0, 2.0),
        }
    assert not failed


def test_an_engine_that_dies_is_left_out_with_its_last_words(case: Case, tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    with (
        Engine("dying", PYTHON, case, tmp_path) as dying,
        Engine("two", PYTHON, case, tmp_path) as two,
    ):
        assert list(take_turns([dying, two], Effort(2, 0.0), failed)) == ["two"]
    assert failed["dying"].startswith("dying ended with -6:\nabout to die")


def test_an_engine_that_refuses_a_network_says_why(case: Case, tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="refusing: ValueError: no"):
        Engine("refusing", PYTHON, case, tmp_path)


def test_every_network_of_the_bench_can_be_made_with_its_inputs(tmp_path: Path) -> None:
    assert sorted(NAMES) == sorted(NETWORKS)
    made = make_case("mlp", tmp_path)
    assert made.multiply_adds == 16 * (784 * 512 + 512 * 256 + 256 * 10)
    assert np.load(made.inputs)["x"].shape == (16, 784)


def test_tables_and_json_hold_every_network_and_the_reasons_of_failures() -> None:
    ran = row(onnxruntime=(0.002,), openvino=(0.001,))
    rows = (ran, NetworkRow("other", 1, 0, {}, {"autotune": "SpecError: no"}))
    figures = Figures("CPU: any.", {1: 100.0}, rows)
    for shown in (text(figures), markdown(figures)):
        assert all(word in shown for word in ("any", "2.000", "other", "geometric mean"))
    assert failures(figures) == ["SpecError: no (other on 1)"]
    found = json.loads(json.dumps(as_json(figures)))
    assert found["rows"][0]["OV_times_ORT"] == 2.0
    assert from_json(found) == figures


def test_a_bench_goes_on_from_the_rows_that_a_file_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def measured(case: NetworkCase, threads: int, *_: object) -> NetworkRow:
        asked.append((case.name, threads))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return NetworkRow(case.name, threads, 1, {"openvino": EngineRow((1.0,), 1.0, 0.0)})

    monkeypatch.setattr(cpu, "measure_network", measured)
    monkeypatch.setattr(cpu, "make_case", lambda name, _: NetworkCase(name, PYTHON, PYTHON, 1))
    monkeypatch.setattr(cpu, "_peak", lambda threads: 10.0 * threads)
    monkeypatch.setattr("sys.argv", ["cpu", "--networks", "mlp", "--engines", "openvino"])
    file = tmp_path / "kept.json"
    sys.argv += ["--json", str(file)]
    with pytest.raises(KeyboardInterrupt):
        cpu.main()
    cpu.main()
    assert asked == [("mlp", 1), ("mlp", 2), ("mlp", 2)]
    kept = kept_figures(file)
    assert [row.threads for row in kept.rows] == [1, 2] and kept.peak_gflops[2] == 20.0
    cpu.main()
    assert len(asked) == 3
    file.write_text(file.read_text().replace("CPU: ", "CPU: another, "))
    assert kept_figures(file).rows == ()


def test_a_summary_names_the_least_and_counts_what_is_slower() -> None:
    assert Summary.of({"a": 4.0, "b": 0.5, "c": 0.5, "d": None}) == Summary(1.0, 0.5, "b", 2)
    assert Summary.of({"a": None}) is None


def test_single_operators_are_in_no_mean() -> None:
    def on(network: str, seconds: float) -> NetworkRow:
        engines = {
            "onnxruntime": EngineRow((1.0,), 1.0, 0.0),
            "autotune": EngineRow((seconds,), 1.0, 0.0),
        }
        return NetworkRow(network, 1, 10**9, engines)

    figures = Figures("CPU: any.", {1: 100.0}, (on("mlp", 0.5), on("elementwise", 0.01)))
    rows = {row[0]: row for row in summary_table(figures).rows}
    assert rows["ours / ORT"] == ("ours / ORT", "1", "2.00", "2.00", "mlp", "0 of 1")
