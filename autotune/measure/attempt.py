"""One attempt: lower a candidate and time it, turning whatever goes wrong into a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autotune.errors import AutotuneError
from autotune.isa.program import Program
from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import Execution, RunsAlone, Target

Lower = Callable[..., Program]
"""``lower(group, schedule, spec) -> Program``."""

_DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a defect in lowering or in a target raises. One candidate that meets it must not end a
calibration of thousands; its reason then names the exception."""


Timing = Callable[[], "Execution | str"]
"""The second half of an attempt: takes the time, and says what came of the whole."""

T = TypeVar("T")


def attempt(target: Target, candidate: Candidate, lower: Lower) -> Execution | str:
    """The cost of a candidate on a target, or in one line why there is none."""
    return prepared(target, candidate, lower)()


def prepared(target: Target, candidate: Candidate, lower: Lower) -> Timing:
    """The first half of an attempt: all that may go on beside other work, on targets that run alone
    up to the clock, on others the lowering."""
    program = _told("lowering", lambda: lower(candidate.group, candidate.schedule, target.spec))
    if isinstance(program, str):
        return lambda: program
    stage = f"target {target.name}"
    if not isinstance(target, RunsAlone):
        return lambda: _told(stage, lambda: target.time(program))
    ready = _told(stage, lambda: target.prepared(program))
    return (lambda: ready) if isinstance(ready, str) else lambda: _told(stage, ready)


def _told(stage: str, work: Callable[[], T]) -> T | str:
    try:
        return work()
    except AutotuneError as error:
        return _line(str(error)) or type(error).__name__
    except _DEFECTS as error:
        return f"defect in {stage}: {_line(f'{type(error).__name__}: {error}')}"


def _line(text: str) -> str:
    return " ".join(text.split())
