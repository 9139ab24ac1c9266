"""What hill climbing promises of the partitions that it proposes."""

from collections.abc import Iterable
from itertools import combinations

import pytest

from autotune.fusion.edges import edges
from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.tuner.partitioners.climbing import Climbing
from autotune.tuner.problem import FusionProblem
from tests.tuner.search_case import chain, residual


class Rule:
    """Prices that any test can work out: 10 per group and 1 per tensor that it touches, with no
    more than ``largest`` operators; pairs named ``bad`` cost 100 more."""

    def __init__(self, largest: int = 4, bad: tuple[str, ...] = ()) -> None:
        self.largest = largest
        self.bad = bad

    def legal(self, group: Group) -> bool:
        return len(group.ops) <= self.largest

    def prepare(self, groups: Iterable[Group]) -> None:
        assert all(group.ops for group in groups)

    def deepen(self, groups: Iterable[Group]) -> None:
        assert all(group.ops for group in groups)

    def cost(self, group: Group) -> float | None:
        if not self.legal(group):
            return None
        names = {op.name for op in group.ops}
        penalty = 100.0 if len(names.intersection(self.bad)) > 1 else 0.0
        return 10.0 + len(group.inputs) + len(group.outputs) + penalty


@pytest.mark.parametrize("partitioner", [Climbing()], ids=lambda s: s.name)
@pytest.mark.parametrize("graph", [residual(2), chain(1), chain(7)], ids=lambda g: g.name)
class TestContract:
    def test_it_proposes_a_partition_with_a_cost(self, partitioner: Climbing, graph: Graph) -> None:
        problem = FusionProblem(graph, Rule())
        partition = partitioner.propose(problem, [unfused(graph)])
        assert problem.cost(partition) is not None
        assert Partition.of(graph, partition.groups) == partition

    def test_equal_problems_give_equal_partitions(
        self, partitioner: Climbing, graph: Graph
    ) -> None:
        found = [
            partitioner.propose(FusionProblem(graph, Rule()), [unfused(graph)]) for _ in range(2)
        ]
        assert found[0] == found[1]

    def test_it_is_never_dearer_than_its_first_start(
        self, partitioner: Climbing, graph: Graph
    ) -> None:
        problem = FusionProblem(graph, Rule())
        partition = partitioner.propose(problem, [unfused(graph)])
        dearer = problem.cost(partition), problem.cost(unfused(graph))
        assert dearer[0] <= dearer[1]

    def test_trials_are_entered_with_their_running_best(
        self, partitioner: Climbing, graph: Graph
    ) -> None:
        problem = FusionProblem(graph, Rule())
        partitioner.propose(problem, [unfused(graph)])
        costs = [trial.cost for trial in problem.trials]
        assert [t.number for t in problem.trials] == list(range(len(costs)))
        assert [t.best for t in problem.trials] == [min(costs[: i + 1]) for i in range(len(costs))]


def cheapest(graph: Graph, rule: Rule) -> float:
    """The least cost of any partition, by trying every set of fused edges."""
    problem = FusionProblem(graph, rule)
    every = edges(graph)
    partitions = {
        Partition.from_edges(graph, fused)
        for count in range(len(every) + 1)
        for fused in combinations(every, count)
    }
    return min(cost for p in partitions if (cost := problem.cost(p)) is not None)


def test_climbing_reaches_the_best_partition_of_a_small_residual_graph() -> None:
    graph = residual(1)
    problem = FusionProblem(graph, Rule(5))
    found = Climbing().propose(problem, [unfused(graph)])
    assert problem.cost(found) == cheapest(graph, Rule(5))


def test_climbing_starts_from_the_cheapest_start_and_stays_when_nothing_gains() -> None:
    graph = chain(4)
    whole = Partition.from_edges(graph, edges(graph))
    problem = FusionProblem(graph, Rule(4))
    assert Climbing().propose(problem, [unfused(graph), whole]) == whole
    assert not problem.trials
