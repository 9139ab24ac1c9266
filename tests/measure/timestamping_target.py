"""A target that runs alone and says when it prepared and measured what."""

from __future__ import annotations

import os
import time
from typing import Any

from autotune.targets.native.running.target import NativeTarget
from autotune.targets.protocol import Execution
from tests.measure.measure_case import SPEC


class Timestamping(NativeTarget):
    """Takes 2 ms to prepare a candidate, and 1 ms for each of two visits."""

    def __init__(self) -> None:
        super().__init__(SPEC, "timestamping")

    def __reduce__(self) -> Any:
        return Timestamping, ()

    def prepared(self, program: Any, parameters: Any = None) -> Any:
        """What will know its times."""
        return _Visits(program)


class _Visits:
    """``spans`` are when it was prepared and visited, on the clock that all processes share."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.spans = [_slept(0.002)]

    def visit(self) -> Execution | None:
        """Begins and ends of all spans, and the process."""
        self.spans.append(_slept(0.001))
        if len(self.spans) < 3:
            return None
        times = {f"{end}{i}": at for i, span in enumerate(self.spans) for end, at in span.items()}
        return Execution(self.index, 0, 0, times | {"pid": os.getpid()})


def _slept(seconds: float) -> dict[str, int]:
    begin = time.monotonic_ns()
    time.sleep(seconds)
    return {"begin": begin, "end": time.monotonic_ns()}
