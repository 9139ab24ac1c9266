"""Candidates: a fusion group with the schedule to run it by."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group and a schedule to lower, measure or predict.

    ``network`` names the group's origin: a model file's stem, or ``workload:N``. Held-out splits go
    by it.
    """

    group: Group
    schedule: Schedule
    network: str

    @property
    def key(self) -> tuple[str, str]:
        """Identity of its cost on a given machine."""
        return self.group.key, self.schedule.to_json()
