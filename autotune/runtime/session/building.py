"""Builds a session's first table: where a group cannot be built, its operators run one by one.

A schedule that passes the checks and cannot be built is a defect of lowering. Search and calibration
report it as a failed candidate; a session runs the network all the same, and says so.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.program_table import ProgramTable, SplitGroup
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice

T = TypeVar("T")
Make = Callable[[Sequence[Choice], tuple[SplitGroup, ...]], T]
"""Builds a table of choices; the second argument names the groups that were split for it."""


def build_or_split(graph: Graph, choices: Sequence[Choice], target: Target, make: Make[T]) -> T:
    """Build a table of the choices; split groups that cannot be built into their operators.

    Raises the error of ``make`` when no group is at fault, or when an operator cannot be built alone.
    """
    try:
        return make(choices, ())
    except Exception:
        kept, split = _split(graph, choices, target)
        if not split:
            raise
    return make(kept, split)


def announce_splits(table: ProgramTable) -> tuple[Event, ...]:
    """Return an event for each group of a table that was split, and warn of each."""
    events = []
    for group in table.split:
        text = f"{', '.join(group.operators)}: run one by one, not fused: {group.reason}"
        warnings.warn(
            f"{table.graph.name}: {text}", RuntimeWarning, stacklevel=_caller_depth(__package__)
        )
        operators = float(len(group.operators))
        events.append(Event(EventKind.SPLIT, 0, time.time(), text, {"operators": operators}))
    return tuple(events)


def _caller_depth(package: str | None) -> int:
    """Return the depth of the first frame outside of our package, as ``warnings.warn`` counts from
    the function that calls this one."""
    assert package is not None
    root, frame, depth = f"{package.partition('.')[0]}.", inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(root):
        frame, depth = frame.f_back, depth + 1
    return depth


def _split(
    graph: Graph, choices: Sequence[Choice], target: Target
) -> tuple[tuple[Choice, ...], tuple[SplitGroup, ...]]:
    """Split every group that cannot be built into its operators; return choices and split groups."""
    from autotune.measure.attempt import unbuildable

    kept: list[Choice] = []
    split: list[SplitGroup] = []
    for choice in choices:
        reason = None
        if choice.schedule is not None:
            reason = unbuildable(target, choice.group, choice.schedule)
        if reason is None:
            kept.append(choice)
            continue
        operators = tuple(op.name for op in choice.group.ops)
        kept += (_alone(graph, name, target) for name in operators)
        split.append(SplitGroup(operators, reason))
    return tuple(kept), tuple(split)


def _alone(graph: Graph, name: str, target: Target) -> Choice:
    """One operator as a group, by the first schedule that can be built.

    Raises ``ScheduleError`` for an operator that has no legal schedule alone."""
    from autotune.measure.attempt import unbuildable
    from autotune.tuner.heuristic_plan import no_schedule_error

    group = Group.from_graph(graph, (name,))
    if group.is_view:
        return Choice(group, None)
    first = None
    for choice in _choices(group, target):
        first = choice if first is None else first
        assert choice.schedule is not None, "only views have none"
        if unbuildable(target, group, choice.schedule) is None:
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
        else default_schedule(nests, spec.tile_elements, 1, buffers=spec.max_buffers)
    )
    if other is not None and other != schedule:
        yield Choice(group, other)
