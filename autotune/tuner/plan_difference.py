"""Differences of two plans of one network on one machine: groups, schedules and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from autotune.errors import InputError
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.plan import Plan


class ChangeKind(StrEnum):
    """What differs between two plans in some operators."""

    GROUPING = "grouping"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One decision of a schedule that differs, such as ``tile`` of the first nest."""

    field: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Side:
    """The groups of one plan that cover some operators: their numbers, and what they cost together.

    Measured figures are None where a group was not measured.
    """

    numbers: tuple[int, ...]
    groups: tuple[PlannedGroup, ...]

    @property
    def predicted_cycles(self) -> float:
        """Predicted cycles of all groups."""
        return sum(group.predicted_cycles for group in self.groups)

    @property
    def measured_cycles(self) -> int | None:
        """Measured cycles of all groups."""
        return _total([g.measured_cycles for g in self.groups if g.schedule is not None])

    @property
    def dram_bytes(self) -> int | None:
        """Measured DRAM bytes of all groups."""
        return _total([g.dram_bytes for g in self.groups if g.schedule is not None])

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators, group after group."""
        return tuple(name for group in self.groups for name in group.operators)


@dataclass(frozen=True, slots=True)
class Change:
    """Operators that two plans group or schedule in different ways: the least sets of groups that agree
    on their operators. ``schedule`` lists the decisions that differ where the group is the same."""

    kind: ChangeKind
    first: Side
    second: Side
    schedule: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """Two plans of one network, and their changes in running order of the first; ``same`` groups are equal
    in both."""

    first: Plan
    second: Plan
    changes: tuple[Change, ...]
    same: int


def compare_plans(first: Plan, second: Plan) -> PlanDifference:
    """Compare two plans. Raises ``InputError`` for plans of different networks or machines."""
    _check_alike(first, second)
    partners = {graph.fingerprint: graph for graph in second.graphs}
    offset = {id(one): at for one, at in zip(second.graphs, _offsets(second), strict=True)}
    changes: list[Change] = []
    same = 0
    for graph, start in zip(first.graphs, _offsets(first), strict=True):
        other = partners[graph.fingerprint]
        for left, right in _regions(graph, other, start, offset[id(other)]):
            change = _change(left, right)
            if change is None:
                same += 1
            else:
                changes.append(change)
    return PlanDifference(first, second, tuple(changes), same)


def _check_alike(first: Plan, second: Plan) -> None:
    if first.profile_id != second.profile_id:
        raise InputError(
            f"plans of two machines: {first.target} ({first.profile_id}) and {second.target} "
            f"({second.profile_id}); search both with one --target"
        )
    prints = [{graph.fingerprint for graph in plan.graphs} for plan in (first, second)]
    if prints[0] == prints[1]:
        return
    if first.accuracy is not second.accuracy and first.network == second.network:
        raise InputError(
            f"plans of {first.network} by accuracy {first.accuracy.value} and {second.accuracy.value}: their "
            "graphs differ; search both with one --accuracy"
        )
    if first.macs_per_byte != second.macs_per_byte and first.network == second.network:
        raise InputError(
            f"plans of {first.network} with forms of convolutions for {first.macs_per_byte} and {second.macs_per_byte} "
            "multiply-adds a byte: their graphs differ; compare their measured times, 'autotune explain' tells each"
        )
    raise InputError(
        f"plans of two networks: {first.network} ({first.graphs[0].fingerprint[:12]}) and "
        f"{second.network} ({second.graphs[0].fingerprint[:12]}); give plans of one network"
    )


def _offsets(plan: Plan) -> list[int]:
    """Return the number of each graph's first group among those of all graphs."""
    starts = [0]
    for graph in plan.graphs[:-1]:
        starts.append(starts[-1] + len(graph.groups))
    return starts


def _regions(
    first: GraphPlan, second: GraphPlan, first_at: int, second_at: int
) -> Iterator[tuple[Side, Side]]:
    """Yield the least sets of groups of both plans that hold the same operators."""
    homes = [_homes(plan) for plan in (first, second)]
    seen: set[int] = set()
    for start in range(len(first.groups)):
        if start in seen:
            continue
        left, right = {start}, set[int]()
        while True:
            reached = {homes[1][x] for i in left for x in first.groups[i].operators}
            back = {homes[0][x] for i in reached for x in second.groups[i].operators}
            if reached == right and back == left:
                break
            left, right = back, reached
        seen |= left
        yield _side(first, sorted(left), first_at), _side(second, sorted(right), second_at)


def _homes(plan: GraphPlan) -> dict[str, int]:
    return {name: i for i, group in enumerate(plan.groups) for name in group.operators}


def _side(plan: GraphPlan, places: Sequence[int], start: int) -> Side:
    return Side(tuple(start + i for i in places), tuple(plan.groups[i] for i in places))


def _change(first: Side, second: Side) -> Change | None:
    if len(first.groups) > 1 or len(second.groups) > 1:
        return Change(ChangeKind.GROUPING, first, second)
    before, after = first.groups[0].schedule, second.groups[0].schedule
    if before == after:
        return None
    return Change(ChangeKind.SCHEDULE, first, second, field_changes(before, after))


def field_changes(first: Schedule | None, second: Schedule | None) -> tuple[FieldChange, ...]:
    """Return the decisions in which two schedules of a group differ, nest after nest."""
    if first is None or second is None or len(first.nests) != len(second.nests):
        return (FieldChange("nests", _count(first), _count(second)),)
    changes = []
    for number, (left, right) in enumerate(zip(first.nests, second.nests, strict=True)):
        where = "" if len(first.nests) == 1 else f"nest {number} "
        changes += [
            FieldChange(f"{where}{row.name}", _text(left, row.name), _text(right, row.name))
            for row in fields(NestSchedule)
            if getattr(left, row.name) != getattr(right, row.name)
        ]
    return tuple(changes)


def _text(nest: NestSchedule, name: str) -> str:
    value = getattr(nest, name)
    if name == "order":
        return "".join(map(str, value))
    return "×".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _count(schedule: Schedule | None) -> str:
    return "none" if schedule is None else str(len(schedule.nests))


def _total(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
