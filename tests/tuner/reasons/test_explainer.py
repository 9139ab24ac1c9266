"""Reasons of plans: bytes follow from shapes, rejected fusions are illegal or dearer, margins are costs."""

from __future__ import annotations

import math
from functools import cache

import pytest

from autotune.cost_model.predictor import Predictor
from autotune.cost_model.shipped import shipped_model
from autotune.fusion.greedy import LARGEST, greedy, unfused
from autotune.fusion.group import Group, is_convex
from autotune.fusion.partition import Partition
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.schedule.schedule import Schedule
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.legality import legal_nests
from autotune.tuner.reasons.explainer import PlanExplainer
from autotune.tuner.reasons.group_reasons import GroupReasons
from autotune.tuner.reasons.obstacle import Constraint, obstacle
from autotune.tuner.reasons.on_chip_tensors import kept_tensors
from autotune.tuner.schedules import GroupCosts
from tests.tuner.search_case import EDGE, chain, residual

MODEL = shipped_model(EDGE.spec)
assert MODEL is not None
LEGAL = {Constraint.HALO, Constraint.ARRAY_USE, Constraint.TRAFFIC, Constraint.NO_GAIN,
         Constraint.UNCERTAIN, Constraint.MISSED}  # fmt: skip


def plan_of(partition: Partition, costs: GroupCosts) -> GraphPlan:
    graph, rows = partition.graph, []
    for names in partition.groups:
        group = Group.from_graph(graph, names)
        best = costs.best(group, 1)
        schedule: Schedule | None = best[0].schedule if best else None
        cycles = best[0].predicted_cycles if best else 0.0
        rows.append(PlannedGroup(names, group.outputs, schedule, cycles, None, None, None))
    return GraphPlan(graph.name, graph.fingerprint, tuple(rows))


@cache
def explained(rule: str) -> tuple[Graph, GraphPlan, GroupCosts, tuple[GroupReasons, ...]]:
    """A residual network by a partition of rule, and the reasons of its groups."""
    graph, costs = residual(), GroupCosts(MODEL, EDGE.spec)
    partition = unfused(graph) if rule == "unfused" else greedy(
        graph, lambda names: costs.legal(Group.from_graph(graph, names))
    )  # fmt: skip
    plan = plan_of(partition, costs)
    return graph, plan, costs, PlanExplainer(graph, plan, costs).reasons(range(len(plan.groups)))


def crossing_bytes(graph: Graph, names: tuple[str, ...]) -> int:
    """Bytes that operators read and write as one program, each tensor whole, by the graph's shapes."""
    ops = [graph.named[name] for name in names]
    made = {op.output for op in ops}
    read = {x for op in ops for x in op.inputs} - made
    written = {
        x for x in made
        if x in graph.outputs or any(user.name not in names for user in graph.consumers[x])
    }  # fmt: skip
    return sum(4 * math.prod(graph.shape(x)) for x in read | written)


@pytest.mark.parametrize("rule", ["unfused", "greedy"])
def test_bytes_kept_on_chip_follow_from_shapes(rule: str) -> None:
    graph, plan, _, reasons = explained(rule)
    for planned, why in zip(plan.groups, reasons, strict=True):
        if any(graph.named[x].kind is OpKind.RESHAPE for x in planned.operators):
            continue  # views cross nothing by themselves
        apart = sum(crossing_bytes(graph, (name,)) for name in planned.operators)
        saved = apart - crossing_bytes(graph, planned.operators)
        assert sum(kept.saved_bytes for kept in why.kept) == saved, planned.operators


