"""Learning from runs: hands finished runs to a background worker without delaying the next one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Generic

from autotune.errors import AutotuneError
from autotune.graph.graph import Array
from autotune.runtime.event import Event, EventKind
from autotune.runtime.execution import RunTrace
from autotune.runtime.learner import FinishedRun, Learner, Workplace
from autotune.runtime.learning import Learning, M, OnlineOptions
from autotune.runtime.program_cache import ProgramCache
from autotune.runtime.published import Published
from autotune.store.store import Store
from autotune.targets.protocol import Target


class OnlineTrainer(Generic[M]):
    """Takes in runs without delaying them; one worker thread does the rest.

    A failure in the worker ends the learning, never the runs: it is an event, and ``wait_idle``
    and ``close`` raise it.
    """

    def __init__(
        self,
        published: Published,
        target: Target,
        cache: ProgramCache,
        store: Store,
        model: M,
        learning: Learning[M],
        options: OnlineOptions,
        *,
        calibrated_error: float | None,
        trusted_since_seconds: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pending: deque[FinishedRun] = deque(maxlen=options.backlog_runs)
        self._dropped = 0
        self._finished = 0
        self._task: Future[None] | None = None
        self._events: list[Event] = []
        self._learner = Learner(
            Workplace(
                published, target, cache, store, options, clock, self._stopping.is_set, self._tell
            ),
            model,
            learning,
            calibrated_error=calibrated_error,
            trusted_since_seconds=trusted_since_seconds,
        )
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="autotune-online")

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened so far, oldest first."""
        with self._lock:
            return tuple(self._events)

    def observe(self, trace: RunTrace, inputs: Mapping[str, Array]) -> None:
        """Hand over one finished run. Returns at once.

        When the worker is so far behind that its backlog is full, the oldest run is dropped, and
        an event says so.
        """
        with self._lock:
            if self._stopping.is_set() or self._failed():
                return
            self._finished += 1
            self._dropped += len(self._pending) == self._pending.maxlen
            self._pending.append(FinishedRun(self._clock(), trace, inputs))
            if self._task is not None:
                return
            task = self._task = self._worker.submit(self._drain)
        task.add_done_callback(self._note_failure)

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when everything handed over is learned. Raises ``AutotuneError`` when that takes
        longer, or when the worker failed."""
        with self._lock:
            task = self._task
        if task is None:
            return
        try:
            error = task.exception(timeout_seconds)
        except FutureTimeoutError:
            raise AutotuneError(
                f"online learning is still busy after {timeout_seconds} s; wait longer"
            ) from None
        if error is not None:
            raise AutotuneError(f"online learning stopped: {error}") from error

    def close(self) -> None:
        """Stop after the current step of work; what was handed over is stored. Raises
        ``AutotuneError`` when the worker failed."""
        self._stopping.set()
        self._worker.shutdown(wait=True)
        self.wait_idle()

    def _failed(self) -> bool:
        return self._task is not None and self._task.done() and self._task.exception() is not None

    def _note_failure(self, task: Future[None]) -> None:
        error = task.exception()
        if error is not None:
            text = f"online learning stopped: {error}"
            self._tell(Event(EventKind.FAILED, self._finished, self._clock(), text, {}))

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    def _drain(self) -> None:
        """The worker's task: take batches until nothing is left."""
        while True:
            with self._lock:
                batch = list(self._pending)
                self._pending.clear()
                dropped, self._dropped = self._dropped, 0
                if not batch:
                    self._task = None
                    return
            if dropped:
                self._learner.tell(
                    EventKind.DROPPED, f"{dropped} runs were too many to store", runs=dropped
                )
            self._learner.take(batch)
