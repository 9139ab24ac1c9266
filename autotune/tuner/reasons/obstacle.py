"""Obstacles: the constraint that keeps operators from becoming one program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.fusion.greedy import LARGEST
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.partition import Names
from autotune.graph.graph import Graph
from autotune.targets.spec import HardwareSpec
from autotune.tuner.legality import nests_that_fit


class Constraint(StrEnum):
    """Why a fusion was rejected: the first six forbid it, the others make it dearer."""

    ORDER = "order"
    """Another group needs the one's result and feeds the other."""
    SIZE = "size"
    LEGALITY = "legality"
    """No program computes it tile by tile."""
    SCRATCHPAD = "scratchpad"
    ACCUMULATORS = "accumulators"
    ADDRESSES = "addresses"
    HALO = "halo"
    ARRAY_USE = "array use"
    TRAFFIC = "traffic"
    NO_GAIN = "no gain"
    UNCERTAIN = "within the noise"
    MISSED = "gain predicted"
    """The model now predicts a gain: the search did not try it, or measured otherwise."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A constraint that failed, with its figures in one sentence."""

    constraint: Constraint
    reason: str


def obstacle(graph: Graph, names: Names, spec: HardwareSpec) -> Obstacle | None:
    """Return what forbids operators to be one program on a machine; None if nothing does."""
    between = _detour(graph, frozenset(names))
    if between is not None:
        return Obstacle(
            Constraint.ORDER,
            f"{between} reads from it and feeds it again: one program would wait for itself",
        )
    if len(names) > LARGEST:
        return Obstacle(Constraint.SIZE, f"{len(names)} operators; a group has at most {LARGEST}")
    nests = nests_that_fit(Group.from_graph(graph, names), spec)
    if not isinstance(nests, Rejection):
        return None
    for constraint in (Constraint.SCRATCHPAD, Constraint.ACCUMULATORS, Constraint.ADDRESSES):
        if nests.reason.startswith(f"{constraint}: "):
            return Obstacle(constraint, nests.reason.removeprefix(f"{constraint}: "))
    return Obstacle(Constraint.LEGALITY, nests.reason)


def _detour(graph: Graph, names: frozenset[str]) -> str | None:
    """Return an operator outside through which a path leaves the set and comes back; None without one."""
    last = max(graph.position[name] for name in names)
    seen: set[str] = set()
    for start in sorted(names, key=graph.position.__getitem__):
        waiting = [(name, name) for name in graph.successors(start) if name not in names]
        while waiting:
            name, first = waiting.pop()
            if name in seen or graph.position[name] > last:
                continue
            seen.add(name)
            for successor in graph.successors(name):
                if successor in names:
                    return first
                waiting.append((successor, first))
    return None
