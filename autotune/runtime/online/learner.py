"""The learner: what an online trainer's worker does with finished runs, one batch after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic

import numpy as np

from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.online.drift import Drift, DriftDetector
from autotune.runtime.online.learner_context import LearnerContext
from autotune.runtime.online.learning import (
    Learning,
    M,
    annotated,
    model_error,
    predicted_cycles,
)
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.runtime.online.recorder import FinishedRun
from autotune.runtime.online.remeasure import remeasure, sample
from autotune.runtime.online.replanning import Replanner
from autotune.store.records import Record
from autotune.targets.protocol import ExclusiveTarget

CHANGE_TOLERANCE = 0.01
"""A candidate whose cost moved by less than this fraction is no news."""

HELD_OUT = 5
"""Every fifth re-measured candidate is kept from training, to say what retraining achieved."""

PATIENCE_RUNS = 64
"""Drift that shows again within so many runs of the last answer is noise that no model can learn:
the error is accepted as it is, instead of retraining for ever."""

_PERIODS = 64
"""Latest periods of learning that runs are compared with; a backlog of runs spans few."""


class Learner(Generic[M]):
    """Follows the prediction error of runs, and when it grows retrains the model, searches again,
    and publishes the new plan once it is proven. Used by one thread."""

    def __init__(
        self,
        work: LearnerContext,
        model: M,
        learning: Learning[M],
        *,
        calibrated_error: float | None,
        trusted_since_seconds: float,
    ) -> None:
        self._work = work
        self._model = model
        self._learning = learning
        self._error = calibrated_error
        self._rng = np.random.default_rng(work.options.seed)
        self._dataset = OnlineDataset(
            work.store.records(work.target.spec.profile_id), trusted_since_seconds
        )
        self._replanner = Replanner(work, learning, self._dataset, self._tell)
        self._assumed = trusted_since_seconds == 0.0
        self._since_seconds = trusted_since_seconds
        self._detector = DriftDetector(work.options.rule, expected=calibrated_error)
        self._finished_at: deque[tuple[int, float]] = deque(maxlen=work.options.rule.window_runs)
        self._runs = 0
        self._learned_at_run = 0
        self._drifted_at_run = -PATIENCE_RUNS
        self._runs_here = isinstance(work.target, ExclusiveTarget)
        self._quiet_since = 0.0
        self._learned: deque[tuple[float, float]] = deque(maxlen=_PERIODS)

    def take(self, batch: Sequence[FinishedRun]) -> None:
        """Take in finished runs in their order, and learn if they give reason to."""
        drift = self._examine(batch)
        if self._work.stopping():
            return
        routine = self._runs - self._learned_at_run >= self._work.options.routine_runs
        if drift is None and not routine:
            return
        begin = self._work.clock()
        if drift is None:
            self._learned_at_run = self._runs
        if drift is not None or self._dataset.count_changed(CHANGE_TOLERANCE):
            self._learn(drift)
        self._learned.append((begin, self._work.clock()))

    def started(self, at_seconds: float) -> None:
        """Learn from runs that begin after this time: those before shared this machine with loading the
        database."""
        self._quiet_since = at_seconds

    def tell(self, kind: EventKind, text: str, **figures: float) -> None:
        """Report an event."""
        self._work.tell(Event(kind, self._runs, self._work.clock(), text, figures))

    def _examine(self, batch: Sequence[FinishedRun]) -> Drift | None:
        """Return the first drift in a batch of runs."""
        current, found = self._work.published.current, None
        for run in batch:
            self._runs += 1
            self._finished_at.append((self._runs, run.at_seconds))
            if self._is_disturbed(run):
                continue
            for record in run.records:
                self._dataset.observe(record)
            error = run.error if run.versions == current.versions else None
            if found is not None or error is None:
                continue
            found = self._detector.observe(self._runs, error)
            if found is not None:
                self._since_seconds = self._time_of(found.first_run)
        return found

    def _is_disturbed(self, run: FinishedRun) -> bool:
        """Return True if the run shared this machine with learning: its times are no costs, nor drift."""
        begun = run.at_seconds - run.seconds
        return self._runs_here and (
            begun <= self._quiet_since
            or any(run.at_seconds >= begin and begun <= end for begin, end in self._learned)
        )

    def _time_of(self, run: int) -> float:
        return next(at for number, at in self._finished_at if number == run)

    def _learn(self, drift: Drift | None) -> None:
        """Measure again after drift, retrain, search again."""
        if not self._assumed:
            self._dataset.adopt_predictions(lambda record: predicted_cycles(self._model, record))
            self._assumed = True
        held_out = [] if drift is None else self._answer(drift)
        if self._work.stopping():
            return
        self._retrain(None if drift is None else self._since_seconds, held_out)
        if not self._work.stopping() and self._replan(interruptible=drift is None):
            self._retrain(None, ())
        in_vain = drift is not None and self._runs - self._drifted_at_run < PATIENCE_RUNS
        self._detector.restart(None if in_vain else self._expected_error())
        self._learned_at_run = self._runs
        if drift is not None:
            self._drifted_at_run = self._runs

    def _expected_error(self) -> float:
        """Error of the current predictions on what the current plan's groups are believed to cost;
        what the next runs should show."""
        miss = total = 0.0
        for step in self._work.published.current.group_steps:
            cycles = self._dataset.cycles(step.key)
            if cycles is not None and step.predicted_cycles is not None:
                miss += abs(step.predicted_cycles - cycles)
                total += cycles
        return miss / total if total else 0.0

    def _answer(self, drift: Drift) -> list[Record]:
        """Measure a sample of known candidates on the machine as it is now. Returns the records
        that are held out from training."""
        self.tell(
            EventKind.DRIFT,
            f"prediction error {drift.error:.1%} against {drift.baseline:.1%} before",
            error=drift.error,
            baseline=drift.baseline,
        )
        work = self._work
        stale = self._dataset.stale(self._since_seconds)
        network = work.published.current.graph.name
        chosen = sample(stale, network, work.options.remeasure, self._rng)
        fresh = remeasure(chosen, work.target, work.clock, work.stopping)
        held_out = fresh[::HELD_OUT]
        work.store.add(held_out)
        self._replanner.take_in([record for i, record in enumerate(fresh) if i % HELD_OUT])
        return held_out

    def _retrain(self, since_seconds: float | None, held_out: Sequence[Record]) -> None:
        """Fit a model on what is believed now, publish its predictions of the current plan, and
        keep it. ``held_out`` then says what that achieved."""
        pairs = self._dataset.incorporate_fresh(since_seconds, self._work.options.seed)
        model = self._learning.fit(self._dataset.training_set())
        before, after = model_error(self._model, held_out), model_error(model, held_out)
        for record in held_out:
            self._dataset.observe(record)
        figures = {"candidates": float(len(self._dataset))}
        text = f"on {len(self._dataset)} candidates"
        if since_seconds is not None:
            figures["pairs"] = float(pairs)
            text += f", {pairs} of them measured before and after"
        if before is not None and after is not None:
            figures |= {"error_before": before, "error_after": after}
            text += f"; held-out error {before:.1%} before, {after:.1%} after"
        is_worse = before is not None and after is not None and after > before
        if is_worse:
            self._error = before
            self.tell(EventKind.REFUSED, f"a model {text}: the one before stays", **figures)
            return
        self._model = model
        if after is not None:
            self._error = after
        self._learning.save(model, self._error, self._since_seconds)
        version = self._work.published.current.model_version + 1
        self._work.published.update(lambda table: annotated(table, model, version))
        self.tell(EventKind.RETRAINED, text, **figures)

    def _drift_waits(self) -> bool:
        """Return True if the runs that came in meanwhile show drift: no time to finish what was begun.
        On this machine they only show what the search takes from them."""
        if self._runs_here:
            return False
        rule, versions = self._work.options.rule, self._work.published.current.versions
        runs = enumerate(self._work.waiting(rule.window_runs))
        window = [(i, r.error) for i, r in runs if r.error is not None and r.versions == versions]
        return rule.beyond(window, self._expected_error()) is not None

    def _replan(self, interruptible: bool) -> bool:
        """Look for a better plan by the model. Says whether one was swapped in."""
        return self._replanner.replan(
            self._model,
            lambda: self._work.stopping() or (interruptible and self._drift_waits()),
        )

    def _tell(self, kind: EventKind, text: str, figures: dict[str, float]) -> None:
        self.tell(kind, text, **figures)
