"""Dynamic programming over a linearisation: the best cut of a topological order into groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autotune.fusion.group import is_connected
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.tuner.problem import FusionProblem

_HOPELESS = 1.15
"""A run dearer than its best cut by this factor is unlikely to pay with more operators in it: no
longer run from the same start is looked at. On light_squeezenet and light_resnet50 that ranks a
quarter fewer groups than giving up after two runs dearer by 1.3; climbing ends at the same cost."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The best groups that are contiguous in one of two orders, at most ``longest`` operators.

    A contiguous run of a topological order is convex, and runs one after the other form no cycle.
    """

    longest: int = 8
    name: str = "dynamic"

    def propose(self, problem: FusionProblem, start: Sequence[Partition]) -> Partition:
        """Return the best cut, or the first of ``start`` where no cut is cheaper."""
        best, best_cost = start[0], problem.cost(start[0])
        orders = list(_orders(problem.graph))
        for number, order in enumerate(orders):
            partition = self._cut(problem, order, number, len(orders))
            cost = None if partition is None else problem.cost(partition)
            if partition is None or cost is None:
                continue
            problem.tried(self.name, cost)
            if best_cost is None or cost < best_cost:
                best, best_cost = partition, cost
        return best

    def _cut(
        self, problem: FusionProblem, order: Names, number: int, orders: int
    ) -> Partition | None:
        """Return the cheapest cut of the whole order into runs; the order is ``number`` of
        ``orders``."""
        runs = _Runs(problem, order)
        for length in range(1, self.longest + 1):
            runs.grow(length)
            problem.report("fuse", number * self.longest + length, orders * self.longest)
        reach: list[tuple[float, int] | None] = [(0.0, 0)]
        for end in range(1, len(order) + 1):
            options = [
                (before[0] + runs.cost[start, end], start)
                for start in range(max(0, end - self.longest), end)
                if (before := reach[start]) is not None and (start, end) in runs.cost
            ]
            reach.append(min(options, default=None))
        return _traced(problem.graph, order, reach)


@dataclass(slots=True)
class _Runs:
    """Costs of the runs of an order, by their start and end, shorter ones first.

    ``best`` is the cost of the best cut of a run, itself included; ``hopeless`` are
    the starts of runs that were much dearer than their best cut.
    """

    problem: FusionProblem
    order: Names
    cost: dict[tuple[int, int], float] = field(default_factory=dict)
    best: dict[tuple[int, int], float] = field(default_factory=dict)
    hopeless: set[int] = field(default_factory=set)

    def grow(self, length: int) -> None:
        """Look at all runs of one length that still have hope."""
        graph = self.problem.graph
        spans = [
            (start, start + length)
            for start in range(len(self.order) - length + 1)
            if start not in self.hopeless
        ]
        names = {
            span: self._names(*span)
            for span in spans
            if length == 1 or is_connected(graph, set(self.order[slice(*span)]))
        }
        self.problem.prepare(names.values())
        for start in range(len(self.order) - length + 1):
            self._enter(start, start + length, names.get((start, start + length)))

    def _names(self, start: int, end: int) -> Names:
        return tuple(sorted(self.order[start:end], key=self.problem.position.__getitem__))

    def _enter(self, start: int, end: int, names: Names | None) -> None:
        cost = None if names is None else self.problem.group_cost(names)
        split = min(
            (
                self.best[start, middle] + self.best[middle, end]
                for middle in range(start + 1, end)
                if (start, middle) in self.best and (middle, end) in self.best
            ),
            default=None,
        )
        if cost is not None:
            self.cost[start, end] = cost
        known = [value for value in (cost, split) if value is not None]
        if known:
            self.best[start, end] = min(known)
        if names is not None and split is not None and (cost is None or cost > _HOPELESS * split):
            self.hopeless.add(start)


def _traced(graph: Graph, order: Names, reach: list[tuple[float, int] | None]) -> Partition | None:
    groups = []
    end = len(order)
    while end > 0:
        entry = reach[end]
        if entry is None:
            return None
        groups.append(order[entry[1] : end])
        end = entry[1]
    return Partition.of(graph, groups)


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
