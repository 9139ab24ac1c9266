"""A machine that hides another one is answered by a raw model, and the page says so."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from autotune.graph.accuracy import Accuracy
from autotune.lowering.lower import lower
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.tuner.sampling import sample_candidates
from benchmarks.hidden_machine import MACHINES, STATED
from benchmarks.misjudged import CONTENDERS, measured, note, page, table

METRICS = {
    "mape": 0.06,
    "within_10": 0.83,
    "coverage": 0.9,
    "top1_regret": 0.01,
    **{f"{kind}_mape": 0.1 * at for at, kind in enumerate(CONTENDERS)},
    **{f"{kind}_top1_regret": 0.02 for kind in CONTENDERS},
}


def test_machines_state_one_spec_and_cost_what_another_does() -> None:
    stated = EmulatorTarget(load_spec(STATED))
    candidates = sample_candidates((), stated.spec, 0, Accuracy.EXACT)
    first = next(candidates)
    program = lower(first.group, first.schedule, stated.spec)
    costs = {name: hidden.open().time(program).cycles for name, hidden in MACHINES.items()}
    assert costs["as stated"] == stated.time(program).cycles
    assert len(set(costs.values())) == len(costs)
    for name, hidden in MACHINES.items():
        assert hidden.open().spec.profile_id == stated.spec.profile_id
        again = pickle.loads(pickle.dumps(hidden.open()))
        assert (again.name, again.time(program).cycles) == (name, costs[name])


def test_the_page_has_every_contender_and_what_answers(tmp_path: Path) -> None:
    one = {"kind": "raw", "failed": 0, "metrics": METRICS}
    without = {name: x for name, x in METRICS.items() if not name.startswith("raw")}
    worse = {**without, "top1_regret": 0.03}
    found = {"small": one, "serial": {"kind": "guided", "failed": 0, "metrics": worse}}
    (row, other) = table(found).rows
    assert row[2:] == (
        "0.0% / 2.0%",
        "10.0% / 2.0%",
        "20.0% / 2.0%",
        "30.0% / 2.0%",
        "raw",
        "83%, 90%",
    )
    assert other[5:7] == ("–", "guided")
    assert note(found).endswith("larger regret than its formula: 1.")
    assert "| small |" in page(found)
    (tmp_path / "small.json").write_text(json.dumps(one))
    assert measured(MACHINES["small"], tmp_path) == one


@pytest.mark.slow  # measures 900 programs and trains
def test_raw_answers_where_the_stated_machine_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.misjudged.BUDGET", 900)
    found = measured(MACHINES["other, serial"], tmp_path)
    metrics = found["metrics"]
    assert found["kind"] == "raw" and not found["failed"]
    assert metrics["mape"] < metrics["guided_mape"] < metrics["formula_mape"]
    assert metrics["top1_regret"] <= metrics["formula_top1_regret"]
