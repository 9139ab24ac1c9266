"""One attempt: lower a candidate and time it, turning whatever goes wrong into a reason."""

from __future__ import annotations

from collections.abc import Callable

from autotune.errors import AutotuneError
from autotune.isa.program import Program
from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import Execution, Target

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


def attempt(target: Target, candidate: Candidate, lower: Lower) -> Execution | str:
    """The cost of a candidate on a target, or in one line why there is none."""
    stage = "lowering"
    try:
        program = lower(candidate.group, candidate.schedule, target.spec)
        stage = f"target {target.name}"
        return target.time(program)
    except AutotuneError as error:
        return _line(str(error)) or type(error).__name__
    except _DEFECTS as error:
        return f"defect in {stage}: {_line(f'{type(error).__name__}: {error}')}"


def _line(text: str) -> str:
    return " ".join(text.split())
