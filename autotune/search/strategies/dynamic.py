"""Dynamic programming over a linearisation: the best cut of a topological order into groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.group import is_connected
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.search.problem import FusionProblem

_HOPELESS = 1.3
"""A run dearer than its best cut by this factor is unlikely to pay with more operators in it."""
_PATIENCE = 2
"""Hopeless runs from one operator on, after which longer ones are not looked at."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """The cheapest cut of the operators from one position to another: its cost and first run."""

    cost: float
    end: int


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The best groups that are contiguous in one of two orders, at most ``longest`` operators.

    A contiguous run of a topological order is convex, and runs one after the other form no cycle.
    """

    longest: int = 10
    name: str = "dynamic"

    def propose(
        self, problem: FusionProblem, seeds: Sequence[Partition], trials: int, seed: int
    ) -> Partition:
        """See ``Strategy``."""
        best, best_cost = seeds[0], problem.cost(seeds[0])
        for order in _orders(problem.graph):
            partition = self._cut(problem, order)
            cost = None if partition is None else problem.cost(partition)
            if partition is None or cost is None:
                continue
            problem.tried(self.name, cost)
            if best_cost is None or cost < best_cost:
                best, best_cost = partition, cost
        return best

    def _cut(self, problem: FusionProblem, order: Names) -> Partition | None:
        """The cheapest cut of the whole order, from its end backwards: ``cuts[i][j]`` is that of
        operators i..j, known for all runs that start later."""
        cuts: list[dict[int, _Cut]] = [{} for _ in range(len(order) + 1)]
        for start in reversed(range(len(order))):
            problem.progress("fuse", len(order) - start, len(order))
            runs = self._runs(problem, order, start, cuts)
            _extend(cuts, start, runs, len(order))
        return _traced(problem.graph, order, cuts)

    def _runs(
        self, problem: FusionProblem, order: Names, start: int, cuts: list[dict[int, _Cut]]
    ) -> dict[int, float]:
        """Cost of the runs from ``start`` on, by their end; hopeless ones end the search."""
        runs: dict[int, float] = {}
        hopeless = 0
        for end in range(start + 1, min(start + self.longest, len(order)) + 1):
            run = order[start:end]
            if len(run) > 1 and not is_connected(problem.graph, set(run)):
                continue
            cost = problem.group_cost(_in_graph_order(problem, run))
            split = min(
                (runs[m] + cuts[m][end].cost for m in runs if end in cuts[m]), default=None
            )
            if cost is not None:
                runs[end] = cost
            if split is None:
                continue
            hopeless = hopeless + 1 if cost is None or cost > _HOPELESS * split else 0
            if hopeless == _PATIENCE:
                break
        return runs


def _extend(
    cuts: list[dict[int, _Cut]], start: int, runs: dict[int, float], length: int
) -> None:
    """Enter the cheapest cuts from ``start`` to every later position."""
    for end in range(start + 1, length + 1):
        options = [
            _Cut(cost if middle == end else cost + cuts[middle][end].cost, middle)
            for middle, cost in runs.items()
            if middle == end or end in cuts[middle]
        ]
        if options:
            cuts[start][end] = min(options, key=lambda cut: cut.cost)


def _traced(graph: Graph, order: Names, cuts: list[dict[int, _Cut]]) -> Partition | None:
    groups = []
    start = 0
    while start < len(order):
        cut = cuts[start].get(len(order))
        if cut is None:
            return None
        groups.append(order[start : cut.end])
        start = cut.end
    return Partition.of(graph, groups)


def _in_graph_order(problem: FusionProblem, names: Names) -> Names:
    return tuple(sorted(names, key=problem.position.__getitem__))


def _orders(graph: Graph) -> tuple[Names, ...]:
    """The graph's own order, and the one that finishes a branch before it starts the next."""
    given = tuple(op.name for op in graph.ops)
    deep = _depth_first(graph)
    return (given,) if deep == given else (given, deep)


def _depth_first(graph: Graph) -> Names:
    """Postorder from the outputs backwards: producers stand right before the first reader."""
    done: dict[str, None] = {}
    outputs = [graph.producer[x] for x in graph.outputs if x in graph.producer]
    pending = [*reversed(graph.ops), *reversed(outputs)]
    while pending:
        op = pending[-1]
        producers = [graph.producer[x] for x in dict.fromkeys(op.inputs) if x in graph.producer]
        missing = [producer for producer in producers if producer.name not in done]
        if missing and op.name not in done:
            pending.extend(missing)
            continue
        done[pending.pop().name] = None
    return tuple(done)
