"""A choice that nothing confirms does not rest on predictions that the model has no training for."""

from __future__ import annotations

from typing import cast

from autotune.cost_model.cost import Cost
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.runtime.online.planning import ModelLearning
from autotune.schedule.schedule import Schedule
from autotune.store.store import Store
from autotune.tuner.caution import CautiousCosts
from autotune.tuner.fusion import search
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions
from autotune.tuner.problem import FusionProblem
from autotune.tuner.schedules import GroupCosts
from tests.tuner.search_case import EDGE, residual
from tests.tuner.test_algorithms import Untrained

GRAPH = residual(1)


class Doubtful(Untrained):
    """Knows single operators; fused ones may cost eight times what it says."""

    metrics: dict[str, float] = {}  # noqa: RUF012 - a stand-in

    def caution(self, group: Group, schedule: Schedule) -> float:
        return 8.0 if len(group.ops) > 1 else 1.0


def doubtful() -> CostModel:
    return cast(CostModel, Doubtful(EDGE.spec))


def costs() -> GroupCosts:
    return GroupCosts(doubtful(), EDGE.spec)


def whole() -> Partition:
    return Partition.of(GRAPH, [[op.name for op in GRAPH.ops]])


def test_a_novel_group_costs_its_worst_until_it_is_measured() -> None:
    own, names = costs(), whole().groups[0]
    plain, cautious = FusionProblem(GRAPH, own), FusionProblem(GRAPH, CautiousCosts(own))
    assert cautious.group_cost(names) == 8.0 * (plain.group_cost(names) or 0.0)
    single = (GRAPH.ops[0].name,)
    assert cautious.group_cost(single) == plain.group_cost(single)


def test_a_search_that_measures_nothing_leaves_what_is_novel_apart() -> None:
    options = SearchOptions(trials=10, measure=0, workers=1)
    sure = search(GRAPH, EDGE, cast(CostModel, Untrained(EDGE.spec)), options)
    doubting = search(GRAPH, EDGE, doubtful(), options)
    assert any(len(group.group.ops) > 1 for group in sure.found.groups)
    assert all(len(group.group.ops) == 1 for group in doubting.found.groups)


def test_a_session_prices_novel_groups_at_their_worst() -> None:
    class Priced:
        def __init__(self, novelty: float) -> None:
            self.novelty = novelty

        def total(self, group: Group, schedule: Schedule) -> Cost:
            return Cost(schedule, 100.0, 50.0, 300.0, 1.0, 1.0, self.novelty)

    learning = ModelLearning(GRAPH, EDGE, cast(Store, None), Objective.LATENCY, 0, 0, None)
    group = Group.from_graph(GRAPH, [GRAPH.ops[0].name])
    assert learning.price(cast(CostModel, Priced(1.0)), group, Schedule(())) == 300.0
    assert learning.price(cast(CostModel, Priced(0.5)), group, Schedule(())) == 100.0
