"""Hill climbing on a partition: merge neighbours, split a group, move an operator across a border."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from autotune.errors import PlanError
from autotune.fusion.edges import edges
from autotune.fusion.partition import Names, Partition
from autotune.fusion.quotient import Quotient
from autotune.graph.graph import Graph
from autotune.tuner.problem import FusionProblem

_LEAST_GAIN = 1e-6
"""Fraction of the plan's cost that a move has to gain."""


@dataclass(frozen=True, slots=True)
class Move:
    """Groups that go and groups of the same operators that come instead, with the gain in cost."""

    gone: tuple[Names, ...]
    come: tuple[Names, ...]
    gain: float


@dataclass(frozen=True, slots=True)
class Climbing:
    """Starts from the cheapest start; every round takes the gaining moves, largest gain first, as
    far as they do not touch each other, until no move gains."""

    rounds: int = 30
    name: str = "climbing"

    def propose(self, problem: FusionProblem, start: Sequence[Partition]) -> Partition:
        """Return the partition that no move improves; ``start`` are partitions to begin from, with costs."""
        costs = [(problem.cost(partition), partition) for partition in start]
        known = [(cost, partition) for cost, partition in costs if cost is not None]
        cost, partition = min(known, key=lambda pair: pair[0])
        for number in range(self.rounds):
            problem.report("climb", number, self.rounds)
            better = _climb(problem, partition, cost)
            if better is None:
                break
            cost, partition = better
            problem.tried(self.name, cost)
        problem.report("climb", self.rounds, self.rounds)
        return partition


def _climb(
    problem: FusionProblem, partition: Partition, cost: float
) -> tuple[float, Partition] | None:
    """The partition after one round of moves with its cost; None when no move gains."""
    gaining = sorted(
        (move for move in _moves(problem, partition) if move.gain > _LEAST_GAIN * cost),
        key=lambda move: -move.gain,
    )
    groups = set(partition.groups)
    gained = False
    for move in gaining:
        if not groups.issuperset(move.gone):
            continue
        changed = (groups - set(move.gone)) | set(move.come)
        if _acyclic(problem.graph, changed):
            groups, gained = changed, True
    if not gained:
        return None
    better = Partition.of(problem.graph, sorted(groups))
    new_cost = problem.cost(better)
    return None if new_cost is None or new_cost >= cost else (new_cost, better)


def _acyclic(graph: Graph, groups: set[Names]) -> bool:
    try:
        Quotient(graph, groups)
    except PlanError:
        return False
    return True


def _moves(problem: FusionProblem, partition: Partition) -> Iterator[Move]:
    """Every move on a partition whose new groups have a cost."""
    changes = {
        come: gone
        for gone, come in _changes(problem.graph, partition)
        if all(problem.may_try(names) for names in come)
    }
    problem.prepare(names for come in changes for names in come)
    for come, gone in changes.items():
        old, new = problem.total(gone), problem.total(come)
        if old is not None and new is not None:
            yield Move(gone, come, old - new)


def _changes(
    graph: Graph, partition: Partition
) -> Iterator[tuple[tuple[Names, ...], tuple[Names, ...]]]:
    """Groups that could go, and what could come instead; cycles are not looked for."""
    position = {op.name: i for i, op in enumerate(graph.ops)}
    home = partition.home
    readers: dict[int, set[int]] = {}
    sources: dict[int, set[int]] = {}

    def together(*groups: int) -> Names:
        names = (name for group in groups for name in partition.groups[group])
        return tuple(sorted(names, key=position.__getitem__))

    crossing = [edge for edge in edges(graph) if home[edge[0]] != home[edge[1]]]
    for producer, consumer in crossing:
        readers.setdefault(home[producer], set()).add(home[consumer])
        sources.setdefault(home[consumer], set()).add(home[producer])
    for names in partition.groups:
        for at in range(1, len(names)):
            yield (
                (names,),
                (*connected_parts(graph, names[:at]), *connected_parts(graph, names[at:])),
            )
    for first, found in readers.items():
        for second in found:
            gone = (partition.groups[first], partition.groups[second])
            yield gone, (together(first, second),)
    for around in (readers, sources):
        for middle, found in around.items():
            if 2 <= len(found) <= 4:
                members = (middle, *sorted(found))
                yield tuple(partition.groups[g] for g in members), (together(*members),)
    for edge in crossing:
        for moved, goal in (edge, edge[::-1]):
            old, new = home[moved], home[goal]
            if len(partition.groups[old]) == 1:
                continue
            rest = tuple(name for name in partition.groups[old] if name != moved)
            joined = tuple(sorted((*partition.groups[new], moved), key=position.__getitem__))
            gone = (partition.groups[old], partition.groups[new])
            yield gone, (*connected_parts(graph, rest), joined)


def connected_parts(graph: Graph, names: Names) -> tuple[Names, ...]:
    """Return the connected parts of a set of operators, each in the order of ``names``."""
    parts = nx.weakly_connected_components(graph.digraph.subgraph(names))
    return tuple(sorted(tuple(name for name in names if name in part) for part in parts))
