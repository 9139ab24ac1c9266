"""Whole networks are run during a calibration of this CPU, and predicted from their groups."""

from __future__ import annotations

import itertools
import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from autotune import api
from autotune.cli.commands.calibrate import _networks
from autotune.cli.main import app
from autotune.cost_model.cached.work_kinds import TYPICAL_FACTOR
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.runtime import network_times
from autotune.runtime.network_times import (
    MEASURED,
    load_of,
    price_of,
    time_of,
    timed_networks,
    with_networks,
)
from autotune.targets.native.cpu.host import available
from autotune.targets.native.running.sampling import Reading
from autotune.targets.opening import target

NAMES = (
    "mlp",
    "transformer_block",
    "attention",
    "norm_gelu",
    "lstm_layer",
    "gru_layer",
    "gru",
    "lstm",
)


@pytest.mark.skipif(not available(), reason="no code is generated without llvmlite")
def test_a_calibration_runs_networks_and_its_model_tells_how_far_it_errs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_times, "RUN_SECONDS", 0.02)
    monkeypatch.setattr(network_times, "MEASURED", NAMES)
    told: list[tuple[str, int, int]] = []
    machine = target("cpu", 1)
    model = with_networks(
        machine,
        CostModel.typical(machine.spec),
        lambda phase, done, total: told.append((phase, done, total)),
    )
    assert model.composition is not None
    assert model.metrics["whole_networks"] == len(NAMES)
    assert told[-1] == (network_times.PHASE, 2 * len(NAMES), 2 * len(NAMES))


class Slowing:
    """A session whose runs take a millisecond, and the reference of a machine: ``readings`` come in turn, over and over."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = itertools.cycle(readings)
        self.runs = 0

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {}

    def run(self, inputs: dict[str, np.ndarray]) -> None:
        self.runs += 1
        time.sleep(1e-3)

    def await_calm(self, seconds: float) -> float:
        return 0.0

    def read(self) -> Reading:
        return next(self._readings)


def test_a_visit_to_a_network_is_told_by_the_usual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_times, "RUN_SECONDS", 0.0)
    slow = Slowing(Reading(clock=0.4), Reading(clock=0.6))
    visits = list(network_times._visits(slow, slow, 0))
    assert len(visits) == network_times.FEWEST_VISITS
    assert slow.runs > len(visits), "a visit is several runs of a short network"
    assert {visit.clock for visit in visits} == {0.5}
    assert all(visit.nanoseconds[0] >= 1e6 for visit in visits)
    assert visits[0].least == pytest.approx(0.5 * visits[0].nanoseconds[0], abs=1)


def test_a_crowded_visit_to_a_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_times, "RUN_SECONDS", 0.0)
    crowded = Slowing(Reading(), Reading(crowding=2.0), Reading(), Reading())
    unrest = [x.unrest > 1.0 for x in network_times._visits(crowded, crowded, 0)]
    assert unrest == [i % 2 == 0 for i in range(len(unrest))]


def test_machines_whose_programs_are_emulated_run_no_network() -> None:
    machine = target("edge")
    model = CostModel.from_bytes(Predictor.load(machine).model.to_bytes(), machine.spec)
    assert with_networks(machine, model, lambda *_: pytest.fail("nothing is run")) is model


@pytest.mark.skipif(not available(), reason="no code is generated without llvmlite")
def test_a_network_takes_what_its_session_measures_within_the_stated_factor() -> None:
    machine = target("cpu", 1)
    (timed,) = timed_networks(("light_squeezenet",), machine, lambda *_: None)
    model = CostModel.typical(machine.spec)
    found = time_of(
        model, load_of(timed.choices, timed.constants, price_of(model), machine.spec.clock_hz)
    )
    assert found.high_seconds == pytest.approx(TYPICAL_FACTOR * found.seconds)
    assert found.low_seconds < timed.seconds < 3 * found.high_seconds
    cost = api.predict_network("light_squeezenet", machine)
    assert cost.seconds == pytest.approx(found.seconds, rel=1e-6), "the groups of a session"
    assert len(cost.parts) == len(timed.choices)
    assert cost.seconds > sum(part.seconds for part in cost.parts)


@pytest.mark.skipif(not available(), reason="no code is generated without llvmlite")
def test_predict_prints_the_time_of_a_run() -> None:
    run = CliRunner().invoke(app, ["predict", "mlp", "--target", "cpu:1", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    alone = sum(row["cycles"] for row in found["heuristic"]["groups"])
    assert alone == pytest.approx(found["heuristic"]["cycles"])
    assert found["low_seconds"] < found["predicted_seconds"] < found["high_seconds"]
    assert found["predicted_seconds"] > alone / target("cpu", 1).spec.clock_hz
    run = CliRunner().invoke(app, ["predict", "mlp", "--target", "cpu:1"])
    assert "a run of mlp takes" in run.output


def test_networks_of_all_kinds_are_run() -> None:
    from autotune.datasets.networks import NETWORKS

    assert set(MEASURED) <= set(NETWORKS)


def test_only_a_model_that_ran_networks_tells_of_them() -> None:
    trained = Predictor.load("edge").model.metrics | {"networks": 3.0}
    assert "whole networks" not in _networks(trained)
    ran = {"whole_networks": 16.0, "whole_networks_mape": 0.05, "whole_networks_within_10": 0.875}
    assert "16 were run" in _networks(ran)["whole networks"]
