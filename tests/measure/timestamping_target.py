"""A target that runs alone and says when it measured what."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

from measure_case import SPEC

from autotune.targets.native.target import NativeTarget
from autotune.targets.protocol import Execution


class Timestamping(NativeTarget):
    """Takes 2 ms to prepare a candidate, and 2 to time it."""

    def __init__(self) -> None:
        super().__init__(SPEC, "timestamping")

    def __reduce__(self) -> Any:
        return Timestamping, ()

    def prepared(self, program: Any, parameters: Any = None) -> Callable[[], Execution]:
        """Begin and end on the clock that all processes share, of both halves, and the process."""
        begin = time.monotonic_ns()
        time.sleep(0.002)
        return functools.partial(self._timed, program, begin, time.monotonic_ns())

    def _timed(self, program: Any, begin: int, end: int) -> Execution:
        halves = {"prepare_begin": begin, "prepare_end": end, "begin": time.monotonic_ns()}
        time.sleep(0.002)
        ends = {"end": time.monotonic_ns(), "pid": os.getpid()}
        return Execution(program, 0, 0, halves | ends)
