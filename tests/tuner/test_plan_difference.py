"""Differences of plans: equal plans have none, regions hold the same operators, sides add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.legality import legal_nests
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan
from autotune.tuner.plan_difference import ChangeKind, compare_plans, field_changes
from tests.tuner.search_case import EDGE, chain, residual


def plan_of(partition: Partition, seed: int = 0) -> Plan:
    """A plan with drawn costs; schedules are by group, so that equal groups are equal."""
    rng, graph, rows = np.random.default_rng(seed), partition.graph, []
    for names in partition.groups:
        group = Group.from_graph(graph, names)
        schedule = None if group.is_view else Schedule((NestSchedule((1, 1), (0, 1), ()),))
        cycles = 0 if group.is_view else int(rng.integers(100, 1000))
        rows.append(PlannedGroup(names, group.outputs, schedule, cycles, cycles, cycles, cycles))
    one = GraphPlan(graph.name, graph.fingerprint, tuple(rows))
    return Plan((one,), None, "edge", EDGE.spec.profile_id, Objective.LATENCY)


GRAPH = residual()
APART, FUSED = (
    plan_of(unfused(GRAPH)),
    plan_of(greedy(GRAPH, lambda n: legal_nests(Group.from_graph(GRAPH, n), EDGE.spec) is not None)),
)  # fmt: skip


def test_a_plan_equals_itself() -> None:
    found = compare_plans(FUSED, FUSED)
    assert not found.changes and found.same == len(FUSED.groups)


@pytest.mark.parametrize(("first", "second"), [(APART, FUSED), (FUSED, APART)])
def test_changes_and_equal_groups_cover_both_plans_once(first: Plan, second: Plan) -> None:
    found = compare_plans(first, second)
    for plan, name in ((first, "first"), (second, "second")):
        sides = [getattr(change, name) for change in found.changes]
        numbers = [number for side in sides for number in side.numbers]
        assert len(numbers) == len(set(numbers)) == len(plan.groups) - found.same
        for side in sides:
            assert side.groups == tuple(plan.groups[i] for i in side.numbers)
    for change in found.changes:
        assert sorted(change.first.operators) == sorted(change.second.operators)
    gain = sum(c.first.measured_cycles - c.second.measured_cycles for c in found.changes)
    equal = {g.operators for g in first.groups} & {g.operators for g in second.groups}
    outside = [
        sum(g.measured_cycles or 0 for g in plan.groups if g.operators in equal)
        for plan in (first, second)
    ]
    assert first.measured_cycles is not None and second.measured_cycles is not None
    assert gain == first.measured_cycles - second.measured_cycles - (outside[0] - outside[1])


def test_another_schedule_is_told_by_its_fields() -> None:
    graph = FUSED.graphs[0]
    other = Schedule((NestSchedule((2, 1), (1, 0), (), cores=2),))
    changed = replace(graph.groups[0], schedule=other)
    second = replace(FUSED, graphs=(replace(graph, groups=(changed, *graph.groups[1:])),))
    (change,) = compare_plans(FUSED, second).changes
    assert change.kind is ChangeKind.SCHEDULE
    assert [(x.field, x.first, x.second) for x in change.schedule] == [
        ("tile", "1×1", "2×1"), ("order", "01", "10"), ("cores", "1", "2"),
    ]  # fmt: skip
    assert field_changes(other, other) == ()


def test_plans_of_other_networks_and_machines_are_refused() -> None:
    with pytest.raises(InputError, match=r"two networks: residual .* and chain"):
        compare_plans(FUSED, plan_of(unfused(chain())))
    with pytest.raises(InputError, match=r"two machines: edge .* and mobile"):
        compare_plans(FUSED, replace(FUSED, target="mobile", profile_id="other"))
