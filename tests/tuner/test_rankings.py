"""Rankings of schedules that searches of one network share."""

from __future__ import annotations

import pytest

from autotune.cost_model.shipped import shipped_model
from autotune.fusion.group import layer
from autotune.tuner.bulk import Job, rank_all
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import Ranked, Ranking
from autotune.tuner.rankings import Rankings
from autotune.tuner.schedules import GroupCosts
from tests.tuner.search_case import EDGE


def test_a_group_is_ranked_once_for_each_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches for several sums share rankings too: the order of one objective is not that of another."""
    ranked: list[int] = []

    def counting(ranking: Ranking, jobs: list[Job], workers: object) -> list[Ranked]:
        ranked.append(len(jobs))
        assert workers == 1
        return rank_all(ranking, jobs, 1)

    monkeypatch.setattr("autotune.tuner.schedules.rank_all", counting)
    model = shipped_model(EDGE.spec)
    assert model is not None
    group, shared = layer("matmul", (64, 128), (128, 96)), Rankings()
    best = {}
    for objective in (Objective.LATENCY, Objective.ENERGY, Objective.LATENCY):
        alone, first = (
            GroupCosts(model, EDGE.spec, objective, rankings=given).best(group)
            for given in (None, shared)
        )
        assert [one.schedule for one in first] == [one.schedule for one in alone]
        best[objective] = first
    assert best[Objective.LATENCY] != best[Objective.ENERGY]
    assert ranked == [1, 1, 1, 1, 1, 0]
