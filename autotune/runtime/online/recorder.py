"""Turns finished runs into records for the store, and into what the learner needs to keep of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.measure.measurement import Measured
from autotune.runtime.execution.execution import GroupRun, RunTrace, TimedGroups
from autotune.runtime.execution.program_table import CostKey
from autotune.schedule.candidate import Candidate
from autotune.store.records import RUN, Record
from autotune.targets.protocol import Target
from autotune.tuner.records import to_record

SAME_COST = 0.01
"""Executions of a group whose cycles differ by less than this fraction share their counters."""

MOST_CANDIDATES = 10_000
"""Candidates whose newest record is at hand; plans are swapped, and each brings its own."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run as the learner takes it in: when it finished, its seconds, by which plan and model it ran.

    ``seconds`` leave out what it waited for other callers. ``error`` is that of its predictions; ``records`` are the costs
    of its groups, empty for runs that are followed but not recorded. ``count`` are the runs that it stands for, 0 where a
    ``RunBlock`` counts and follows it.
    """

    at_seconds: float
    seconds: float
    versions: tuple[int, int]
    error: float | None = None
    records: tuple[Record, ...] = ()
    count: int = 1

    @property
    def begun_seconds(self) -> float:
        """When it began."""
        return self.at_seconds - self.seconds


class Recorder:
    """Makes records of one network's runs. What repeats (names, counters of equal executions) is
    shared between records, so that a backlog of runs stays small."""

    def __init__(self, target: Target, network: str) -> None:
        self._target = target
        self._network = network
        self._newest: dict[CostKey, Record] = {}

    def records(self, trace: RunTrace, at_seconds: float) -> tuple[Record, ...]:
        """One record per group that ran as it was lowered: the others' times are no costs of their
        candidates."""
        return tuple(self._record(run, at_seconds) for run in trace.as_lowered)

    def finished(
        self, trace: RunTrace, at_seconds: float, in_full: bool = True, count: int = 1
    ) -> FinishedRun:
        """The run; with the costs of its groups if it is wanted ``in_full``."""
        run = FinishedRun(at_seconds, self._seconds(trace), trace.versions, count=count)
        if not in_full:
            return run
        return replace(run, error=trace.error, records=self.records(trace, at_seconds))

    def _seconds(self, trace: RunTrace) -> float:
        groups = trace.groups
        if not isinstance(groups, TimedGroups):
            return trace.cycles / self._target.spec.clock_hz
        return 1e-9 * int(groups.nanoseconds.sum())

    def _record(self, run: GroupRun, at_seconds: float) -> Record:
        key, execution = run.step.key, run.execution
        known = self._newest.get(key)
        if known is None:
            candidate = Candidate(run.step.group, run.step.schedule, self._network)
            known = to_record(Measured(candidate, execution), self._target, RUN, lambda: at_seconds)
        record = replace(
            known,
            cycles=execution.cycles,
            energy_fj=execution.energy_fj,
            dram_bytes=execution.dram_bytes,
            counters=_shared(known, execution.cycles, execution.counters),
            created_at=at_seconds,
        )
        if len(self._newest) >= MOST_CANDIDATES:
            self._newest.clear()
        self._newest[key] = record
        return record


def _shared(known: Record, cycles: int, counters: Mapping[str, int]) -> Mapping[str, int]:
    same = abs(cycles - known.cycles) <= SAME_COST * known.cycles
    return known.counters if same else dict(counters)
