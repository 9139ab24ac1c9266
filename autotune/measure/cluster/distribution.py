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
"""Time between two looks at workers and stragglers; a hundredth of it more for each worker."""

LATE_SECONDS = 2.0
LATE_FACTOR = 3.0
"""A job is late after ``LATE_SECONDS`` and so many times what jobs take by the mean."""

UNKNOWN_SECONDS = 5.0
"""Time of a job while none has come back."""

LIVES = 3
"""Workers that may be lost with a job before its candidates go on one by one; and with such a candidate
before it fails."""

FETCH_SECONDS = 5.0
"""Longest wait for results of a job that has ended: its worker may have been lost since."""

LONELY_SECONDS = 60.0
"""Longest time without any worker that fits, before a run ends."""


@dataclass(slots=True)
class _Share:
    """Candidates that travel together, by place. ``runs`` are the futures of them by worker: the first, and
    a copy. ``losses`` counts the workers that were lost with one."""

    items: tuple[tuple[int, Candidate], ...]
    since_seconds: float
    runs: dict[str, Any] = field(default_factory=dict)
    losses: int = 0


class Distribution:
    """Runs candidates of a target over a cluster; the place of each is its number in the order given.

    Every candidate gets one result, of whichever run of it comes back first. Each job names its worker: the
    scheduler would look at all of them for every job, which takes it 11 ms where there are a thousand.
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
        self._again: deque[_Share] = deque()
        self._load: dict[str, int] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._next_look_seconds = self._lonely_since_seconds = 0.0
        self._spent_seconds = 0.0
        self._finished = 0

    def run(self) -> Iterator[tuple[int, Measurement]]:
        """Yield place and measurement of each candidate as they come; closing it gives up the rest.

        Raises ``TargetError`` if no worker can measure the target, or scheduler or workers are gone.
        """
        self._load = dict.fromkeys(self._cluster.require(self._target), 0)
        self._lonely_since_seconds = self._clock()
        try:
            while self._hand_out() or self._shares or self._again:
                for future in self._arrived():
                    yield from self._take_in(future)
                yield from self._look()
        except OSError as error:
            raise self._gone(str(error)) from None
        finally:
            self._cluster.cancel([run for share in self._open() for run in share.runs.values()])

    def _open(self) -> list[_Share]:
        """Return the shares that workers have, the oldest first."""
        return list({id(share): share for share in self._shares.values()}.values())

    def _hand_out(self) -> bool:
        """Send jobs until every worker has enough; return False when nothing is left to send."""
        while self._load:
            worker = min(self._load, key=self._load.__getitem__)
            if self._load[worker] >= DEPTH:
                return True
            share = self._next()
            if share is None:
                return False
            self._send(share, worker)
        return True

    def _next(self) -> _Share | None:
        """Return what to send next: a share that lost its worker, or waiting candidates; None for neither."""
        if self._again:
            return self._again.popleft()
        self._draw()
        if not self._waiting:
            return None
        items = tuple(self._waiting.popleft() for _ in range(self._size()))
        return _Share(items, self._clock())

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
        size = batch_size(len(self._waiting), len(self._load)) if self._is_drawn else BATCH
        return min(len(self._waiting), size)

    def _send(self, share: _Share, worker: str) -> None:
        packed = pack(self._target)
        assert packed is not None, "targets that cannot travel are measured here"
        candidates = tuple(candidate for _, candidate in share.items)
        limits = tuple(map(self._limit_seconds, candidates))
        job = Job(Batch.make(packed, self._lower, candidates), limits)
        future = self._cluster.submit(run_job, job, next(self._keys), self._wanted, worker)
        share.runs[worker] = future
        self._shares[future.key] = share
        self._load[worker] += 1
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
        match future.status:
            case "finished":
                yield from self._fetch(share, future)
            case "lost" | "pending":  # its worker died with the result: the next look sees to it
                future.add_done_callback(self._done.put)
            case "error":
                error = future.exception()
                if not isinstance(error, self._cluster.losses):
                    raise error
                yield from self._lose(share, future)
            case other:
                raise self._gone(f"a job is {other}")

    def _fetch(self, share: _Share, future: Any) -> Iterator[tuple[int, Measurement]]:
        """Take the results of a share from the worker that has them; later if it does not give them."""
        try:
            results: Results | Refused = future.result(timeout=FETCH_SECONDS)
        except TimeoutError:
            future.add_done_callback(self._done.put)
            return
        if isinstance(results, Refused):
            raise TargetError(
                f"{self._cluster.place.text}: a worker cannot load {self._target.name} "
                f"({results.reason}); install its package on every machine"
            )
        self._close(share)
        for (place, candidate), result in zip(share.items, results, strict=True):
            yield place, to_measurement(candidate, result)

    def _close(self, share: _Share) -> None:
        if len(share.runs) == 1:  # the time of others says nothing of a usual job
            self._spent_seconds += self._clock() - share.since_seconds
            self._finished += 1
        self._cluster.cancel([run for run in share.runs.values() if not run.done()])
        for worker in list(share.runs):
            self._forget(share, worker)

    def _forget(self, share: _Share, worker: str) -> None:
        """Take a run off the books."""
        self._shares.pop(share.runs.pop(worker).key, None)
        if worker in self._load:
            self._load[worker] -= 1

    def _lose(self, share: _Share, future: Any) -> Iterator[tuple[int, Measurement]]:
        """Send a share again that lost its last run with a worker: after several such losses each candidate
        alone, and one that was lost so often by itself fails."""
        self._forget(share, next(at for at, run in share.runs.items() if run is future))
        share.losses += 1
        if share.runs:
            return
        if share.losses <= LIVES:
            self._again.append(share)
        elif len(share.items) > 1:
            now = self._clock()
            self._again.extend(_Share((item,), now) for item in share.items)
        else:
            place, candidate = share.items[0]
            reason = f"{FailureKind.DIED.opening}{share.losses} workers were lost with it"
            yield place, Failed(candidate, reason)

    def _look(self) -> Iterator[tuple[int, Measurement]]:
        """From time to time, learn which workers came and went, send what was lost again, and let idle
        workers copy late jobs."""
        now = self._clock()
        if now < self._next_look_seconds:
            return
        self._next_look_seconds = now + LOOK_SECONDS * (1 + len(self._load) / 100)
        fitting = self._cluster.fitting(self._wanted)
        if fitting:
            self._lonely_since_seconds = now
        elif now - self._lonely_since_seconds > LONELY_SECONDS:
            raise self._gone(f"no worker that fits is left for {LONELY_SECONDS:g} s")
        self._load = {worker: self._load.get(worker, 0) for worker in fitting}
        for share in self._open():
            for worker, run in list(share.runs.items()):
                if worker not in self._load and not run.done():
                    self._cluster.cancel([run])
                    yield from self._lose(share, run)
        self._copy([share for share in self._open() if self._is_late(share, now)])

    def _is_late(self, share: _Share, now: float) -> bool:
        known = self._spent_seconds / self._finished if self._finished else UNKNOWN_SECONDS
        return now - share.since_seconds > LATE_SECONDS + LATE_FACTOR * known

    def _copy(self, late: list[_Share]) -> None:
        """Send a copy of each late share that has one run to an idle worker, as far as there are."""
        idle = [worker for worker, load in self._load.items() if load == 0]
        single = [share for share in late if len(share.runs) == 1]
        for share, worker in zip(single, idle, strict=False):
            self._send(share, worker)

    def _gone(self, cause: str) -> TargetError:
        return TargetError(
            f"{self._cluster.place.text}: the scheduler or its workers are gone ({cause}); what was "
            "measured is stored: start them and run the command again"
        )
