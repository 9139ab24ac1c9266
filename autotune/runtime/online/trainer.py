"""Learning from runs: takes in finished runs without delaying the next; two threads do the rest."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic

from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online.background_worker import BackgroundWorker, Failure, Life, Restart, Work
from autotune.runtime.online.drift import DriftRule
from autotune.runtime.online.host_drift import HostDriftRule, looks_apart_seconds
from autotune.runtime.online.learned_state import LearnedState
from autotune.runtime.online.learner import Learner
from autotune.runtime.online.learner_context import LearnerContext
from autotune.runtime.online.learning import Learning, M, OnlineOptions
from autotune.runtime.online.recorder import Recorder
from autotune.runtime.online.run_blocks import RunBlocks
from autotune.runtime.online.run_monitor import Followed
from autotune.runtime.online.steady_clock import SteadyClock
from autotune.runtime.online.watching import ON_TRIAL
from autotune.store.store import Store
from autotune.targets.protocol import ExclusiveTarget, Target
from autotune.tuner.choice import Choice

RECORDS_KEPT = 50_000
"""Records of runs that stay in the store per machine: a small network makes millions in an hour."""

PRUNE_EVERY = 25_000
"""Records between two prunings, so that pruning costs little beside storing."""

EVENTS_KEPT = 1_000
"""Newest events of a session."""

GATHER_SECONDS, RECORD_SECONDS = 0.25, 2.0
"""On this machine runs are handed over together, four times a second: each hand-over wakes a thread beside the requests.
Every two seconds one of them is recorded in full: that takes Python's lock, which runs need, for milliseconds."""

_Held = tuple[float, RunTrace, int]
"""A run on its way to the store: when it ended, what it took, and 1, or 0 if a block counts it."""


