"""Heuristic schedules of groups, each made once."""

from __future__ import annotations

from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec
from autotune.tuner.heuristic_plan import heuristic_schedule


class HeuristicSchedules:
    """Heuristic schedules of groups on one machine, each made once; None where none fits."""

    def __init__(self, spec: HardwareSpec) -> None:
        self._spec = spec
        self._known: dict[str, Schedule | None] = {}

    def __call__(self, group: Group) -> Schedule | None:
        if group.key not in self._known:
            try:
                self._known[group.key] = heuristic_schedule(group, self._spec)
            except ScheduleError:
                self._known[group.key] = None
        return self._known[group.key]
