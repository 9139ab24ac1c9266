"""One attempt: lowers a candidate and times it, or says in one line why it failed."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import TypeVar

from autotune.errors import InputError, ProgramError, ScheduleError
from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.measure.measurement import FailureKind
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.targets.protocol import ExclusiveTarget, Execution, Target

Lower = Callable[..., Program]
"""``lower(group, schedule, spec) -> Program``."""

Visit = Callable[[], "Execution | str | None"]
"""The rest of a prepared attempt: each call times the program once more, until one returns the result."""

T = TypeVar("T")

REFUSALS = (ScheduleError, ProgramError, InputError, MemoryError)
"""Errors that a candidate may fail with: it is not legal, the verifier or the target refuses its
program, or its tensors do not fit in memory. Any other exception is a defect of ours."""

_LOG = logging.getLogger("autotune.measure")
_REPORTED: set[str] = set()
"""Lines of source (``file:line``) whose defects this process has reported."""


def attempt(target: Target, candidate: Candidate, lower: Lower) -> Execution | str:
    """Return the cost of a candidate on a target, or the reason in one line why it has none."""
    program = _lower(target, candidate, lower)
    if isinstance(program, str):
        return program
    return _try(f"target {target.name}", lambda: target.time(program))


def prepare(target: ExclusiveTarget, candidate: Candidate, lower: Lower) -> Visit:
    """Do everything of an attempt but the timing, beside other work."""
    program = _lower(target, candidate, lower)
    if isinstance(program, str):
        return lambda: program
    stage = f"target {target.name}"
    timing = _try(stage, lambda: target.prepared(program))
    return (lambda: timing) if isinstance(timing, str) else lambda: _try(stage, timing.visit)


def unbuildable(target: Target, group: Group, schedule: Schedule) -> str | None:
    """Return the reason in one line why a target cannot build a group, or None if it can."""
    from autotune.lowering.lower import lower

    program = _try("lowering", lambda: lower(group, schedule, target.spec))
    if isinstance(program, str) or not isinstance(target, ExclusiveTarget):
        return program if isinstance(program, str) else None
    timing = _try(f"target {target.name}", lambda: target.prepared(program))
    return timing if isinstance(timing, str) else None


def _lower(target: Target, candidate: Candidate, lower: Lower) -> Program | str:
    return _try("lowering", lambda: lower(candidate.group, candidate.schedule, target.spec))


def _try(stage: str, work: Callable[[], T]) -> T | str:
    """Return the result of ``work``, or the reason in one line why it failed.

    A defect must neither end a calibration of thousands nor hide in its count of failures: the
    run goes on, and the log gets the traceback.
    """
    try:
        return work()
    except REFUSALS as error:
        return _line(str(error)) or type(error).__name__
    except Exception as error:  # noqa: BLE001 - a defect: reported with its traceback
        reason = f"{FailureKind.DEFECT.opening}{stage}: {_line(f'{type(error).__name__}: {error}')}"
        frame = traceback.extract_tb(error.__traceback__)[-1]
        _report(
            reason, f"{frame.filename}:{frame.lineno}", "".join(traceback.format_exception(error))
        )
        return reason


def _report(reason: str, place: str, trace: str) -> None:
    """Log a defect with its traceback: once per process and line of source, as candidates are many."""
    if place not in _REPORTED:
        _REPORTED.add(place)
        _LOG.error("%s; the candidate fails, the run goes on. Please report:\n%s", reason, trace)


def _line(text: str) -> str:
    return " ".join(text.split())