class OnlineTrainer(Generic[M]):
    """Stores runs in one thread and learns from them in another, so that a long search does not keep runs from the
    store.

    A failure of either never reaches the runs: it is an event, and the work begins anew after a pause. ``wait_idle``
    and ``close`` raise a failure that lasts. ``closing`` is set when the session closes. Threads of its own call ``drifted``
    when drift is found, and ``hand_over`` with a plan to try.
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
        clock: Callable[[], float] | None = None,
        restart: Restart | None = None,
        closing: threading.Event | None = None,
        drifted: Callable[[], None] = lambda: None,
        hand_over: Callable[[Sequence[Choice]], None] = lambda choices: None,
    ) -> None:
        self._clock = SteadyClock() if clock is None else clock
        self._published, self._target, self._cache, self._store = published, target, cache, store
        self._options, self._learning_by = options, learning
        self._closing = threading.Event() if closing is None else closing
        self._drifted, self._hand_over = drifted, hand_over
        self._runs_here = isinstance(target, ExclusiveTarget)
        self._look_seconds = looks_apart_seconds(options.rule) if self._runs_here else 0.0
        self._next_look_seconds = 0.0
        self._held: deque[_Held] = deque()
        self._blocks = _blocks(options.rule) if self._runs_here else None
        self._handing = threading.Lock()
        self._next_handing_seconds = 0.0
        self._stored, self._next_seconds = 0, 0.0
        self._recorder = Recorder(target, published.current.graph.name)
        self._lock = threading.Lock()
        self._finished = 0
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        # a clock that was ahead when the model was trained must not make all that follows old
        now = self._clock()
        self._state = LearnedState(model, calibrated_error, min(trusted_since_seconds, now), now)
        limit = options.backlog_runs
        self._recording = BackgroundWorker[_Held](
            "recording", lambda life: self._record, limit, self._failed("recording"),
            recovered=self._recovered("recording"), keeps=True, restart=restart,
        )  # fmt: skip
        self._learning = BackgroundWorker[Followed](
            "learning", self._begin_learning, limit, self._failed("learning"),
            recovered=self._recovered("learning"), in_background=not self._runs_here, restart=restart,
        )  # fmt: skip

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        with self._lock:
            return tuple(self._events)

    def observe(self, trace: RunTrace, count: int = 1, ago_seconds: float = 0.0) -> None:
        """Take one finished run, which ended ``ago_seconds`` ago; with it the session has finished ``count`` more.

        Returns at once. Of short runs on this machine some are looked at, as many as the drift detector takes; each stands for
        those before it. They are held until the next hand-over.

        When recording is so far behind that its backlog is full, the oldest run is dropped, and an
        event says so.
        """
        self._finished += count  # a lost count between threads only numbers an event
        now = self._clock() - ago_seconds
        if now < self._next_look_seconds:
            return
        self._next_look_seconds = now + self._look_seconds
        if self._blocks is None:
            self._held.append((now, trace, 1))
        else:
            if self._is_recorded(now):
                self._held.append((now, trace, 0))
            if trace.plan_version != ON_TRIAL:
                self._blocks.add(trace, now)
        if self._runs_here and now < self._next_handing_seconds:
            return
        self._next_handing_seconds = now + GATHER_SECONDS
        self._hand_over_runs()

    def _hand_over_runs(self) -> None:
        """Hand over what is held, in its order; blocks have no records, and go straight to learning."""
        with self._handing:
            runs = [self._held.popleft() for _ in range(len(self._held))]
            self._recording.put_all(runs)
            if self._blocks is not None:
                self._learning.put_all(self._blocks.take(self._finished))

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when everything handed over is stored and learned from. Raises ``AutotuneError``
        when either takes longer, or has failed and not gone on since."""
        self._hand_over_runs()
        self._recording.wait(timeout_seconds)
        self._learning.wait(timeout_seconds)

    def close(self) -> None:
        """Stop after the current step of work; what was handed over is stored. Raises
        ``AutotuneError`` when recording or learning has failed and not gone on since."""
        self._closing.set()
        self._hand_over_runs()
        try:
            self._recording.close()
        finally:
            self._learning.close()

    def _begin_learning(self, life: Life) -> Work[Followed]:
        """Make a learner from the store and from what is believed: the first one, or one after a failure."""
        context = LearnerContext(
            self._published, self._target, self._cache, self._store, self._recorder, self._options,
            self._learning.newest, self._clock, lambda: self._closing.is_set() or life.is_over, self._tell,
            self._hand_over,
        )  # fmt: skip
        return Learner(context, self._state, self._learning_by).take

    def _record(self, batch: list[_Held]) -> None:
        """The recording thread's work."""
        if self._stored >= PRUNE_EVERY:
            self._store.prune_runs(self._target.spec.profile_id, RECORDS_KEPT)
            self._stored = 0
        dropped = self._recording.take_dropped()
        if dropped:
            text = f"{dropped} runs came faster than they could be stored, and were not"
            self._note(EventKind.DROPPED, text, runs=dropped)
        runs = [
            self._recorder.finished(trace, at, count == 0 or self._is_recorded(at), count)
            for at, trace, count in batch
        ]
        records = [record for run in runs for record in run.records]
        self._store.add(records)
        self._stored += len(records)
        self._learning.put_all(runs)

    def _is_recorded(self, at_seconds: float) -> bool:
        """Return True if a run is to be recorded in full: elsewhere each, on this machine one now and then."""
        if self._runs_here and at_seconds < self._next_seconds:
            return False
        self._next_seconds = at_seconds + RECORD_SECONDS
        return True

    def _failed(self, what: str) -> Callable[[Failure], None]:
        def tell(failure: Failure) -> None:
            text = f"online {what} stopped: {failure.reason}; it begins anew in {failure.pause_seconds:g} s"
            self._note(EventKind.FAILED, text, pause_seconds=failure.pause_seconds)

        return tell

    def _recovered(self, what: str) -> Callable[[], None]:
        return lambda: self._note(EventKind.RESTARTED, f"online {what} goes on")

    def _note(self, kind: EventKind, text: str, **figures: float) -> None:
        self._tell(Event(kind, self._finished, self._clock(), text, figures))

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
        if event.kind is EventKind.DRIFT:
            self._drifted()


def _blocks(rule: DriftRule | HostDriftRule | None) -> RunBlocks | None:
    """Return what makes blocks for this machine's detector; None where a rule looks at single runs."""
    own = HostDriftRule() if rule is None else rule
    return RunBlocks(own.block_runs) if isinstance(own, HostDriftRule) else None
