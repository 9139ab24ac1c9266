"""The learner: what an online trainer's worker does with finished runs, one batch after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

import numpy as np

from autotune.cost_model.replay_set import Verdict, predicted_cycles, replay_set
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.online.learned_state import LearnedState
from autotune.runtime.online.learner_context import LearnerContext
from autotune.runtime.online.learning import Learning, M, annotated, predictions
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.runtime.online.remeasure import remeasure, sample
from autotune.runtime.online.replanning import Replanner
from autotune.runtime.online.run_monitor import Followed, Reason, RunMonitor
from autotune.store.records import SEARCH, Record
from autotune.store.store import Store
from autotune.targets.protocol import ExclusiveTarget
from autotune.targets.spec import HardwareSpec, Memory

PATIENCE_RUNS = 64
"""Drift that shows again within so many runs of the last answer is noise that no model can learn:
the error is accepted as it is, instead of retraining for ever."""


def known_records(store: Store, spec: HardwareSpec) -> list[Record]:
    """Return what learning on a machine begins with: all measurements of it; on a CPU none of searches.

    A search times groups within a network whose concatenations may copy nothing, by plans that no session runs.
    """
    records = store.records(spec.profile_id)
    if spec.memory is not Memory.CACHED:
        return records
    return [record for record in records if record.source != SEARCH]


class Learner(Generic[M]):
    """Follows runs; when they give reason retrains the model, searches again, and hands the new plan over to live
    trials. Used by one thread. ``state`` outlives it: another learner goes on from there."""

    def __init__(self, work: LearnerContext, state: LearnedState[M], learning: Learning[M]) -> None:
        self._work, self._state, self._learning = work, state, learning
        self._rng = np.random.default_rng(work.options.seed)
        self._runs_here = isinstance(work.target, ExclusiveTarget)
        records = known_records(work.store, work.target.spec)
        self._dataset = OnlineDataset(records, state.since_seconds, state.trained_until_seconds)
        self._monitor = RunMonitor(
            self._dataset,
            work.options.rule,
            work.options.routine_runs,
            state.error,
            runs_here=self._runs_here,
        )
        self._replanner = Replanner(work, learning, self._dataset, self._tell)
        self._assumed = state.since_seconds == 0.0
        self._drifted_at_run = -PATIENCE_RUNS
        current = work.published.current
        self._predicted_plan = current.plan_version
        # after a failure the model may be another than the table's
        self._predicted = predictions(current) if state.unfinished is None else {}
        self._monitor.begin(work.clock())

    def take(self, batch: Sequence[Followed]) -> None:
        """Take in finished runs in their order, and learn if they give reason to."""
        self._predict_swapped()
        reason = self._monitor.examine(batch, self._work.published.current.versions)
        reason = self._state.unfinished or reason
        if self._work.stopping() or reason is None:
            return
        begin = self._work.clock()
        self._state.unfinished = reason  # if this fails, the learner that follows begins with it
        expected_error = self._learn(reason)
        self._state.unfinished = None
        self._monitor.learned(begin, self._work.clock(), reason, expected_error)

    def _predict_swapped(self) -> None:
        """Let a plan that was swapped in carry the predictions of the model in use."""
        version = self._work.published.current.plan_version
        if version == self._predicted_plan:
            return
        self._predicted_plan, model, known = version, self._state.model, self._predicted
        self._work.published.update(
            lambda table: annotated(table, model, table.model_version, known)
        )
        self._predicted = predictions(self._work.published.current)

    def _tell(self, kind: EventKind, text: str, figures: Mapping[str, float]) -> None:
        """Report an event."""
        self._work.tell(Event(kind, self._monitor.runs, self._work.clock(), text, figures))

    def _learn(self, reason: Reason) -> float | None:
        """Measure again after drift, retrain, search again. Return the error that the next runs should show."""
        drifted = reason.since_seconds is not None
        if drifted:
            self._tell(EventKind.DRIFT, reason.text, reason.figures)
        in_vain = drifted and self._monitor.runs - self._drifted_at_run < PATIENCE_RUNS
        if not self._assumed:
            model = self._state.model
            self._dataset.adopt_predictions(lambda record: predicted_cycles(model, record))
            self._assumed = True
        if reason.since_seconds is not None:
            self._measure_again(reason.since_seconds)
        if self._work.stopping():
            return None
        self._retrain(reason.since_seconds)
        if not self._work.stopping():
            self._replan(not drifted)
        if drifted:
            self._drifted_at_run = self._monitor.runs
        return None if in_vain else self._expected_error()

    def _expected_error(self) -> float | None:
        """Return the error of the current predictions on what the current plan's groups are believed to cost."""
        miss = total = 0.0
        for step in self._work.published.current.group_steps:
            cycles = self._dataset.cycles(step.key)
            if cycles is not None and step.predicted_cycles is not None:
                miss += abs(step.predicted_cycles - cycles)
                total += cycles
        return miss / total if total else None

    def _measure_again(self, since_seconds: float) -> None:
        """Measure a sample of known candidates on the machine as it is now. On this machine that would slow the
        runs, which measure their own candidates in place."""
        work = self._work
        if self._runs_here:
            return
        stale = self._dataset.stale(since_seconds)
        network = work.published.current.graph.name
        chosen = sample(stale, network, work.options.remeasure, self._rng)
        self._replanner.take_in(remeasure(chosen, work.target, work.clock, work.stopping))

    def _retrain(self, since_seconds: float | None) -> None:
        """Fit a model on what is believed now; let it take the place of the one before, with its predictions of
        the current plan, unless it errs more on candidates that neither was fitted on."""
        pairs = self._dataset.incorporate_fresh(since_seconds, self._work.options.seed)
        replayed = replay_set(self._dataset.held_out())
        fitted = self._learning.fit(
            self._dataset.training_set(since_seconds is not None),
            replayed,
            self._state.model,
            self._work.stopping,
        )
        if fitted is None:  # closing, or too few measurements for a model
            return
        model, verdict = fitted
        text, figures = self._fit_in_words(since_seconds, pairs, verdict)
        if verdict is not None and verdict.is_worse:
            self._tell(EventKind.REFUSED, f"a model {text}: the one before stays", figures)
            return
        error = self._state.error if verdict is None else verdict.after
        # what others take from this machine for a while leaves its measurements true
        since = None if self._runs_here else since_seconds
        self._state.adopt(model, error, since, self._work.clock())
        self._learning.save(model, error, self._state.since_seconds)
        version = self._work.published.current.model_version + 1
        self._work.published.update(lambda table: annotated(table, model, version))
        self._predicted = predictions(self._work.published.current)
        self._tell(EventKind.RETRAINED, text, figures)

    def _fit_in_words(
        self, since_seconds: float | None, pairs: int, verdict: Verdict | None
    ) -> tuple[str, dict[str, float]]:
        figures = {"candidates": float(len(self._dataset))}
        text = f"on {len(self._dataset)} candidates"
        if since_seconds is not None:
            figures["pairs"] = float(pairs)
            text += f", {pairs} of them measured before and after"
        if verdict is not None:
            figures |= {"error_before": verdict.before, "error_after": verdict.after}
            figures["replayed"] = float(verdict.count)
            text += (
                f"; error on {verdict.count} held out {verdict.before:.1%} before, "
                f"{verdict.after:.1%} after"
            )
        return text, figures

    def _replan(self, interruptible: bool) -> None:
        """Look for a better plan by the new model."""
        self._replanner.replan(
            self._state.model,
            lambda: self._work.stopping() or (interruptible and self._drift_waits()),
        )

    def _drift_waits(self) -> bool:
        """Return True if the runs that came in meanwhile show drift: no time to finish what was begun."""
        waiting = self._work.waiting(64)
        return self._monitor.would_drift(waiting, self._work.published.current.versions)
