"""Measures candidates on a target over the cores of this machine; called by calibration, search and
online learning."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from autotune.arguments import seconds_of
from autotune.errors import InputError, TargetError
from autotune.lowering.exported import export_candidate
from autotune.lowering.lower import lower as lower_group
from autotune.measure.attempt import Lower
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.dispatch import Dispatch, measured_here
from autotune.measure.measurement import Failed, FailureKind, Measurement
from autotune.measure.packing import pack
from autotune.measure.pool import SHARED, Pool
from autotune.measure.process import SUPPORTED
from autotune.measure.time_limit import default_seconds
from autotune.schedule.candidate import Candidate
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import ExclusiveTarget, Target

Workers = int | Cluster | None
"""Who measures: so many processes of this machine, or the workers of a cluster. None leaves it to the
number of candidates."""

MANY = 64
"""Number of candidates from which worker processes are started at once."""

MANY_WARM = 8
"""The same where worker processes run already."""

MANY_ALONE = 32
"""Number of candidates of a target that runs alone from which several workers prepare them."""

MOST_ALONE = 4
"""Workers of a target that runs alone at most, as they time one by one."""

START_SECONDS = 0.5
"""Cost of starting the workers. A shorter list is measured in this process for as long, and the rest
by workers: at most twice the best cost."""


HANGS = 8
"""Candidates in a row that may pass their limits: more than the schedules that are drawn of one group.
At a minute each, a target that hangs for all would hold a calibration for a day."""


def lowering_for(target: Target) -> Lower:
    """Return what makes a target's programs: ``lower``, or ``export_candidate`` where it takes models."""
    takes_models = getattr(target, "takes_models", False)
    export: Callable[..., Any] = export_candidate
    return export if takes_models else lower_group


def hanging(target: Target, reason: str) -> TargetError:
    """Return the error of a target of which ``HANGS`` candidates in a row were overdue, the last for ``reason``."""
    return TargetError(
        f"{target.name}: {HANGS} candidates in a row gave no result, the last one "
        f"{reason}; see what the target waits for, or allow more time with "
        "--time-limit (time_limit_seconds)"
    )


@dataclass(frozen=True, slots=True)
class Runner:
    """Measures candidates of one target, on this machine or over a cluster.

    ``workers`` is a cluster or the number of processes. 1 is always this process; None is one per core for many
    candidates, else none. ``lower`` makes what the target takes of a candidate (None: a program, or an ONNX model for
    a target that takes models). A target that runs alone never runs in this process: its workers prepare
    candidates side by side and time them one by one. Each batch carries the pickled target with its
    present state; a target that cannot be pickled is measured in this process. A candidate fails
    after ``time_limit_seconds``; None is a limit by its size. Raises ``InputError`` for ``workers``
    below 1 and for a limit that is not above 0.
    """

    target: Target
    workers: Workers = None
    lower: Lower | None = None
    time_limit_seconds: float | None = None
    pool: Pool = SHARED
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if isinstance(self.workers, int) and self.workers < 1:
            raise InputError(f"workers = {self.workers} is not ≥ 1; leave it out to use all cores")
        seconds_of(self.time_limit_seconds, "time_limit_seconds")

    def measure(self, candidates: Iterable[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement per candidate, in order.

        Raises ``TargetError`` as ``arrivals`` does, after the results before.
        """
        ahead: dict[int, Measurement] = {}
        place = 0
        for arrived, result in self.arrivals(candidates):
            ahead[arrived] = result
            while place in ahead:
                yield ahead.pop(place)
                place += 1

    def arrivals(self, candidates: Iterable[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Yield one measurement per candidate as they come, each with its place: in order on this machine,
        in any order from a cluster.

        A candidate is ``Failed`` if it is not legal, meets a defect (whose traceback is logged) or
        kills its process; the others go on. Closing the iterator, Ctrl-C included, ends the
        measurements under way at once. Raises ``TargetError`` when ``HANGS`` candidates in a row took
        longer than their limits, after it has yielded them, and when a cluster is gone.
        """
        hangs = 0
        for place, result in self._placed(iter(candidates)):
            yield place, result
            if not isinstance(result, Failed) or result.kind is not FailureKind.OVERDUE:
                hangs = 0
                continue
            hangs += 1
            if hangs == HANGS:
                raise hanging(self.target, result.reason)

    def _placed(self, source: Iterator[Candidate]) -> Iterator[tuple[int, Measurement]]:
        if not isinstance(self.workers, Cluster) or pack(self.target) is None:
            return enumerate(self._measure(source))
        from autotune.measure.cluster.distribution import Distribution  # loads what jobs need

        return Distribution(
            self.workers, self.target, source, self._lowering, self._limit_seconds, self.clock
        ).run()

    def _measure(self, source: Iterator[Candidate]) -> Iterator[Measurement]:
        alone = isinstance(self.target, ExclusiveTarget)
        if (self.workers == 1 and not alone) or not SUPPORTED or pack(self.target) is None:
            yield from map(self._here, source)
            return
        many = MANY_ALONE if alone else self._many()
        bounded = isinstance(self.target, EmulatorTarget)
        first = deque(islice(source, many))
        workers = self._workers(alone, len(first) == many)
        if len(first) < many and bounded:  # another one may hang or crash
            yield from self._for_a_while(first)
        if first:
            rest = chain(first, source)
            yield from Dispatch(
                self.target,
                rest,
                self._lowering,
                self.pool,
                workers,
                self._limit_seconds,
                self.clock,
            ).run()

    def _workers(self, alone: bool, many: bool) -> int:
        wanted = self.workers if isinstance(self.workers, int) else self.pool.size
        if alone:
            return min(wanted, MOST_ALONE) if many else 1
        return wanted

    def _many(self) -> int:
        if self.workers is not None:
            return 1
        return MANY_WARM if self.pool.warm else MANY

    def _for_a_while(self, candidates: deque[Candidate]) -> Iterator[Measurement]:
        """Measure here for ``START_SECONDS``; the rest stays in the queue."""
        spent_seconds = 0.0
        while candidates and (spent_seconds < START_SECONDS or len(candidates) == 1):
            start = self.clock()
            result = self._here(candidates.popleft())
            spent_seconds += self.clock() - start
            yield result

    def _here(self, candidate: Candidate) -> Measurement:
        limit = self._limit_seconds(candidate)
        return measured_here(self.target, candidate, self._lowering, limit)

    @property
    def _lowering(self) -> Lower:
        return lowering_for(self.target) if self.lower is None else self.lower

    def _limit_seconds(self, candidate: Candidate) -> float:
        own = self.time_limit_seconds
        return default_seconds(candidate) if own is None else own


def measure(
    target: Target,
    candidates: Iterable[Candidate],
    workers: Workers = None,
    time_limit_seconds: float | None = None,
) -> Iterator[Measurement]:
    """Lower and time candidates on a target, in order: ``measure`` of a ``Runner`` with these options."""
    runner = Runner(target, workers, time_limit_seconds=time_limit_seconds)
    return runner.measure(candidates)


def arrivals(
    target: Target,
    candidates: Iterable[Candidate],
    workers: Workers = None,
    time_limit_seconds: float | None = None,
) -> Iterator[tuple[int, Measurement]]:
    """Lower and time candidates on a target, as they come: ``arrivals`` of a ``Runner`` with these options."""
    runner = Runner(target, workers, time_limit_seconds=time_limit_seconds)
    return runner.arrivals(candidates)
