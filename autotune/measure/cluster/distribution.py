"""One run over a cluster: hands out jobs, survives lost workers, copies stragglers, takes the first result."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from autotune.errors import TargetError
from autotune.measure.attempt import Lower
from autotune.measure.batching import BATCH, PORTIONS, batch_size
from autotune.measure.cluster.announcement import needs
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.cluster.job import Job, Results, run_job
from autotune.measure.cluster.lease import lease
from autotune.measure.dispatch import to_measurement
from autotune.measure.measurement import Failed, FailureKind, Measurement
from autotune.measure.packing import pack
from autotune.measure.worker import Batch, Refused
from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import ExclusiveTarget, Target

AHEAD = BATCH * PORTIONS
"""Candidates that are drawn before they are sent: the last of them go in small jobs."""

DEPTH = 2
"""Jobs per worker that are sent: one runs, one waits there."""

LOOK_SECONDS = 1.0
"""Time between two looks at workers and stragglers."""

LATE_SECONDS = 2.0
LATE_FACTOR = 3.0
"""A job is late after ``LATE_SECONDS`` and so many times what its worker's jobs take by the mean."""

UNKNOWN_SECONDS = 5.0
"""Time of a job while none has come back."""

LONELY_SECONDS = 60.0
"""Longest time without any worker that fits, before a run ends."""


@dataclass(slots=True)
class _Share:
    """Candidates that travel together, by place. ``runs`` are the futures of them: the first, and copies."""

    items: tuple[tuple[int, Candidate], ...]
    since_seconds: float
    runs: list[Any] = field(default_factory=list)


