"""Choices: the groups of a plan with their schedules, which a session compiles to a program table."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import PlanError
from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Choice:
    """One group of a partition and how to run it. ``schedule`` is None for a group of views;
    ``predicted_cycles`` is None where no cost model has spoken. ``device`` names the device of a session of
    several; it is empty in a session of one."""

    group: Group
    schedule: Schedule | None
    predicted_cycles: float | None = None
    device: str = ""

    def __post_init__(self) -> None:
        names = ", ".join(op.name for op in self.group.ops)
        if self.schedule is None and not self.group.is_view:
            raise PlanError(
                f"group of {names}: no schedule; make the plan anew with 'autotune search'"
            )
