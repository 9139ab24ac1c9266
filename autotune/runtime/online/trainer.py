"""Learning from runs: takes in finished runs without delaying the next; two threads do the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic

from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online.background_worker import BackgroundWorker
from autotune.runtime.online.learner import Learner
from autotune.runtime.online.learner_context import LearnerContext
from autotune.runtime.online.learning import Learning, M, OnlineOptions
from autotune.runtime.online.recorder import FinishedRun, Recorder
from autotune.store.store import Store
from autotune.targets.protocol import Target

RECORDS_KEPT = 50_000
"""Records of runs that stay in the store per machine: a small network makes millions in an hour."""

PRUNE_EVERY = 25_000
"""Records between two prunings, so that pruning costs little beside storing."""


class OnlineTrainer(Generic[M]):
    """Stores every run in one thread and learns from them in another, so that a long search does
    not keep runs from the store.

    A failure ends the learning, never the runs: it is an event, and ``wait_idle`` and ``close``
    raise it.
    """

    def __init__(
        self,
        published: CurrentTable,
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
        self._store = store
        self._profile_id = target.spec.profile_id
        self._stored = 0
        self._has_stored = False
        self._recorder = Recorder(target, published.current.graph.name)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._finished = 0
        self._inputs: Mapping[str, Array] = {}
        self._events: list[Event] = []
        self._learner = Learner(
            LearnerContext(
                published, target, cache, store, self._recorder, options, lambda: self._inputs,
                self._waiting, clock, self._stopping.is_set, self._tell,
            ),
            model,
            learning,
            calibrated_error=calibrated_error,
            trusted_since_seconds=trusted_since_seconds,
        )  # fmt: skip
        limit = options.backlog_runs
        self._recording = BackgroundWorker[tuple[float, RunTrace]](
            "recording", self._record, limit, self._note_failure
        )
        self._learning = BackgroundWorker[FinishedRun](
            "learning", self._learner.take, limit, self._note_failure, in_background=True
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened so far, oldest first."""
        with self._lock:
            return tuple(self._events)

    def observe(self, trace: RunTrace, inputs: Mapping[str, Array]) -> None:
        """Hand over one finished run. Returns at once.

        When recording is so far behind that its backlog is full, the oldest run is dropped, and an
        event says so.
        """
        with self._lock:
            self._finished += 1
        self._inputs = inputs
        self._recording.put((self._clock(), trace))

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when everything handed over is stored and learned from. Raises ``AutotuneError``
        when either takes longer, or has failed."""
        self._recording.wait(timeout_seconds)
        self._learning.wait(timeout_seconds)

    def close(self) -> None:
        """Stop after the current step of work; what was handed over is stored. Raises
        ``AutotuneError`` when recording or learning has failed."""
        self._stopping.set()
        try:
            self._recording.close()
        finally:
            self._learning.close()

    def _waiting(self, count: int) -> list[FinishedRun]:
        return self._learning.newest(count)

    def _record(self, batch: list[tuple[float, RunTrace]]) -> None:
        """The recording thread's work."""
        dropped = self._recording.take_dropped()
        if dropped:
            text = f"{dropped} runs came faster than they could be stored, and were not"
            self._note(EventKind.DROPPED, text, runs=dropped)
        runs = [self._recorder.finished(trace, at) for at, trace in batch]
        records = [record for run in runs for record in run.records]
        self._store.add(records)
        if not self._has_stored:
            self._has_stored = True
            self._learner.started(self._clock())
        self._stored += len(records)
        if self._stored >= PRUNE_EVERY:
            self._store.prune_runs(self._profile_id, RECORDS_KEPT)
            self._stored = 0
        for run in runs:
            self._learning.put(run)

    def _note_failure(self, error: BaseException) -> None:
        self._stopping.set()
        self._note(EventKind.FAILED, f"online learning stopped: {error}")

    def _note(self, kind: EventKind, text: str, **figures: float) -> None:
        self._tell(Event(kind, self._finished, self._clock(), text, figures))

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
