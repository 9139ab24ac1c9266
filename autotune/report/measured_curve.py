"""Curve of a search by its measurements: the best of the compared plans, had it stopped earlier."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.fusion.equivalence import EquivalenceClasses
from autotune.report.view import SearchCurve
from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec
from autotune.tuner.objective import Objective
from autotune.tuner.result import PlanResult, SearchResult
from autotune.tuner.schedules import measured_cost


class _PlanCost:
    """Cost of one plan by the best measurement so far of each of its groups."""

    def __init__(self, plan: PlanResult, classes: EquivalenceClasses) -> None:
        groups = [item.group for item in plan.groups if not item.group.is_view]
        self._places: dict[str, list[int]] = {}
        for place, group in enumerate(groups):
            for key in {classes.twin(group).key, classes.representative(group).key}:
                self._places.setdefault(key, []).append(place)
        self._costs = [math.inf] * len(groups)
        self._missing = len(groups)
        self._total = 0.0

    @property
    def total(self) -> float:
        """Cost of one run; infinite while a group was not measured."""
        return math.inf if self._missing else self._total

    def observe(self, key: str, cost: float) -> None:
        """Take in a measurement of the group with this key."""
        for place in self._places.get(key, ()):
            before = self._costs[place]
            if cost < before:
                self._costs[place] = cost
                self._missing -= before == math.inf
                self._total += cost - (0.0 if before == math.inf else before)


def measured_curves(result: SearchResult, spec: HardwareSpec) -> tuple[SearchCurve, ...]:
    """Return how the best measured plan fell with the measurements of the search, and how that of other strategies did in
    earlier searches of its study.

    Empty for a network of several graphs. Without the search's own where earlier ones had measured groups of every plan.
    Where whole runs choose, its plans are those of its trials.
    """
    if len(result.graphs) != 1:
        return ()
    known = result.graphs[0].curves
    if spec.timed and known:
        return tuple(SearchCurve(strategy, points) for strategy, points in known.items())
    own = _own_curve(result, spec)
    names = {tried.strategy for tried in result.graphs[0].history}
    others = (SearchCurve(x, points) for x, points in known.items() if x not in names)
    return (*own, *others)


def _own_curve(result: SearchResult, spec: HardwareSpec) -> tuple[SearchCurve, ...]:
    classes = EquivalenceClasses(spec.dram.burst_bytes)
    plans = [_PlanCost(plan, classes) for plan in result.plans.values()]
    points = _points(plans, result.records, result.plan.objective)
    strategies = dict.fromkeys(tried.strategy for tried in result.graphs[0].history)
    return (SearchCurve(" and ".join(strategies) or "search", points),) if points else ()


def _points(
    plans: Sequence[_PlanCost], records: Sequence[Record], objective: Objective
) -> tuple[tuple[int, float], ...]:
    """Return (measurements, least cost of a plan), a point for every fall and for the end."""
    points: list[tuple[int, float]] = []
    least = math.inf
    for number, record in enumerate(records, 1):
        if record.outcome is not Outcome.OK:
            continue
        for plan in plans:
            plan.observe(record.group_key, measured_cost(record, objective))
        now = min(plan.total for plan in plans)
        if now < least:
            least = now
            points.append((number, now))
    if points and points[-1][0] < len(records):
        points.append((len(records), least))
    return tuple(points)
