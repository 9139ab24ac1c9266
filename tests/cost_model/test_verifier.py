"""The second stage predicts bound programs of unseen groups, and is used only where it chooses better."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autotune.cost_model import verifier as module
from autotune.cost_model.bound.kernel_kinds import KERNEL_PRICES
from autotune.cost_model.bound.kernel_prices import kernel_cycles
from autotune.cost_model.first_choice import PROMISES, cautious
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.verifier import (
    Verifier,
    bound_work,
    can_verify,
    is_better,
)
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import StoreError
from autotune.graph.graph import Graph
from autotune.runtime.online.planning import ModelLearning
from autotune.schedule.candidate import Candidate
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.native.cpu.host import available
from autotune.targets.native.detection.detect import HostFigures, host_spec
from autotune.targets.opening import load_spec
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import QUICK, Ranking
from autotune.tuner.sampling import sample_candidates

pytestmark = pytest.mark.skipif(not available(), reason="no code is generated without llvmlite")

SPEC = host_spec(1, HostFigures(3e9, 2, 16, 32 << 20, 5.0))


@cache
def candidates() -> tuple[Candidate, ...]:
    return tuple(islice(sample_candidates([], SPEC, 1), 120))


@cache
def records() -> tuple[Record, ...]:
    """Programs that cost what their kernels do. Prices of kernels are drawn around the typical ones."""
    rng = np.random.default_rng(2)
    prices = KERNEL_PRICES * np.exp(rng.normal(0.0, 0.3, len(KERNEL_PRICES)))
    found = []
    for c in candidates():
        cycles = round(kernel_cycles(bound_work(c.group, [c.schedule], SPEC), prices)[0])
        texts = c.group.key, c.group.to_json(), c.schedule.to_json()
        rest = SPEC.profile_id, "host", c.network, "calibrate", Outcome.OK, "", cycles, 0, 0
        found.append(Record(*texts, *rest))
    return tuple(found)


@cache
def fitted() -> Verifier:
    verifier = Verifier.fit(records(), SPEC, 0)
    assert verifier is not None
    return verifier


def test_programs_of_unseen_groups_are_predicted() -> None:
    assert fitted().metrics["mape"] < 0.08


def test_it_is_the_same_when_it_is_read_again() -> None:
    again = Verifier.from_bytes(fitted().to_bytes(), SPEC)
    group, schedule = candidates()[0].group, candidates()[0].schedule
    assert again.cycles(group, [schedule]) == fitted().cycles(group, [schedule])
    assert again.metrics == fitted().metrics


def test_prices_of_other_kinds_are_refused() -> None:
    blob = fitted().to_bytes().replace(b'"programs"', b'"programz"')
    with pytest.raises(StoreError, match="calibrate"):
        Verifier.from_bytes(blob, SPEC)


def test_emulated_machines_have_none() -> None:
    assert not can_verify(load_spec("edge"))
    assert Verifier.fit(records(), load_spec("edge"), 0) is None


def test_a_model_keeps_its_second_stage_only_where_it_chooses_better() -> None:
    model = fit(records(), SPEC, seed=0)
    better = model.with_verifier(fitted())
    assert better.verifier is fitted()
    assert better.metrics["verified_mape"] < better.metrics["mape"]
    read = CostModel.from_bytes(better.to_bytes(), SPEC)
    assert read.verifier is not None
    assert (read.verifier.prices == fitted().prices).all()
    worse = Verifier(SPEC, KERNEL_PRICES, None, 2.0, {**fitted().metrics, "mape": 1.0})
    assert model.with_verifier(worse).verifier is None


def test_retraining_online_keeps_the_second_stage() -> None:
    model = fit(records(), SPEC, seed=0)
    graph = Graph("any", (), {}, (), (), {})
    with Store.memory() as store:
        learning = ModelLearning(graph, SimpleNamespace(spec=SPEC), store, Objective.LATENCY, 0)
        learning.save(model.with_verifier(fitted()), None, 0.0)
        learning.save(model, None, 1.0)
        stored = store.load_model(SPEC.profile_id, FEATURE_VERSION)
    assert stored is not None
    kept = CostModel.from_bytes(stored.blob, SPEC).verifier
    assert kept is not None
    assert (kept.prices == fitted().prices).all()


def test_a_larger_regret_than_the_formulas_outweighs_a_smaller_error() -> None:
    wins = {"mape": 0.1, "top1_regret": 0.02, "formula_top1_regret": 0.02}
    assert is_better(wins, {"mape": 0.2})
    assert not is_better(wins, {"mape": 0.1})
    assert not is_better({**wins, "formula_top1_regret": 0.0199}, {"mape": 0.2})
    model = fit(records(), SPEC, seed=0)
    rash = Verifier(SPEC, KERNEL_PRICES, None, 2.0, {**fitted().metrics, "top1_regret": 1.0})
    assert model.with_verifier(rash).verifier is None


def test_regrets_are_those_of_the_same_groups() -> None:
    """The first stage judges the same formula on the same folds."""
    metrics = fit(records(), SPEC, seed=0).metrics
    regret = fitted().metrics["formula_top1_regret"]
    assert regret > 0.0
    assert regret == pytest.approx(metrics["formula_top1_regret"], rel=1e-9)
    assert fitted().metrics["top1_regret"] < regret


@pytest.mark.parametrize("promised", [1.1, 1.3])
def test_the_formulas_first_choice_stays_unless_another_is_clearly_cheaper(promised: float) -> None:
    rng, kept = np.random.default_rng(3), 0
    for _ in range(200):
        cycles, formula = np.exp(rng.normal(0.0, 0.2, (2, 6)))
        first, chosen = int(np.argmin(formula)), cautious(cycles, formula, promised)
        stays = cycles[first] / cycles.min() <= promised
        kept += stays and first != int(np.argmin(cycles))
        assert np.argmin(chosen) == (first if stays else np.argmin(cycles))
        assert chosen.min() == pytest.approx(cycles.min(), rel=1e-12)
        others = np.arange(6) != first
        assert (chosen[others] == cycles[others]).all()
    assert 10 < kept < 180


def test_cycles_are_kept_where_choices_would_be_worse_than_the_formulas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = module._figures

    def rash(*arguments: Any) -> dict[str, float]:
        """Figures of a second stage that chooses badly wherever it may."""
        found = judged(*arguments)
        if np.isfinite(arguments[-1]):
            found["top1_regret"] = found["formula_top1_regret"] + 0.01
        return found

    monkeypatch.setattr(module, "_figures", rash)
    verifier = Verifier.fit(records(), SPEC, 0)
    assert verifier is not None
    assert verifier.metrics["top1_regret"] == verifier.metrics["formula_top1_regret"]
    assert verifier.metrics["mape"] == fitted().metrics["mape"]
    again, rng, left = Verifier.from_bytes(verifier.to_bytes(), SPEC), np.random.default_rng(4), 0
    schedules: dict[str, list[Candidate]] = {}
    for candidate in candidates():
        schedules.setdefault(candidate.group.key, []).append(candidate)
    for own in schedules.values():
        asked, formula = [c.schedule for c in own], rng.permutation(len(own)) + 1.0
        group, first = own[0].group, int(np.argmin(formula))
        assert np.argmin(again.cycles(group, asked, formula)) == first
        left += int(np.argmin(fitted().cycles(group, asked, formula))) != first
    assert left > 0, "choices that are allowed leave the formula's"


@pytest.mark.parametrize("least", PROMISES)
def test_held_out_groups_choose_what_another_schedule_must_promise(
    least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = module._figures

    def told(*arguments: Any) -> dict[str, float]:
        found = judged(*arguments)
        found["top1_regret"] = found["formula_top1_regret"] * (0.5 if arguments[-1] == least else 1)
        return found

    monkeypatch.setattr(module, "_figures", told)
    verifier = Verifier.fit(records(), SPEC, 0)
    assert verifier is not None and verifier.promised == least
    assert Verifier.from_bytes(verifier.to_bytes(), SPEC).promised == least


def test_second_stages_of_before_keep_their_promise() -> None:
    blob = fitted().to_bytes()
    promised = json.dumps(fitted().promised).encode()
    for chooses, wanted in ((b"true", 1.3), (b"false", np.inf)):
        size = int.from_bytes(blob[:8], "little")
        header = blob[8 : 8 + size].replace(b'"promised": ' + promised, b'"chooses": ' + chooses)
        old = len(header).to_bytes(8, "little") + header + blob[8 + size :]
        assert Verifier.from_bytes(old, SPEC).promised == wanted


def test_what_cannot_be_bound_stays_without_a_price() -> None:
    nothing = np.full(3, np.inf)
    assert np.isinf(cautious(nothing, np.array([3.0, 1.0, 2.0]), PROMISES[0])).all()
    found = cautious(np.array([5.0, np.inf]), np.array([2.0, 1.0]), PROMISES[0])
    assert found.tolist() == [5.0, np.inf]


def test_rankings_follow_the_second_stage_and_keep_the_formulas_choice() -> None:
    model = fit(records(), SPEC, seed=0).with_verifier(fitted())
    kept = 0
    for key, group in {c.group.key: c.group for c in candidates()}.items():
        ranked = Ranking(model, SPEC, Objective.LATENCY, 0).rank(group, QUICK)
        draft = Ranking(model.formula, SPEC, Objective.LATENCY, 0).rank(group, QUICK)
        asked = draft.schedules[: QUICK.verified]
        priced = fitted().cycles(group, asked)
        expected = cautious(priced, draft.values[0, : len(asked)], fitted().promised)
        order = np.argsort(expected, kind="stable")
        order = order[np.isfinite(expected[order])]
        assert ranked.schedules == tuple(asked[i] for i in order), key
        assert ranked.values[0] == pytest.approx(expected[order])
        assert (ranked.values[1] <= ranked.values[0]).all()
        kept += len(order) > 0 and ranked.schedules[0] == asked[0] and priced.min() < priced[0]
    assert kept > 0


def test_drafts_are_ranked_by_the_formula() -> None:
    model = fit(records(), SPEC, seed=0)
    assert model.formula.kind == "formula"
    assert (model.formula.unit_costs == model.unit_costs).all()
    assert model.formula.verifier is None
