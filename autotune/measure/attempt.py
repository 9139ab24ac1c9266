"""One attempt: lower a candidate and time it, turning whatever goes wrong into a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autotune.errors import AutotuneError
from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.measure.defects import DEFECTS
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.targets.protocol import ExclusiveTarget, Execution, Target

Lower = Callable[..., Program]
"""``lower(group, schedule, spec) -> Program``."""

Visit = Callable[[], "Execution | str | None"]
"""What is left of a prepared attempt: visits of the program until one says what came of it."""

T = TypeVar("T")


def attempt(target: Target, candidate: Candidate, lower: Lower) -> Execution | str:
    """The cost of a candidate on a target, or in one line why there is none."""
    program = _lowered(target, candidate, lower)
    if isinstance(program, str):
        return program
    return _told(f"target {target.name}", lambda: target.time(program))


def prepared(target: ExclusiveTarget, candidate: Candidate, lower: Lower) -> Visit:
    """The part of an attempt that may go on beside other work: all but the timing."""
    program = _lowered(target, candidate, lower)
    if isinstance(program, str):
        return lambda: program
    stage = f"target {target.name}"
    timing = _told(stage, lambda: target.prepared(program))
    return (lambda: timing) if isinstance(timing, str) else lambda: _told(stage, timing.visit)


def unbuildable(target: Target, group: Group, schedule: Schedule) -> str | None:
    """In one line why no program can be made of a group for a target; None when one can."""
    from autotune.lowering.lower import lower

    program = _told("lowering", lambda: lower(group, schedule, target.spec))
    if isinstance(program, str) or not isinstance(target, ExclusiveTarget):
        return program if isinstance(program, str) else None
    timing = _told(f"target {target.name}", lambda: target.prepared(program))
    return timing if isinstance(timing, str) else None


def _lowered(target: Target, candidate: Candidate, lower: Lower) -> Program | str:
    return _told("lowering", lambda: lower(candidate.group, candidate.schedule, target.spec))


def _told(stage: str, work: Callable[[], T]) -> T | str:
    try:
        return work()
    except AutotuneError as error:
        return _line(str(error)) or type(error).__name__
    except DEFECTS as error:
        return f"defect in {stage}: {_line(f'{type(error).__name__}: {error}')}"


def _line(text: str) -> str:
    return " ".join(text.split())
