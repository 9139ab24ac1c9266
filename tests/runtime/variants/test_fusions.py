"""Cuts of groups: every way leaves groups that a plan may have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autotune.fusion.group import Group, is_connected
from autotune.fusion.partition import Partition
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.runtime.variants.fusions import cuts
from autotune.runtime.variants.variants import Change, Groups, Place, names_of
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import load_spec
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.tuner.search_case import chain

CPU = load_spec("cpu:1")


def readers() -> Graph:
    """Two readers of one result, and their difference."""
    b = GraphBuilder("readers")
    x = b.add(OpKind.RELU, b.input("x", (8, 32)))
    return b.build([b.add(OpKind.SUB, b.add(OpKind.TANH, x), b.add(OpKind.EXP, x))])


def scheduled(group: Group) -> Schedule | None:
    return heuristic_schedule(group, CPU)


@pytest.mark.parametrize(
    ("graph", "size", "expected"),
    [(chain(4), None, [1, 2, 3]), (readers(), None, [1, 2, 3]), (readers(), 3, [2])],
)
def test_both_halves_of_a_cut_hang_together(
    graph: Graph, size: int | None, expected: Sequence[int]
) -> None:
    groups = Groups(graph)
    order = tuple(op.name for op in graph.ops)
    group = groups.of(order[:size])
    plan = (Choice(group, scheduled(group)), *_alone(groups, order[len(group.ops) :]))
    found = tuple(cuts(groups, plan[0], scheduled))
    assert [len(variant.parts[0][0]) for variant in found] == expected
    for variant in found:
        changed = groups.changed(plan, [Change(Place(((0,),), (order[:size],), found), 0, variant)])
        assert all(is_connected(graph, set(names_of(one))) for one in changed)
        assert Partition.of(graph, map(names_of, changed))


def _alone(groups: Groups, names: Sequence[str]) -> tuple[Choice, ...]:
    return tuple(Choice(groups.of((name,)), scheduled(groups.of((name,)))) for name in names)
