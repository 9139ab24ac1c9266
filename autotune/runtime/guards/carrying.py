"""The plan of a variant: what stays of the network's plan keeps its groups and schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.fusion.group import Group, is_connected, is_convex
from autotune.graph.graph import Graph
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_schedule, no_schedule_error


def carried_choices(graph: Graph, plan: Sequence[Choice], spec: HardwareSpec) -> tuple[Choice, ...]:
    """Return a plan for ``graph``, a variant of the network that ``plan`` is for.

    Groups that the variant has unchanged keep their schedules; others, and what is new, get heuristic ones.
    Raises ``ScheduleError`` for an operator without a legal schedule.
    """
    here = {op.name for op in graph.ops}
    choices: list[Choice] = []
    for choice in plan:
        names = tuple(op.name for op in choice.group.ops if op.name in here)
        choices += _kept(graph, names, choice, spec) if names else ()
    planned = {op.name for choice in choices for op in choice.group.ops}
    for name in (op.name for op in graph.ops if op.name not in planned):
        choices += _scheduled(graph, (name,), spec)
    return tuple(choices)


def _kept(
    graph: Graph, names: tuple[str, ...], choice: Choice, spec: HardwareSpec
) -> Iterator[Choice]:
    chosen = set(names)
    if not (is_convex(graph, chosen) and is_connected(graph, chosen)):
        for name in names:
            yield from _scheduled(graph, (name,), spec)
        return
    group = Group.from_graph(graph, names)
    if group.key == choice.group.key:
        yield Choice(group, choice.schedule)
    else:
        yield from _scheduled(graph, names, spec)


def _scheduled(graph: Graph, names: tuple[str, ...], spec: HardwareSpec) -> Iterator[Choice]:
    """Give a group with its heuristic schedule, or each operator alone where it has none."""
    group = Group.from_graph(graph, names)
    schedule = None if group.is_view else heuristic_schedule(group, spec)
    if group.is_view or schedule is not None:
        yield Choice(group, schedule)
    elif len(names) > 1:
        for name in names:
            yield from _scheduled(graph, (name,), spec)
    else:
        raise no_schedule_error(graph, group, spec)
