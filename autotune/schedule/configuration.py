"""Configurations: schedules of machines that declare tunable parameters of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass

from autotune.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Configuration(Schedule):
    """A value for each parameter, by name; no nests. Without parameters it is the empty schedule."""

    values: tuple[tuple[str, int | float | str | bool], ...] = ()

    def to_json(self) -> str:
        """Return canonical JSON text: an object of the values."""
        return json.dumps(dict(sorted(self.values))) if self.values else "[]"
