"""Serving requests while a session is tuned: by the published version, or by one on trial.

A request reads a reference and counts; it never waits for a lock or a compiler.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import RunTrace, execute
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_table import CurrentTable, GroupStep, ProgramTable
from autotune.runtime.online.input_samples import EVERY, InputSamples
from autotune.runtime.online.live_trial import LiveTrial
from autotune.runtime.variants.edits import Edit
from autotune.targets.protocol import Target

WINDOW_RUNS = 64
"""Runs whose median tells what a group takes now."""

Seconds = Mapping[GroupName, float]
"""What each group of a plan takes in one run."""
Nanoseconds = npt.NDArray[np.int64]


class Serving:
    """Runs requests, from any threads. One other thread begins and ends trials, and reads what groups take."""

    def __init__(self, published: CurrentTable, target: Target) -> None:
        self.published, self._target = published, target
        self.samples = InputSamples()
        self.runs = 0
        """Requests so far."""
        self._ticks = itertools.count()
        self._window: deque[tuple[Nanoseconds, bool]] = deque(maxlen=WINDOW_RUNS)
        self._trial: tuple[LiveTrial[Edit], ProgramTable] | None = None

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], RunTrace]:
        """Run one request; return outputs and costs. It uses one version from start to end."""
        begun = next(self._ticks)
        trial = self._trial
        is_proposed = trial is not None and trial[0].takes()
        table = trial[1] if trial is not None and is_proposed else self.published.current
        outputs, trace = execute(table, self._target, inputs)
        is_alone = next(self._ticks) == begun + 1  # no other request began or ended meanwhile
        taken: Nanoseconds = trace.groups.nanoseconds  # type: ignore[attr-defined]  # one native call
        if not is_proposed:
            self._window.append((taken, is_alone))
        if trial is not None:
            trial[0].note(taken, is_proposed, is_alone)
        if not self.runs % EVERY:
            self.samples.offer(inputs)
        self.runs += 1
        return outputs, trace

    def begin_trial(self, trial: LiveTrial[Edit], proposed: ProgramTable) -> None:
        """Let a proposed version serve the share of requests that the trial takes."""
        self._trial = trial, proposed

    def end_trial(self) -> None:
        """Serve by the published version alone."""
        self._trial = None

    def renew(self) -> None:
        """Forget what groups took: another version runs from now on."""
        self._window = deque(maxlen=WINDOW_RUNS)

    def seconds(self) -> Seconds | None:
        """Return what each group of the published version takes; None before there are enough runs."""
        runs = tuple(self._window)
        steps = self.published.current.group_steps
        if len(runs) < WINDOW_RUNS or any(len(ns) != len(steps) for ns, _ in runs):
            return None
        alone = [ns for ns, is_alone in runs if is_alone]
        chosen = alone if len(alone) >= WINDOW_RUNS // 2 else [ns for ns, _ in runs]
        return median_seconds(steps, chosen)


def median_seconds(steps: Sequence[GroupStep], runs: Sequence[Nanoseconds]) -> Seconds:
    """Return the median seconds of each step's group: its median share of a run, of the median run.

    A machine that is slower for some runs, for all groups alike, changes no share.
    """
    taken = np.maximum(np.stack(list(runs)), 1).astype(np.float64)
    totals = taken.sum(axis=1)
    found = np.median(taken / totals[:, None], axis=0) * float(np.median(totals)) * 1e-9
    return {step.operators: float(x) for step, x in zip(steps, found, strict=True)}
