"""A target that runs alone and says when it measured what."""

from __future__ import annotations

import time
from typing import Any

from measure_case import SPEC

from autotune.targets.native.target import NativeTarget
from autotune.targets.protocol import Execution


class Timestamping(NativeTarget):
    """Takes 2 ms for a candidate."""

    def __init__(self) -> None:
        super().__init__(SPEC, "timestamping")

    def __reduce__(self) -> Any:
        return Timestamping, ()

    def time(self, program: Any, parameters: Any = None) -> Execution:
        """Begin and end on the clock that all processes share."""
        begin = time.monotonic_ns()
        time.sleep(0.002)
        return Execution(program, 0, 0, {"begin": begin, "end": time.monotonic_ns()})
