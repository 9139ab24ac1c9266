"""Cache of heuristic plans and schedules: finding them is the longest part of opening a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.errors import PlanError, ScheduleError
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import Schedules, heuristic_choices

DECIDING = (
    *(
        "operators",
        "fusion",
        "schedule",
        "cost_model",
        "targets/native/codegen",
        "targets/native/cpu",
    ),
    *(f"graph/{x}.py" for x in ("builder", "graph", "serialization", "topological_order")),
    *(f"isa/{x}.py" for x in ("fields", "formats", "functions", "notation", "opcodes", "program")),
    *("isa/table.py", "isa/tile.py", "lowering/tiles.py", "lowering/vector_operators.py"),
    *("tuner/choice.py", "tuner/heuristic_plan.py", "tuner/legality.py"),
    *("targets/capacity.py", "targets/derived.py", "targets/physical.py", "targets/spec.py"),
)
"""Sources that decide the heuristic schedule of a group: all that its module imports, wherever, which a test holds. A change
of a pass drops none."""
MOST_GROUPS = 4096
"""Limit of cached schedules for one machine; the oldest go first."""


@contextmanager
def cached_schedules(spec: HardwareSpec, folder: Path | None = None) -> Iterator[Schedules]:
    """Give the cached schedules of a machine for ``heuristic_choices`` to add to; store additions.

    None in ``folder`` means the user's cache.
    """
    cache = DiskCache(cache_folder() / "schedules" if folder is None else folder)
    key = f"schedules by rule\n{spec.profile_id}\n{_sources_version()}"
    known = _read(cache.load(key))
    before = len(known)
    yield known
    if len(known) > before:
        everything = {**_read(cache.load(key)), **known}  # another process may have added too
        cache.store(key, _written(everything))


def cached_heuristic_plan(
    graph: Graph, spec: HardwareSpec, folder: Path | None = None
) -> tuple[Choice, ...]:
    """Return the heuristic plan of a network on a machine, from the cache where possible.

    None in ``folder`` means the user's cache. Raises ``ScheduleError`` as ``heuristic_choices`` does.
    """
    cache = DiskCache(cache_folder() / "schedules" if folder is None else folder)
    key = f"plan by rule\n{graph.fingerprint}\n{spec.profile_id}\n{_sources_version()}"
    found = _choices(graph, cache.load(key))
    if found is None:
        with cached_schedules(spec, folder) as known:
            found = heuristic_choices(graph, spec, known)
        rows = [(_names(c), None if c.schedule is None else c.schedule.to_json()) for c in found]
        cache.store(key, json.dumps(rows).encode())
    return found


def _names(choice: Choice) -> list[str]:
    return [op.name for op in choice.group.ops]


def _choices(graph: Graph, content: bytes | None) -> tuple[Choice, ...] | None:
    """Return the plan of an entry; None for a missing or foreign one."""
    try:
        rows = [] if content is None else json.loads(content)
        return (
            tuple(
                Choice(
                    Group.from_graph(graph, names),
                    None if text is None else Schedule.from_json(text),
                )
                for names, text in rows
            )
            or None
        )
    except (ValueError, TypeError, LookupError, ScheduleError, PlanError):
        return None


def _written(schedules: Schedules) -> bytes:
    newest = list(schedules.items())[-MOST_GROUPS:]
    rows = {key: None if found is None else found.to_json() for key, found in newest}
    return json.dumps(rows).encode()


def _read(content: bytes | None) -> Schedules:
    """Return the schedules of an entry; none for a missing or foreign one."""
    try:
        rows = {} if content is None else json.loads(content)
        return {k: None if text is None else Schedule.from_json(text) for k, text in rows.items()}
    except (ValueError, AttributeError, ScheduleError):
        return {}


@cache
def _sources_version() -> str:
    return hash_sources(DECIDING)