def test_a_view_inside_a_group_crosses_nothing() -> None:
    b = GraphBuilder("view")
    x = b.add(OpKind.RELU, b.input("x", (8, 8)))
    y = b.add(OpKind.TANH, b.add(OpKind.RESHAPE, x, shape=(64,)))
    graph = b.build([y])
    (kept,) = kept_tensors(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert (kept.apart, kept.fused, kept.saved_bytes) == (2, 0, 2 * 256)


@pytest.mark.parametrize("rule", ["unfused", "greedy"])
def test_rejected_fusions_are_illegal_or_dearer_by_the_model(rule: str) -> None:
    graph, plan, costs, reasons = explained(rule)
    seen = {fusion.groups: fusion for why in reasons for fusion in why.rejected}
    assert seen
    for places, fusion in seen.items():
        names = tuple(name for i in places for name in plan.groups[i].operators)
        assert (fusion.constraint in LEGAL) == (fusion.comparison is not None)
        if fusion.comparison is None:
            is_one = is_convex(graph, set(names)) and len(names) <= LARGEST
            assert not is_one or legal_nests(Group.from_graph(graph, names), EDGE.spec) is None
            continue
        joint = costs.cost(Group.from_graph(graph, names))
        parts = [costs.cost(plan.groups[i].group(graph)) for i in places]
        assert joint is not None and None not in parts
        gain = sum(part for part in parts if part is not None) - joint
        assert fusion.comparison.saved_cycles == pytest.approx(gain)
        if fusion.constraint not in (Constraint.MISSED, Constraint.UNCERTAIN):
            assert gain < 0
        elif fusion.constraint is Constraint.MISSED:
            assert gain > fusion.comparison.noise_cycles


def test_every_pair_of_neighbours_is_judged_once_at_each_end() -> None:
    graph, plan, _, reasons = explained("greedy")
    home = {name: i for i, g in enumerate(plan.groups) for name in g.operators}
    views = {i for i, g in enumerate(plan.groups) if g.schedule is None}
    pairs = {
        (home[op.name], home[user.name])
        for op in graph.ops
        for user in graph.consumers[op.output]
        if home[op.name] != home[user.name] and not {home[op.name], home[user.name]} & views
    }
    for first, second in pairs:
        for end in (first, second):
            judged = [fusion.groups for fusion in reasons[end].rejected]
            assert judged.count((first, second)) == 1


def test_groups_between_two_neighbours_are_judged_with_them() -> None:
    b = GraphBuilder("diamond")
    x = b.add(OpKind.RELU, b.input("x", (8, 8)))
    graph = b.build([b.add(OpKind.ADD, x, b.add(OpKind.TANH, x))])
    costs = GroupCosts(MODEL, EDGE.spec)
    plan = plan_of(unfused(graph), costs)
    first, *_ = PlanExplainer(graph, plan, costs).reasons([0])
    judged = {fusion.groups: fusion.constraint for fusion in first.rejected}
    assert judged[0, 2] is Constraint.ORDER
    assert judged[0, 1, 2] in LEGAL


def test_fusing_is_compared_with_the_operators_apart() -> None:
    graph, plan, costs, reasons = explained("greedy")
    for planned, why in zip(plan.groups, reasons, strict=True):
        if why.apart is None:
            assert len(planned.operators) == 1
            continue
        apart = [costs.cost(Group.from_graph(graph, (name,))) for name in planned.operators]
        assert why.apart.before.cycles == pytest.approx(sum(x or 0 for x in apart))
        assert why.apart.after.cycles == pytest.approx(planned.predicted_cycles)
        assert not why.apart.is_measured


def test_runners_up_are_behind_a_plan_of_best_schedules() -> None:
    _, plan, _, reasons = explained("greedy")
    for planned, why in zip(plan.groups, reasons, strict=True):
        if why.other_schedule is not None:
            assert why.other_schedule.schedule != planned.schedule
            assert why.other_schedule.comparison.saved_cycles >= 0


def test_the_cost_of_a_group_is_the_predictors() -> None:
    graph, plan, costs, _ = explained("greedy")
    explainer = PlanExplainer(graph, plan, costs)
    assert MODEL is not None
    predictor = Predictor(MODEL)
    for i, planned in enumerate(plan.groups):
        told = explainer.cost(i)
        if planned.schedule is None:
            assert told is None
            continue
        assert told is not None
        asked = predictor.explain(planned.group(graph), planned.schedule)
        assert told.reasons == asked.reasons


def test_obstacles_name_the_constraint_with_its_figures() -> None:
    b = GraphBuilder("diamond")
    x = b.add(OpKind.RELU, b.input("x", (8, 8)))
    y = b.add(OpKind.TANH, x)
    diamond = b.build([b.add(OpKind.ADD, x, y)])
    relu, tanh, add = (op.name for op in diamond.ops)
    order = obstacle(diamond, (relu, add), EDGE.spec)
    assert order is not None and order.constraint is Constraint.ORDER and tanh in order.reason
    assert obstacle(diamond, (relu, tanh, add), EDGE.spec) is None
    long = chain(LARGEST + 1)
    size = obstacle(long, tuple(op.name for op in long.ops), EDGE.spec)
    assert size is not None and size.constraint is Constraint.SIZE
    b = GraphBuilder("wide")
    wide = b.build([b.add(OpKind.SOFTMAX, b.input("x", (4, 1 << 20)), axis=1)])
    full = obstacle(wide, (wide.ops[0].name,), EDGE.spec)
    assert full is not None and full.constraint is Constraint.SCRATCHPAD
    assert f"{EDGE.spec.tile_elements * 4:,}" in full.reason
