"""Builds a session's first table: where a group cannot be built, its operators run one by one.

A schedule that passes the checks and cannot be built is a defect of lowering. Search and calibration
report it as a failed candidate; a session runs the network all the same, and says so.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from autotune.graph.graph import Graph
from autotune.runtime.builder.limits import MemoryExceeded
from autotune.runtime.builder.splitting import operators_alone, why_unbuildable
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
    except MemoryExceeded:
        raise
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
    kept: list[Choice] = []
    split: list[SplitGroup] = []
    for choice in choices:
        reason = why_unbuildable(choice, target)
        if reason is None:
            kept.append(choice)
            continue
        kept += operators_alone(graph, choice, target)
        split.append(SplitGroup(tuple(op.name for op in choice.group.ops), reason))
    return tuple(kept), tuple(split)
