"""Watches finished runs for reasons to learn: drift, a model that never fitted this machine, and news."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from statistics import median

from autotune.runtime.execution.program_table import CostKey
from autotune.runtime.online.drift import DetectedDrift, DriftDetector, DriftRule
from autotune.runtime.online.host_drift import HostDriftDetector, HostDriftRule
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.runtime.online.recorder import FinishedRun
from autotune.runtime.online.run_blocks import RunBlock

CHANGE_TOLERANCE = 0.01
"""A candidate whose cost moved by less than this fraction is no news."""

STALE_RUNS, STALE_FACTOR, STALE_FLOOR = 3, 2.0, 0.05
"""A model is stale whose error in the first runs is so many times, and by so much, above what it was calibrated to."""

ROUTINE_GROWTH, ROUTINE_MOST_RUNS = 16, 1 << 20
"""After each routine learning, the next waits for so many times as many runs, until a drift or another plan."""

ROUTINE_SECONDS_HERE = 20.0
"""On this machine, where a run may take microseconds, two looks for news lie so far apart."""

Followed = FinishedRun | RunBlock
"""What a monitor takes in: a run, or a block of runs on this machine."""

_PERIODS = 64
"""Latest periods of learning that runs are compared with; a backlog of runs spans few."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to learn, in words and figures. ``since_seconds`` is when the machine changed, None when it did
    not."""

    text: str
    figures: Mapping[str, float] = field(default_factory=dict)
    since_seconds: float | None = None


class RunMonitor:
    """Takes in the runs of a session, and says when there is reason to learn. For one thread.

    ``expected_error`` is the error that the model was calibrated to (None: unknown). ``runs_here`` says that runs
    and learning share this machine.
    """

    def __init__(
        self,
        dataset: OnlineDataset,
        rule: DriftRule | HostDriftRule | None,
        routine_runs: int,
        expected_error: float | None,
        *,
        runs_here: bool,
    ) -> None:
        self._dataset = dataset
        self._detector = _detector(rule, runs_here)
        # a group timed alone runs on other caches than in its network: no reason on this machine
        self._expected_error = None if runs_here else expected_error
        self._errors: list[tuple[float, float]] = []
        self._first_routine = self._routine_runs = routine_runs
        self._runs_here = runs_here
        self._plan: int | None = None
        self._looked_at_run, self._looked_at_seconds = 0, 0.0
        self._news: frozenset[CostKey] = frozenset()
        self._quiet_since = 0.0
        self._learned: deque[tuple[float, float]] = deque(maxlen=_PERIODS)
        self.runs = 0

    def examine(self, batch: Sequence[Followed], versions: tuple[int, int]) -> Reason | None:
        """Take in finished runs; return the first reason to learn. ``versions`` are the current plan and model."""
        if versions[0] != self._plan:
            self._plan = versions[0]
            self._detector.restart()
        reason: Reason | None = None
        for run in batch:
            self.runs += run.count
            if self._is_disturbed(run):
                continue
            if isinstance(run, FinishedRun):
                for record in run.records:
                    self._dataset.observe(record)
            if reason is None and run.versions == versions:
                reason = self._stale(run) or self._drift(run)
        return reason or self._routine(batch)

    def learned(
        self,
        begin_seconds: float,
        end_seconds: float,
        reason: Reason,
        expected_error: float | None,
    ) -> None:
        """Note that learning took place: runs beside it count nothing, and those after it should show
        ``expected_error`` (None: whatever they show). After drift there is a new level."""
        self._learned.append((begin_seconds, end_seconds))
        self._errors.clear()
        self._expected_error = None if self._runs_here else expected_error
        if reason.since_seconds is not None:
            self._detector.restart()
            self._routine_runs = self._first_routine
        else:
            self._routine_runs = min(self._routine_runs * ROUTINE_GROWTH, ROUTINE_MOST_RUNS)
        self._looked_at_run = self.runs

    def begin(self, at_seconds: float) -> None:
        """Count runs that begin after this time: those before shared this machine with loading what is known."""
        self._quiet_since = at_seconds

    def would_drift(self, waiting: Sequence[Followed], versions: tuple[int, int]) -> bool:
        """Return True if runs that were not taken in yet show drift. On this machine they only show what
        learning takes from them."""
        if self._runs_here:
            return False
        ahead = deepcopy(self._detector)
        runs = (run for run in waiting if run.versions == versions)
        return any(_observed(ahead, run) for run in runs)

    def _stale(self, run: Followed) -> Reason | None:
        expected = self._expected_error
        if expected is None or isinstance(run, RunBlock) or run.error is None:
            return None
        self._errors.append((run.at_seconds, run.error))
        if len(self._errors) < STALE_RUNS:
            return None
        self._expected_error = None
        error = median(one for _, one in self._errors)
        if error <= max(STALE_FACTOR * expected, expected + STALE_FLOOR):
            return None
        figures = {"error": error, "baseline": expected}
        text = f"prediction error {error:.1%}, where {expected:.1%} was expected of the model"
        return Reason(text, figures, self._errors[0][0])

    def _drift(self, run: Followed) -> Reason | None:
        drift = _observed(self._detector, run)
        return (
            None if drift is None else Reason(_words(drift), _figures(drift), drift.since_seconds)
        )

    def _routine(self, batch: Sequence[Followed]) -> Reason | None:
        """Return news that two looks agree on: what moved and came back was noise."""
        at_seconds = batch[-1].at_seconds if batch else 0.0
        pause_seconds = ROUTINE_SECONDS_HERE if self._runs_here else 0.0
        if (
            self.runs - self._looked_at_run < self._routine_runs
            or at_seconds - self._looked_at_seconds < pause_seconds
        ):
            return None
        self._looked_at_run, self._looked_at_seconds = self.runs, at_seconds
        before, self._news = self._news, self._dataset.news(CHANGE_TOLERANCE)
        lasting = before & self._news
        if not lasting:
            return None
        count = float(len(lasting))
        return Reason(f"{len(lasting)} candidates are new, or cost otherwise", {"news": count})

    def _is_disturbed(self, run: Followed) -> bool:
        """Return True if the run, or one of a block, shared this machine with learning: its times are no costs, nor drift."""
        begun = run.begun_seconds
        return self._runs_here and (
            begun <= self._quiet_since
            or any(run.at_seconds >= begin and begun <= end for begin, end in self._learned)
        )


def _detector(
    rule: DriftRule | HostDriftRule | None, runs_here: bool
) -> DriftDetector | HostDriftDetector:
    if isinstance(rule, HostDriftRule) or (rule is None and runs_here):
        return HostDriftDetector(rule)
    return DriftDetector(rule)


def _observed(detector: DriftDetector | HostDriftDetector, run: Followed) -> DetectedDrift | None:
    """Let a detector take in a run, or a block of them; a run that a block follows is none of its own."""
    if isinstance(run, RunBlock):
        assert isinstance(detector, HostDriftDetector), "blocks are this machine's"
        return detector.observe_block(run.seconds, run.began_seconds)
    return detector.observe(run.seconds, run.at_seconds) if run.count else None


def _words(drift: DetectedDrift) -> str:
    much = f"{abs(drift.change):.1%} {'longer' if drift.change > 0 else 'less'}"
    return f"runs take {much} than before, with a noise of {drift.noise:.1%}"


def _figures(drift: DetectedDrift) -> dict[str, float]:
    return {"change": drift.change, "noise": drift.noise}
