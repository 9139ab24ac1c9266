"""The proof of small graphs' best plans: equal to trying everything, and what search finds is near it."""

import numpy as np
import pytest

from autotune.cost_model.shipped import shipped_model
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.target import EmulatorTarget
from benchmarks.truth import Solved, machines, solve, truth_row
from benchmarks.truth_cpu import TimedSpace, TimedTruth, cpu_row
from benchmarks.truth_graphs import SMALL, drawn_graph
from benchmarks.truth_space import PlanSpace

ONE = Schedule((NestSchedule((1,), (0,), ()),))
TWO = Schedule((NestSchedule((2,), (0,), ()),))


def chain() -> Graph:
    b = GraphBuilder("chain")
    x = b.input("x", (3, 4))
    x = b.add(OpKind.MATMUL, x, b.constant(np.ones((4, 3), np.float32)), trans_a=0, trans_b=0)
    return b.build(outputs=[b.add(OpKind.SOFTMAX, x, axis=1)])


def least(group: Group, space: PlanSpace) -> int:
    """The least cycles of a group with every schedule measured."""
    target = EmulatorTarget(space.spec)
    mask = next(m for m, s in space.groups.items() if s.group == group)
    (table,) = space.groups[mask].tables
    programs = (lower(group, Schedule((table.row(row),)), space.spec) for row in range(len(table)))
    return min(target.time(program).cycles for program in programs)


@pytest.mark.slow
def test_the_proof_agrees_with_measuring_everything() -> None:
    graph, spec = chain(), machines()[1]
    space = PlanSpace(graph, spec)
    first, second = (op.name for op in graph.ops)
    partitions = [
        Partition.of(graph, names) for names in ([(first,), (second,)], [(first, second)])
    ]
    costs = [
        sum(least(plan.group(at), space) for at in range(len(plan.groups))) for plan in partitions
    ]
    assert space.optimum()[0] == min(costs)
    assert space.measured < space.size


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 5])
def test_search_finds_plans_near_the_proved_best(number: int) -> None:
    spec = machines()[1]
    model = shipped_model(spec)
    assert model is not None
    solved = solve(drawn_graph(0, number), spec, model)
    assert solved is not None
    assert solved.bound <= solved.best
    assert solved.regret <= 0.03


def test_graphs_are_drawn_again_and_are_small() -> None:
    first, again = (drawn_graph(3, 4) for _ in range(2))
    assert first.fingerprint == again.fingerprint
    assert all(3 <= len(drawn_graph(0, n).ops) <= SMALL.most_operators for n in range(20))


def test_a_row_has_median_and_worst() -> None:
    rows = [Solved(1000, 10, 100, 100, 150, 80.0), Solved(1000, 20, 100, 102, 200, 50.0)]
    cells = truth_row(machines()[0], rows)
    assert cells[1:] == (
        "2",
        "1,000",
        "1.50% (2.0%)",
        "50%",
        "1.00% (2.00%)",
        "75.0% (100%)",
        "62% (100%)",
    )


def test_plans_of_a_timed_space_cover_every_operator_once() -> None:
    graph = chain()
    first, second = (Group.from_graph(graph, [op.name]) for op in graph.ops)
    both = Group.from_graph(graph, [op.name for op in graph.ops])
    space = TimedSpace(
        graph,
        {1: first, 2: second, 3: both},
        {1: ((2.0, ONE),), 2: ((1.0, ONE), (1.1, TWO)), 3: ((2.9, ONE),)},
    )
    plans = [[(choice.group, choice.schedule) for choice in plan] for plan in space.plans()]
    assert plans == [[(both, ONE)], [(first, ONE), (second, ONE)], [(first, ONE), (second, TWO)]]


def test_the_row_of_this_cpu_tells_the_worst_graph() -> None:
    rows = [TimedTruth(200, 3, 1e-5, found, 1.1, 1.3, 1.0) for found in (1.0, 1.02, 0.99)]
    assert cpu_row("cpu:1", rows)[4] == "+0.0% (+2.0%)"
