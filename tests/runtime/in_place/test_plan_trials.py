"""Plans of a study are read again; those that another version wrote are left out."""

from __future__ import annotations

import json

from autotune.cost_model.model import CostModel
from autotune.runtime.in_place.plan_trials import SCHEDULES, PlanTrials
from autotune.runtime.variants.variants import Groups
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.schedules import GroupCosts
from tests.tuner.search_case import residual


def test_a_plan_of_unreadable_schedules_is_left_out() -> None:
    spec = target("cpu:1").spec
    graph = residual(blocks=1, size=28)
    plan = heuristic_choices(graph, spec)
    problem = FusionProblem(graph, GroupCosts(CostModel.typical(spec), spec))
    trials = PlanTrials.open(PlanStudy.open(problem, "stand-in", "latency", None), "model", 1e6)
    first = trials.add(plan, 0.5, 0)
    assert trials.best_plans(Groups(graph), 1) == [plan]
    rows = json.loads(trials.study.study.get_trials()[first].user_attrs[SCHEDULES])
    number, _ = trials.begin(plan, None, 0)
    text = json.dumps([[where, "[[7]]"] for where, _ in rows])
    trials.study.storage.set_trial_user_attr(number, SCHEDULES, text)
    trials.end(number, [0.1])
    assert trials.best_plans(Groups(graph), 1) == [plan], "the faster one cannot be read"
