"""Dynamic programming over a linearisation: the best cut of a topological order into groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.group import is_connected
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.search.problem import FusionProblem


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Exact for groups that are contiguous in one of two orders, at most ``longest`` operators.

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
        """The cheapest cut: ``reach[i]`` is the least cost of the first ``i`` operators and the
        start of their last run."""
        reach: list[tuple[float, int] | None] = [None] * (len(order) + 1)
        reach[0] = (0.0, 0)
        for start in range(len(order)):
            problem.progress("fuse", start, len(order))
            before = reach[start]
            if before is None:
                continue
            for end in range(start + 1, min(start + self.longest, len(order)) + 1):
                run = order[start:end]
                if len(run) > 1 and not is_connected(problem.graph, set(run)):
                    continue
                cost = problem.group_cost(_in_graph_order(problem.graph, run))
                if cost is None:
                    continue
                known = reach[end]
                if known is None or before[0] + cost < known[0]:
                    reach[end] = (before[0] + cost, start)
        return _traced(problem.graph, order, reach)


def _traced(
    graph: Graph, order: Names, reach: list[tuple[float, int] | None]
) -> Partition | None:
    groups = []
    end = len(order)
    while end > 0:
        entry = reach[end]
        if entry is None:
            return None
        groups.append(order[entry[1] : end])
        end = entry[1]
    return Partition.of(graph, groups)


def _in_graph_order(graph: Graph, names: Names) -> Names:
    wanted = set(names)
    return tuple(op.name for op in graph.ops if op.name in wanted)


def _orders(graph: Graph) -> tuple[Names, ...]:
    """The graph's own order, and the one that finishes a branch before it starts the next."""
    given = tuple(op.name for op in graph.ops)
    deep = _depth_first(graph)
    return (given,) if deep == given else (given, deep)


def _depth_first(graph: Graph) -> Names:
    """Reverse postorder from the outputs backwards: producers stand right before their reader."""
    done: dict[str, None] = {}
    stack = [op.name for op in reversed(graph.ops)]
    stack = [graph.producer[x].name for x in graph.outputs if x in graph.producer] + stack[::-1]
    by_name = {op.name: op for op in graph.ops}
    pending = stack[::-1]
    while pending:
        name = pending[-1]
        if name in done:
            pending.pop()
            continue
        producers = [
            graph.producer[x].name
            for x in by_name[name].inputs
            if x in graph.producer and graph.producer[x].name not in done
        ]
        if producers:
            pending.extend(dict.fromkeys(producers))
        else:
            done[name] = None
            pending.pop()
    return tuple(done)
