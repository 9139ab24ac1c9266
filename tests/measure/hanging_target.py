"""A target that runs alone and takes long over one candidate, to prepare or to visit it."""

from __future__ import annotations

import os
import time
from typing import Any

from autotune.targets.native.running.target import NativeTarget
from autotune.targets.protocol import Execution
from tests.measure.measure_case import SPEC


class Hanging(NativeTarget):
    """Costs the candidate's index. Candidate ``HANGS`` takes the first of ``seconds`` to prepare, and then
    one visit for each of the others."""

    HANGS = 11

    def __init__(self, seconds: tuple[float, ...]) -> None:
        super().__init__(SPEC, "hanging")
        self.seconds = seconds

    def __reduce__(self) -> Any:
        return Hanging, (self.seconds,)

    def prepared(self, program: Any, parameters: Any = None) -> Any:
        """Sleeps for the first time."""
        return _Visits(program, self.seconds if program == self.HANGS else (0.0, 0.0, 0.0))


class _Visits:
    def __init__(self, index: int, seconds: tuple[float, ...]) -> None:
        first, *self.left = seconds
        self.index = index
        time.sleep(first)

    def visit(self) -> Execution | None:
        """The last one tells."""
        time.sleep(self.left.pop(0))
        return None if self.left else Execution(self.index, 0, 0, {"pid": os.getpid()})
