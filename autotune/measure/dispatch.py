"""One run over worker processes: hands out batches, survives deaths, yields results in order."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autotune.measure.attempt import Lower, attempt
from autotune.measure.batching import BATCH, BATCH_ALONE, PORTIONS, batch_size, round_batch_size
from autotune.measure.deadline import within
from autotune.measure.measurement import Failed, FailureKind, Measured, Measurement, overdue
from autotune.measure.packing import pack
from autotune.measure.pool import Pool
from autotune.measure.process import WorkerProcess
from autotune.measure.worker import At, Batch, Begun, Go, Prepared, Ready, Refused, Timed
from autotune.schedule.candidate import Candidate
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import ExclusiveTarget, Execution, Target


def to_measurement(candidate: Candidate, result: Execution | str) -> Measurement:
    """Wrap the result of an attempt as a measurement."""
    if isinstance(result, str):
        return Failed(candidate, result)
    return Measured(candidate, result)


def measured_here(
    target: Target, candidate: Candidate, lower: Lower, limit_seconds: float
) -> Measurement:
    """Measure a candidate in this process, in a thread of its own where the target may hang."""
    if isinstance(target, EmulatorTarget):  # every loop of a verified program is bounded
        return to_measurement(candidate, attempt(target, candidate, lower))
    try:
        result = within(limit_seconds, lambda: attempt(target, candidate, lower))
    except TimeoutError:
        return Failed(candidate, overdue(limit_seconds))
    return to_measurement(candidate, result)


LOSSES = 8
"""Workers that a run may lose outside of a candidate, by loading the target or by a signal, before it
goes on in this process."""


@dataclass(slots=True)
class _Job:
    """A worker's batch in progress.

    ``left``: candidates without an answer, by place in the batch. ``at``: the place in work, None
    while the worker waits. ``since_seconds``: when that place began, less the time spent on it
    before, and ``limit_seconds`` how long that may be in all. ``ready``: everything is prepared.
    ``timing``: the worker measures.
    """

    left: dict[int, tuple[int, Candidate]]
    at: int | None = None
    since_seconds: float | None = None
    ready: bool = False
    timing: bool = False
    limit_seconds: float = float("inf")

    def begin(self, place: int, seconds: float, limit_seconds: float) -> None:
        """Note the place in work from now on."""
        self.at, self.since_seconds, self.limit_seconds = place, seconds, limit_seconds

    def pause(self) -> None:
        """Note that no place is in work."""
        self.at = self.since_seconds = None

    @property
    def overdue_at_seconds(self) -> float | None:
        """When the place in work has taken too long; None while there is none."""
        return None if self.since_seconds is None else self.since_seconds + self.limit_seconds


class Dispatch:
    """Runs candidates over lent workers, or in this process if no worker can load the target.

    At most a few batches per worker are drawn ahead of the results. On a target that runs alone,
    workers go in rounds: all prepare a batch side by side while this process draws the next. Then
    each times its own batch while the others wait, so that nothing takes a core from the timing."""

    def __init__(
        self,
        target: Target,
        candidates: Iterator[Candidate],
        lower: Lower,
        pool: Pool,
        workers: int,
        limit_seconds: Callable[[Candidate], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._alone = isinstance(target, ExclusiveTarget)
        self._candidates = enumerate(candidates)
        self._lower = lower
        self._pool = pool
        self._ahead = (BATCH_ALONE if self._alone else BATCH) * PORTIONS * workers
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._count = workers
        self._losses = 0
        self._waiting: deque[tuple[int, Candidate]] = deque()
        self._results: dict[int, Measurement] = {}
        self._idle: list[WorkerProcess] = []
        self._jobs: dict[WorkerProcess, _Job] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> Iterator[Measurement]:
        """One measurement per candidate, in order. Closing the iterator kills busy workers."""
        try:
            for worker in self._pool.lend(self._count):
                self._enlist(worker)
            index = 0
            while self._advance(index):
                yield self._results.pop(index)
                index += 1
        finally:
            self._selector.close()
            self._pool.end(self._jobs)
            self._pool.give_back(self._idle)

    def _advance(self, index: int) -> bool:
        """Work until result ``index`` exists; return False when no candidate is left."""
        while True:
            if self._alone:
                self._finish_round()
                if index in self._results:
                    return True
            while self._draw():
                pass
            self._assign()
            if index in self._results:
                self._receive(block=False)
                return True
            if self._jobs:
                self._receive(block=True)
            elif self._waiting:
                self._do_here()
            else:
                return False

    def _finish_round(self) -> None:
        """Work until every batch is prepared and, one worker after the other, timed."""
        while self._jobs:
            timing = any(job.timing for job in self._jobs.values())
            if not timing and self._all_wait:
                self._begin_timing(next(iter(self._jobs)))
                continue  # it may have died, and been the last
            self._receive(block=timing or not self._draw())

    @property
    def _all_wait(self) -> bool:
        """True when every batch is prepared and every replacement of a worker has started."""
        prepared = all(job.ready for job in self._jobs.values())
        return prepared and all(worker.ready for worker in self._idle)

    def _begin_timing(self, worker: WorkerProcess) -> None:
        self._jobs[worker].timing = True
        try:
            worker.send(Go())
        except OSError:
            self._lose(worker)

    def _draw(self) -> bool:
        """Draw one more candidate; return False when enough wait, or none is left."""
        if len(self._waiting) >= self._ahead:
            return False
        item = next(self._candidates, None)
        if item is not None:
            self._waiting.append(item)
        return item is not None

    def _assign(self) -> None:
        while self._idle and self._waiting and (not self._jobs or self._may_run_ahead):
            target = pack(self._target)
            if target is None:
                self._dismiss()
                return
            items = [self._waiting.popleft() for _ in range(self._size())]
            worker = self._idle.pop()
            self._jobs[worker] = _Job(dict(enumerate(items)))
            try:
                worker.send(Batch.make(target, self._lower, tuple(c for _, c in items)))
            except OSError:
                self._lose(worker)

    def _size(self) -> int:
        """Return the number of candidates of the next batch."""
        count = len(self._waiting)
        if self._alone:
            waiting = (candidate for _, candidate in self._waiting)
            return round_batch_size(waiting, count, len(self._idle))
        return batch_size(count, self._count)

    @property
    def _may_run_ahead(self) -> bool:
        """True while there is room for results out of order."""
        return len(self._results) < 2 * self._ahead

    def _do_here(self) -> None:
        index, candidate = self._waiting.popleft()
        self._results[index] = measured_here(
            self._target, candidate, self._lower, self._limit_seconds(candidate)
        )

    def _receive(self, block: bool) -> None:
        for key, _ in self._selector.select(self._patience() if block else 0):
            if not self._selector.get_map():
                break  # the loss of the one before was one too many, and all were dismissed
            worker: WorkerProcess = key.data
            try:
                answer = worker.receive()
            except (EOFError, OSError):
                self._lose(worker)
                continue
            match answer:
                case Ready():
                    worker.ready = True
                case Begun():
                    self._begin(worker, 0, self._clock())
                case At(place, spent_seconds):
                    self._begin(worker, place, self._clock() - spent_seconds)
                case Prepared():
                    self._jobs[worker].ready = True
                    self._jobs[worker].pause()
                case Refused():
                    self._dismiss()
                    return
                case Timed(place, result):
                    self._take_in(worker, place, result)
                case _:
                    self._take_in(worker, next(iter(self._jobs[worker].left)), answer)
        self._end_overdue()

    def _take_in(self, worker: WorkerProcess, place: int, answer: Execution | str) -> None:
        job = self._jobs[worker]
        index, candidate = job.left.pop(place)
        self._results[index] = to_measurement(candidate, answer)
        if job.left:
            self._begin(worker, next(iter(job.left)), self._clock())
        else:
            del self._jobs[worker]
            self._idle.append(worker)

    def _begin(self, worker: WorkerProcess, place: int, seconds: float) -> None:
        job = self._jobs[worker]
        job.begin(place, seconds, self._limit_seconds(job.left[place][1]))

    def _patience(self) -> float | None:
        """Return the seconds until the first busy worker is overdue; None while all wait."""
        times = [job.overdue_at_seconds for job in self._jobs.values()]
        first = min((seconds for seconds in times if seconds is not None), default=None)
        return None if first is None else max(0.0, first - self._clock())

    def _end_overdue(self) -> None:
        now = self._clock()
        for worker, job in list(self._jobs.items()):
            if job.overdue_at_seconds is not None and job.overdue_at_seconds <= now:
                self._fail_first(worker, overdue(job.limit_seconds))
                self._replace(worker)

    def _lose(self, worker: WorkerProcess) -> None:
        """Handle the death of a worker: its current candidate fails, the others wait again."""
        cause = worker.cause_of_death()
        job = self._jobs.get(worker)
        if job is not None and job.since_seconds is not None:
            self._fail_first(worker, f"{FailureKind.DIED.opening}{cause}")
        else:
            self._take_back(worker)
            self._losses += 1
        if not worker.ready:
            self._discharge(worker)  # it could not start, and neither would another
        elif self._losses < LOSSES:
            self._replace(worker)
        else:
            self._discharge(worker)
            self._dismiss()

    def _fail_first(self, worker: WorkerProcess, reason: str) -> None:
        job = self._jobs[worker]
        assert job.at is not None, "it was at nothing"
        index, candidate = job.left.pop(job.at)
        self._results[index] = Failed(candidate, reason)
        self._take_back(worker)

    def _take_back(self, worker: WorkerProcess) -> None:
        if worker in self._jobs:
            self._waiting.extendleft(reversed(self._jobs.pop(worker).left.values()))

    def _enlist(self, worker: WorkerProcess) -> None:
        self._selector.register(worker, selectors.EVENT_READ, worker)
        self._idle.append(worker)

    def _discharge(self, worker: WorkerProcess) -> None:
        self._selector.unregister(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._pool.end([worker])

    def _replace(self, worker: WorkerProcess) -> None:
        self._discharge(worker)
        for fresh in self._pool.lend(1):
            self._enlist(fresh)

    def _dismiss(self) -> None:
        """Go on without workers: they cannot load the target, each for the same reason."""
        for worker in [*self._jobs, *self._idle]:
            self._take_back(worker)
            self._discharge(worker)