class Distribution:
    """Runs candidates of a target over a cluster; the place of each is its number in the order given.

    Every candidate gets one result, of whichever run of it comes back first.
    """

    def __init__(
        self,
        cluster: Cluster,
        target: Target,
        candidates: Iterator[Candidate],
        lower: Lower,
        limit_seconds: Callable[[Candidate], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._wanted = needs(target)
        self._alone = isinstance(target, ExclusiveTarget)
        self._candidates = enumerate(candidates)
        self._lower = lower
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._keys = (f"autotune-{uuid.uuid4().hex}-{number}" for number in count())
        self._waiting: deque[tuple[int, Candidate]] = deque()
        self._is_drawn = False
        self._shares: dict[str, _Share] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._workers = 1
        self._next_look_seconds = self._lonely_since_seconds = 0.0
        self._spent_seconds = 0.0
        self._finished = 0

    def run(self) -> Iterator[tuple[int, Measurement]]:
        """Yield place and measurement of each candidate as they come; closing it gives up the rest.

        Raises ``TargetError`` if no worker can measure the target, or scheduler or workers are gone.
        """
        self._workers = self._cluster.require(self._target)
        self._lonely_since_seconds = self._clock()
        try:
            while self._hand_out() or self._shares:
                for future in self._arrived():
                    yield from self._take_in(future)
                self._look()
        except OSError as error:
            raise self._gone(str(error)) from None
        finally:
            self._cluster.cancel([run for share in self._open() for run in share.runs])

    def _open(self) -> list[_Share]:
        """Return the shares without a result, the oldest first."""
        return list({id(share): share for share in self._shares.values()}.values())

    def _hand_out(self) -> bool:
        """Send jobs until every worker has enough; return False when nothing is left to send."""
        while len(self._open()) < DEPTH * self._workers:
            self._draw()
            if not self._waiting:
                return False
            items = tuple(self._waiting.popleft() for _ in range(self._size()))
            self._send(_Share(items, self._clock()))
        return True

    def _draw(self) -> None:
        """Fill the queue of waiting candidates, never beside a timed measurement on this machine."""
        if self._is_drawn or len(self._waiting) >= AHEAD:
            return
        with lease(alone=False) if self._alone else nullcontext():
            while len(self._waiting) < AHEAD and not self._is_drawn:
                item = next(self._candidates, None)
                if item is None:
                    self._is_drawn = True
                else:
                    self._waiting.append(item)

    def _size(self) -> int:
        """Return the number of candidates of the next job: the last ones are small, lest one holds all."""
        return min(
            len(self._waiting),
            batch_size(len(self._waiting), self._workers) if self._is_drawn else BATCH,
        )

    def _send(self, share: _Share, worker: str | None = None) -> None:
        """Send a share to where it fits, or a copy of it to one worker."""
        packed = pack(self._target)
        assert packed is not None, "targets that cannot travel are measured here"
        candidates = tuple(candidate for _, candidate in share.items)
        limits = tuple(map(self._limit_seconds, candidates))
        job = Job(Batch.make(packed, self._lower, candidates), limits)
        future = self._cluster.submit(run_job, job, next(self._keys), self._wanted, worker)
        share.runs.append(future)
        self._shares[future.key] = share
        future.add_done_callback(self._done.put)

    def _arrived(self) -> Iterator[Any]:
        """Give the jobs that have come back, after a wait for the first."""
        try:
            yield self._done.get(timeout=LOOK_SECONDS)
            while True:
                yield self._done.get_nowait()
        except Empty:
            return

    def _take_in(self, future: Any) -> Iterator[tuple[int, Measurement]]:
        share = self._shares.get(future.key)
        if share is None:
            return  # another run of it was first
        if future.status == "finished":
            results: Results | Refused = future.result()
            if isinstance(results, Refused):
                raise TargetError(
                    f"{self._cluster.place.text}: a worker cannot load {self._target.name} "
                    f"({results.reason}); install its package on every machine"
                )
            self._close(share)
            for (place, candidate), result in zip(share.items, results, strict=True):
                yield place, to_measurement(candidate, result)
            return
        if future.status in ("lost", "pending"):  # its worker died with the result: it runs again
            future.add_done_callback(self._done.put)
            return
        if future.status != "error":
            raise self._gone(f"a job is {future.status}")
        yield from self._after_deaths(share, future)

    def _close(self, share: _Share) -> None:
        if len(share.runs) == 1:  # the time of others says nothing of a usual job
            self._spent_seconds += self._clock() - share.since_seconds
            self._finished += 1
        for run in share.runs:
            self._shares.pop(run.key, None)
        self._cluster.cancel([run for run in share.runs if not run.done()])

    def _after_deaths(self, share: _Share, future: Any) -> Iterator[tuple[int, Measurement]]:
        """Take in a job that Dask gave up, as several workers died with it: alone, each of its candidates
        gets another chance, and one that ends workers by itself fails."""
        from distributed.scheduler import KilledWorker

        error = future.exception()
        if not isinstance(error, KilledWorker):
            raise error
        del self._shares[future.key]
        share.runs.remove(future)
        if share.runs:
            return
        if len(share.items) == 1:
            place, candidate = share.items[0]
            reason = f"{FailureKind.DIED.opening}{error.allowed_failures + 1} workers were lost"
            yield place, Failed(candidate, reason)
            return
        for item in share.items:
            self._send(_Share((item,), self._clock()))

    def _look(self) -> None:
        """Count the workers that fit, from time to time, and let idle ones copy late jobs."""
        now = self._clock()
        if now < self._next_look_seconds:
            return
        self._next_look_seconds = now + LOOK_SECONDS
        fitting = self._cluster.fitting(self._wanted)
        if fitting:
            self._workers, self._lonely_since_seconds = len(fitting), now
        elif now - self._lonely_since_seconds > LONELY_SECONDS:
            raise self._gone(f"no worker that fits is left for {LONELY_SECONDS:g} s")
        late = [share for share in self._open() if self._is_late(share, now)]
        if late and fitting:
            self._copy(late, fitting)

    def _is_late(self, share: _Share, now: float) -> bool:
        known = self._spent_seconds / self._finished if self._finished else UNKNOWN_SECONDS
        return now - share.since_seconds > LATE_SECONDS + LATE_FACTOR * known

    def _copy(self, late: list[_Share], fitting: tuple[str, ...]) -> None:
        """Send a copy of each late share that has one run at most to an idle worker, as far as there are.

        A run that no worker holds is of a worker that was lost with nobody to take over.
        """
        held = self._cluster.processing()
        running = {key for keys in held.values() for key in keys}
        idle = [address for address in fitting if not held.get(address)]
        alone = [share for share in late if sum(run.key in running for run in share.runs) < 2]
        for share, worker in zip(alone, idle, strict=False):
            self._send(share, worker)

    def _gone(self, cause: str) -> TargetError:
        return TargetError(
            f"{self._cluster.place.text}: the scheduler or its workers are gone ({cause}); what was "
            "measured is stored: start them and run the command again"
        )
