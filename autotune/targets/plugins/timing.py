"""Repeats of a user's timing function: how often, what they say together, and what is no time at all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.targets.native.running.sampling import Sample, Sampling, Visit
from autotune.targets.protocol import Execution

CLOCK_HZ = 1e9
"""Nominal clock of machines that are timed in seconds: a cycle is a nanosecond."""

CALLS = 3
"""Calls of a function that prepares and times in one; the fastest counts."""

ENOUGH_SECONDS = 2.0
"""Wall time after which such a function is not called again."""

MOST_SECONDS = 1e5


class ModelTiming:
    """An exported group to be timed; ``call`` asks the user's function."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._prepared: Callable[[], Any] | None = None
        self._sampling: Sampling | None = None

    def visit(self) -> Execution | None:
        """Time it for a while; its cost once that is known, None while another visit is wanted.

        Raises ``ProgramError`` with the function's own error, and for a result that is no time.
        """
        if self._sampling is None:
            start = time.monotonic()
            first = self._asked(self._call)
            if not callable(first):
                return self._repeated(first, start)
            self._prepared = first
            self._once()  # tensors and code come into memory
            self._sampling = Sampling(self._once)
        sample = self._sampling.visit()
        return None if sample is None else _cost(sample)

    def _repeated(self, first: Any, start: float) -> Execution:
        """Call a function that returned seconds again, while that is cheap."""
        found = [self._nanoseconds(first)]
        while len(found) < CALLS and time.monotonic() - start < ENOUGH_SECONDS:
            found.append(self._nanoseconds(self._asked(self._call)))
        return _cost(Sample(tuple(Visit(np.array([one], np.int64)) for one in found)))

    def _once(self) -> npt.NDArray[np.int64]:
        assert self._prepared is not None
        return np.array([self._nanoseconds(self._asked(self._prepared))], np.int64)

    def _asked(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:  # noqa: BLE001  # whatever the user's function raises is its answer
            text = " ".join(str(error).split())
            raise ProgramError(f"{type(error).__name__}: {text}"[:500]) from None

    def _nanoseconds(self, seconds: Any) -> int:
        is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
        if not is_number or not math.isfinite(seconds) or not 0 < seconds <= MOST_SECONDS:
            raise ProgramError(
                f"the function returned {seconds!r:.60}, not seconds as a positive number"
            )
        return max(1, round(float(seconds) * CLOCK_HZ))


def _cost(sample: Sample) -> Execution:
    return Execution(sample.nanoseconds, 0, 0, sample.counters)
