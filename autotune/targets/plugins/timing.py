"""Repeats of a user's timing function: how often, what they say together, and what is no time at all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.targets.native.running.sampling import Sample, Sampling, Visit, always_calm
from autotune.targets.protocol import Execution

if TYPE_CHECKING:  # a machine elsewhere needs none
    from autotune.targets.native.running.reference import Reference

T = TypeVar("T")

CLOCK_HZ = 1e9
"""Nominal clock of machines that are timed in seconds: a cycle is a nanosecond."""

CALLS = 3
"""Calls of a function that prepares and times in one; the fastest counts."""

ENOUGH_SECONDS = 2.0
"""Wall time after which such a function is not called again."""

MOST_SECONDS = 1e5

PATIENCE_SECONDS = 0.25
"""Time that a group waits for a calm machine at most, all visits together."""

MOST_FAILURES, MOST_LATER_FAILURES = 8, 20
"""Failures in a row after which a group fails: before its function ever answered, and after. Of a function that raises
on half its calls, 0.4 % of the groups fail."""


class ModelTiming:
    """An exported group to be timed; ``call`` asks the user's function. A call that fails is made again.

    ``reference`` tells how calm this machine is, for functions that run on it: visits to a calm one count, at its usual clock.
    """

    def __init__(self, call: Callable[[], Any], reference: Reference | None = None) -> None:
        self._call = call
        self._reference = reference
        self._patience_seconds = PATIENCE_SECONDS
        self._prepared: Callable[[], Any] | None = None
        self._sampling: Sampling | None = None
        self._has_answered = False
        self._failed_calls = 0
        self._remark = ""

    def visit(self) -> Execution | None:
        """Time it for a while; its cost once that is known, None while another visit is wanted.

        Raises ``ProgramError`` with the function's own error, or for a result that is no time, when that came
        ``MOST_FAILURES`` times or for ``ENOUGH_SECONDS``.
        """
        if self._sampling is None:
            start = time.monotonic()
            first = self._answer(self._call, _time_or_function)
            if not callable(first):
                return self._repeated(first, start)
            self._prepared = first
            self._once()  # tensors and code come into memory
            self._has_answered = True
            read = always_calm if self._reference is None else self._reference.read
            self._sampling = Sampling(self._once, self._await_calm, read)
        sample = self._sampling.visit()
        return None if sample is None else self._cost(sample)

    def _repeated(self, first: int, start: float) -> Execution:
        """Call a function that returned seconds again, while that is cheap."""
        found = [first]
        while len(found) < CALLS and time.monotonic() - start < ENOUGH_SECONDS:
            try:
                found.append(self._answer(self._call, _nanoseconds))
            except ProgramError:
                break  # it has answered before
        return self._cost(Sample(tuple(Visit(np.array([one], np.int64)) for one in found)))

    def _await_calm(self) -> None:
        if self._reference is not None and self._patience_seconds > 0.0:
            self._patience_seconds -= self._reference.await_calm(self._patience_seconds)

    def _once(self) -> npt.NDArray[np.int64]:
        assert self._prepared is not None
        return np.array([self._answer(self._prepared, _nanoseconds)], np.int64)

    def _answer(self, function: Callable[[], Any], read: Callable[[Any], T]) -> T:
        """Return what ``read`` makes of a function's answer; ask again when it fails."""
        start, failures = time.monotonic(), 0
        most = MOST_LATER_FAILURES if self._has_answered else MOST_FAILURES
        while True:
            try:
                return read(_asked(function))
            except ProgramError as error:
                failures += 1
                if failures == most or time.monotonic() - start >= ENOUGH_SECONDS:
                    raise
                self._failed_calls += 1
                self._remark = str(error)

    def _cost(self, sample: Sample) -> Execution:
        counters = sample.counters | {"failed_calls": self._failed_calls}
        return Execution(sample.nanoseconds, 0, 0, counters, self._remark)


def _asked(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:  # noqa: BLE001  # whatever the user's function raises is its answer
        text = " ".join(str(error).split())
        raise ProgramError(f"{type(error).__name__}: {text}"[:500]) from None


def _time_or_function(answer: Any) -> Any:
    return answer if callable(answer) else _nanoseconds(answer)


def _nanoseconds(seconds: Any) -> int:
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or not 0 < seconds <= MOST_SECONDS:
        raise ProgramError(
            f"the function returned {seconds!r:.60}, not seconds as a positive number"
        )
    return max(1, round(float(seconds) * CLOCK_HZ))
