"""Partitions by trying all of them: what exact partition is compared with."""

from collections.abc import Callable, Iterator

from autotune.errors import PlanError
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph


def partitions(graph: Graph) -> Iterator[Partition]:
    """Every partition of a small graph."""
    for groups in _splits([op.name for op in graph.ops]):
        try:
            yield Partition.of(graph, groups)
        except PlanError:  # groups that depend on each other in a circle, or do not hang together
            continue


def least(graph: Graph, cost: Callable[[Names], float | None]) -> float:
    """The least cost of a partition whose groups all have one."""
    totals = []
    for partition in partitions(graph):
        costs = [cost(names) for names in partition.groups]
        if None not in costs:
            totals.append(sum(costs))
    return min(totals)


def _splits(names: list[str]) -> Iterator[list[list[str]]]:
    if not names:
        yield []
        return
    last = names[-1]
    for split in _splits(names[:-1]):
        yield [*split, [last]]
        for i, group in enumerate(split):
            yield [*split[:i], [*group, last], *split[i + 1 :]]
