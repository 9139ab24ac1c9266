"""Splits a group that cannot be built into its operators, each with a schedule that can be built."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice


def why_unbuildable(choice: Choice, target: Target) -> str | None:
    """Return the reason in one line why a target cannot build a group; None if it can."""
    from autotune.measure.attempt import unbuildable

    return None if choice.schedule is None else unbuildable(target, choice.group, choice.schedule)


def operators_alone(graph: Graph, choice: Choice, target: Target) -> tuple[Choice, ...]:
    """Return each operator of a group as a group, by the first schedule that can be built.

    Raises ``ScheduleError`` for an operator that has no legal schedule alone.
    """
    return tuple(_alone(graph, op.name, target) for op in choice.group.ops)


def _alone(graph: Graph, name: str, target: Target) -> Choice:
    """One operator as a group, by the first schedule that can be built.

    Raises ``ScheduleError`` for an operator that has no legal schedule alone."""
    from autotune.tuner.heuristic_plan import no_schedule_error

    group = Group.from_graph(graph, (name,))
    if group.is_view:
        return Choice(group, None)
    first = None
    for choice in _choices(group, target):
        first = choice if first is None else first
        assert choice.schedule is not None, "only views have none"
        if why_unbuildable(choice, target) is None:
            return choice
    if first is None:
        raise no_schedule_error(graph, group, target.spec)
    return first  # building it again raises the defect itself


def _choices(group: Group, target: Target) -> Iterator[Choice]:
    """Schedules of one operator: the heuristic one, then the other rule's."""
    from autotune.schedule.heuristic import default_schedule
    from autotune.tuner.heuristic_plan import heuristic_schedule
    from autotune.tuner.legality import legal_nests

    spec = target.spec
    schedule = heuristic_schedule(group, spec)
    if schedule is not None:
        yield Choice(group, schedule)
    nests = legal_nests(group, spec)
    other = (
        None
        if nests is None
        else default_schedule(nests, spec.capacity, 1, buffers=spec.max_buffers)
    )
    if other is not None and other != schedule:
        yield Choice(group, other)
