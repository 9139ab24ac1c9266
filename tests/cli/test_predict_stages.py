"""``autotune predict`` prices bound programs where the model of a CPU has a second stage."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from autotune.api import load_network
from autotune.cli.main import main
from autotune.cost_model.bound.kernel_kinds import KERNEL_PRICES
from autotune.cost_model.bound.kernel_prices import kernel_cycles
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.verifier import Verifier, bound_work
from autotune.cost_model.version import FEATURE_VERSION
from autotune.fusion.group import Group
from autotune.runtime.session.defaults import choose_accuracy
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.native.cpu.host import available
from autotune.targets.opening import load_spec
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import QUICK, Ranking
from autotune.tuner.sampling import sample_candidates

pytestmark = pytest.mark.skipif(not available(), reason="no code is generated without llvmlite")

TARGET = "cpu:1"


def trained() -> CostModel:
    """Return a model of programs that cost what their kernels do, at prices of their own."""
    spec, rng = load_spec(TARGET), np.random.default_rng(2)
    prices = KERNEL_PRICES * np.exp(rng.normal(0.0, 0.3, len(KERNEL_PRICES)))
    records = []
    for one in islice(sample_candidates([], spec, 1), 90):
        cycles = round(kernel_cycles(bound_work(one.group, [one.schedule], spec), prices)[0])
        texts = one.group.key, one.group.to_json(), one.schedule.to_json()
        rest = spec.profile_id, "host", one.network, "calibrate", Outcome.OK, "", cycles, 0, 0
        records.append(Record(*texts, *rest))
    model = fit(records, spec, seed=0)
    verifier = Verifier.fit(records, spec, 0)
    assert verifier is not None
    return model.with_verifier(verifier)


def test_a_network_is_predicted_by_the_second_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = trained()
    spec, verifier = model.spec, model.verifier
    assert verifier is not None
    with Store.open(tmp_path / "a.db") as store:
        store.save_model(spec.profile_id, model.to_bytes(), model.metrics, FEATURE_VERSION)
    with pytest.raises(SystemExit) as ended:
        store_at = str(tmp_path / "a.db")
        main(["predict", "mlp", "--target", "cpu", "--threads", "1", "--store", store_at, "--json"])
    captured = capsys.readouterr()
    assert not ended.value.code, captured.err
    assert "bound programs" in captured.err
    accuracy = choose_accuracy(None, spec)
    graph = load_network("mlp", {}, spec.layout, accuracy, formats=spec.formats)
    rows = json.loads(captured.out)["greedy"]["groups"]
    priced = 0
    for row in rows:
        group = Group.from_graph(graph, row["operators"])
        if group.is_view:
            continue
        best = Ranking(model, spec, Objective.LATENCY, 0).rank(group, QUICK).schedules[0]
        cycles = verifier.cycles(group, [best])[0]
        assert row["cycles"] == pytest.approx(cycles)
        assert row["high"] == pytest.approx(cycles * verifier.spread)
        assert row["cycles"] != pytest.approx(model.predict(group, best), rel=1e-3)
        priced += 1
    assert priced
