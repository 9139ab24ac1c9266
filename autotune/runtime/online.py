"""Learning from runs: a background worker that stores what runs cost, follows the machine's drift,
retrains the cost model, and replaces the plan when a better one is found and proven."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from autotune.errors import AutotuneError, InputError
from autotune.fusion.group import Group
from autotune.graph.graph import Array
from autotune.measure.measurement import Failed, Measured
from autotune.measure.runner import measure
from autotune.runtime.belief import Belief
from autotune.runtime.choice import Choice
from autotune.runtime.drift import Drift, DriftDetector, DriftRule
from autotune.runtime.event import Event, EventKind
from autotune.runtime.execution import RunTrace
from autotune.runtime.program_cache import ProgramCache
from autotune.runtime.program_table import CostKey, ProgramTable, compile_table
from autotune.runtime.published import Published
from autotune.runtime.trial import Trial, compare
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.search.records import to_record
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import Target


class Model(Protocol):
    """What online learning needs of a cost model."""

    def predict(self, group: Group, schedule: Schedule) -> float:
        """Cycles of a group run by a schedule."""
        ...


class Learning(Protocol):
    """What a trainer does with a model: fit one, keep it, and plan by it."""

    def fit(self, records: Sequence[Record]) -> Model:
        """A model of these costs."""
        ...

    def save(self, model: Model, error: float | None, since_seconds: float) -> None:
        """Keep the model for later sessions, with its held-out error (a fraction, None when it
        was not measured) and the time from which on measurements can be trusted."""
        ...

    def plan(self, model: Model) -> Sequence[Choice]:
        """The best plan that a small search finds by the model."""
        ...


@dataclass(frozen=True, slots=True)
class OnlineOptions:
    """How a session learns. ``margin`` is the predicted gain (a fraction) from which on a plan is
    measured; ``routine_runs`` the runs after which news is learned without drift; ``remeasure``
    the known candidates that are measured again after drift."""

    rule: DriftRule = field(default_factory=DriftRule)
    margin: float = 0.02
    routine_runs: int = 64
    remeasure: int = 160
    backlog_runs: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise InputError(f"margin {self.margin} is not in 0..1; 0.02 asks for 2 %")
        for name in ("routine_runs", "remeasure", "backlog_runs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)} must be ≥ 1")


NEWS_TOLERANCE = 0.01
"""A candidate whose cost moved by less than this fraction is no news."""

HELD_OUT = 5
"""Every fifth re-measured candidate is kept from training, to say what retraining achieved."""


class OnlineTrainer:
    """Takes in traces without delaying the run that made them; one worker thread does the rest.

    A failure in the worker ends the learning, never the runs: it is an event, and ``wait_idle``
    and ``close`` raise it.
    """

    def __init__(
        self,
        published: Published,
        target: Target,
        cache: ProgramCache,
        store: Store,
        model: Model,
        learning: Learning,
        options: OnlineOptions,
        *,
        calibrated_error: float | None,
        trusted_since_seconds: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._published = published
        self._target = target
        self._cache = cache
        self._store = store
        self._model = model
        self._learning = learning
        self._options = options
        self._clock = clock
        self._rng = np.random.default_rng(options.seed)
        known = store.records(target.spec.profile_id)
        self._belief = Belief(known, trusted_since_seconds)
        self._detector = DriftDetector(options.rule, calibrated_error)
        self._since_seconds = trusted_since_seconds
        self._finished_at: deque[tuple[int, float]] = deque(maxlen=options.rule.window_runs)
        self._examined = 0
        self._learned_at_run = 0
        self._lock = threading.Lock()
        self._pending: deque[tuple[float, RunTrace]] = deque(maxlen=options.backlog_runs)
        self._dropped = 0
        self._inputs: Mapping[str, Array] = {}
        self._task: Future[None] | None = None
        self._events: list[Event] = []
        self._stopping = threading.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="autotune-online")

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened so far, oldest first."""
        with self._lock:
            return tuple(self._events)

    def observe(self, trace: RunTrace, inputs: Mapping[str, Array]) -> None:
        """Hand over one finished run. Returns at once."""
        with self._lock:
            if self._stopping.is_set() or self._failed():
                return
            self._dropped += len(self._pending) == self._pending.maxlen
            self._pending.append((self._clock(), trace))
            self._inputs = inputs
            if self._task is None:
                self._task = self._worker.submit(self._drain)
                self._task.add_done_callback(self._note_failure)

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
        """Stop after the current step of work; what was measured is stored. Raises
        ``AutotuneError`` when the worker failed."""
        self._stopping.set()
        self._worker.shutdown(wait=True)
        self.wait_idle()

    def _failed(self) -> bool:
        return self._task is not None and self._task.done() and self._task.exception() is not None

    def _note_failure(self, task: Future[None]) -> None:
        error = task.exception()
        if error is not None:
            self._tell(EventKind.FAILED, f"online learning stopped: {error}")

    def _tell(self, kind: EventKind, text: str, **figures: float) -> None:
        event = Event(kind, self._examined, self._clock(), text, figures)
        with self._lock:
            self._events.append(event)

    # The worker: everything below runs in its one thread.

    def _drain(self) -> None:
        while True:
            with self._lock:
                batch = list(self._pending)
                self._pending.clear()
                dropped, self._dropped = self._dropped, 0
                if not batch:
                    self._task = None
                    return
            if dropped:
                self._tell(
                    EventKind.DROPPED, f"{dropped} runs were too many to store", runs=dropped
                )
            drift = self._examine(batch)
            if self._stopping.is_set():
                continue
            if drift is not None:
                self._learn(drift)
            elif self._examined - self._learned_at_run >= self._options.routine_runs:
                self._learned_at_run = self._examined
                if self._belief.news(NEWS_TOLERANCE):
                    self._learn(None)

    def _examine(self, batch: Sequence[tuple[float, RunTrace]]) -> Drift | None:
        """Store a batch of runs; the first drift that it shows."""
        self._take_in([record for at, trace in batch for record in self._records(trace, at)])
        current, found = self._published.current, None
        for at, trace in batch:
            self._examined += 1
            self._finished_at.append((self._examined, at))
            same = (trace.plan_version, trace.model_version) == (
                current.plan_version,
                current.model_version,
            )
            if found is not None or not same or trace.error is None:
                continue
            found = self._detector.observe(self._examined, trace.error)
            if found is not None:
                self._since_seconds = self._time_of(found.first_run)
        return found

    def _time_of(self, run: int) -> float:
        return next(at for number, at in self._finished_at if number == run)

    def _records(self, trace: RunTrace, at_seconds: float) -> list[Record]:
        network = self._published.current.graph.name
        return [
            to_record(
                Measured(Candidate(run.step.group, run.step.schedule, network), run.execution),
                self._target,
                "run",
                lambda: at_seconds,
            )
            for run in trace.groups
        ]

    def _take_in(self, records: Sequence[Record]) -> None:
        self._store.add(records)
        for record in records:
            self._belief.observe(record)

    def _learn(self, drift: Drift | None) -> None:
        held_out: list[Record] = []
        if drift is not None:
            self._tell(
                EventKind.DRIFT,
                f"prediction error {drift.error:.1%} against {drift.baseline:.1%} before",
                error=drift.error,
                baseline=drift.baseline,
            )
            held_out = self._remeasure()
        if self._stopping.is_set():
            return
        pairs = self._belief.relabel(
            None if drift is None else self._since_seconds, self._options.seed
        )
        model = self._learning.fit(self._belief.records())
        self._adopt(model, held_out, pairs)
        if not self._stopping.is_set():
            self._replan()
        self._learned_at_run = self._examined
        self._detector.restart()

    def _remeasure(self) -> list[Record]:
        """Measure a sample of known candidates on the machine as it is now; half of them from this
        network where there are that many. Returns those held out from training."""
        stale = self._belief.stale(self._since_seconds)
        network = self._published.current.graph.name
        count = self._options.remeasure
        ours = self._drawn([r for r in stale if r.network == network], count // 2)
        others = self._drawn([r for r in stale if r.network != network], count - len(ours))
        records: list[Record] = []
        for record in (*ours, *others):
            if self._stopping.is_set():
                break
            candidate = Candidate(
                Group.from_json(record.group_json),
                Schedule.from_json(record.schedule_json),
                record.network,
            )
            for result in measure(self._target, [candidate], workers=1):
                if not isinstance(result, Failed):
                    records.append(to_record(result, self._target, "run", self._clock))
        held_out = records[::HELD_OUT]
        self._store.add(held_out)
        self._take_in([record for i, record in enumerate(records) if i % HELD_OUT])
        return held_out

    def _drawn(self, records: Sequence[Record], count: int) -> list[Record]:
        chosen = self._rng.permutation(len(records))[:count]
        return [records[i] for i in chosen]

    def _adopt(self, model: Model, held_out: Sequence[Record], pairs: int) -> None:
        """Publish the new model's predictions of the current plan, and keep the model."""
        before, after = _error(self._model, held_out), _error(model, held_out)
        for record in held_out:
            self._belief.observe(record)
        figures = {"candidates": float(len(self._belief)), "pairs": float(pairs)}
        text = f"on {len(self._belief)} candidates, {pairs} of them measured before and after"
        if before is not None and after is not None:
            figures |= {"error_before": before, "error_after": after}
            text += f"; held-out error {before:.1%} before, {after:.1%} after"
        self._model = model
        self._learning.save(model, after, self._since_seconds)
        version = self._published.current.model_version + 1
        self._published.update(lambda table: annotated(table, model, version))
        self._tell(EventKind.RETRAINED, text, **figures)

    def _replan(self) -> None:
        """Search by the new model; try the plan when it promises enough."""
        current = self._published.current
        proposed = compile_table(
            current.graph,
            self._learning.plan(self._model),
            self._target.spec,
            self._cache,
            model_version=current.model_version,
        )
        proposed = annotated(proposed, self._model, current.model_version)
        old, new = current.predicted_cycles, proposed.predicted_cycles
        assert old is not None and new is not None
        gain = 1 - new / old
        figures = {"current_cycles": old, "proposed_cycles": new, "gain": gain}
        if gain < self._options.margin:
            self._tell(
                EventKind.KEPT,
                f"best plan found is predicted {gain:+.1%} better, below the margin of "
                f"{self._options.margin:.0%}",
                **figures,
            )
            return
        self._tell(EventKind.PROPOSED, f"a plan predicted {gain:.1%} better", **figures)
        with self._lock:
            inputs = self._inputs
        self._decide(proposed, compare(current, proposed, self._target, inputs))

    def _decide(self, proposed: ProgramTable, trial: Trial) -> None:
        old, new = trial.current.cycles, trial.proposed.cycles
        at = self._clock()
        self._take_in([*self._records(trial.current, at), *self._records(trial.proposed, at)])
        figures = {
            "current_cycles": float(old),
            "proposed_cycles": float(new),
            "gain": 1 - new / old,
            "largest_difference": trial.largest_difference,
        }
        self._tell(EventKind.MEASURED, f"{new} cycles against {old} of the current plan", **figures)
        if not trial.agrees:
            self._tell(
                EventKind.REFUSED,
                f"its outputs differ by {trial.largest_difference:.2g} from the current plan's",
                **figures,
            )
        elif new >= old:
            self._tell(EventKind.REFUSED, "measured no better than the current plan", **figures)
        else:
            version = self._published.swap(proposed).plan_version
            self._tell(
                EventKind.SWAPPED,
                f"plan {version} runs from now on, {1 - new / old:.1%} faster",
                plan_version=float(version),
                **figures,
            )


def annotated(table: ProgramTable, model: Model, version: int) -> ProgramTable:
    """The table with a model's predictions in place of those that it carries."""
    steps: dict[CostKey, float] = {
        step.key: model.predict(step.group, step.schedule) for step in table.group_steps
    }
    return table.with_predictions(steps, version)


def _error(model: Model, records: Sequence[Record]) -> float | None:
    """Mean absolute relative error of a model on records; None without records."""
    if not records:
        return None
    errors = [
        abs(
            model.predict(
                Group.from_json(record.group_json), Schedule.from_json(record.schedule_json)
            )
            / record.cycles
            - 1
        )
        for record in records
    ]
    return float(np.mean(errors))
