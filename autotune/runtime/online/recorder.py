"""Turns finished runs into records for the store, and into what the learner needs to keep of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.measure.measurement import Measured
from autotune.runtime.execution.execution import GroupRun, RunTrace
from autotune.runtime.execution.program_table import CostKey
from autotune.schedule.candidate import Candidate
from autotune.store.records import Record
from autotune.targets.protocol import Target
from autotune.tuner.records import to_record

SAME_COST = 0.01
"""Executions of a group whose cycles differ by less than this fraction share their counters."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run as the learner takes it in: when it finished, the seconds that it took, by which plan and
    model, its prediction error, and a record for each group."""

    at_seconds: float
    seconds: float
    versions: tuple[int, int]
    error: float | None
    records: tuple[Record, ...]


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

    def finished(self, trace: RunTrace, at_seconds: float) -> FinishedRun:
        """The run with its records."""
        records = self.records(trace, at_seconds)
        seconds = trace.cycles / self._target.spec.clock_hz
        return FinishedRun(at_seconds, seconds, trace.versions, trace.error, records)

    def _record(self, run: GroupRun, at_seconds: float) -> Record:
        key, execution = run.step.key, run.execution
        known = self._newest.get(key)
        if known is None:
            candidate = Candidate(run.step.group, run.step.schedule, self._network)
            known = to_record(
                Measured(candidate, execution), self._target, "run", lambda: at_seconds
            )
        record = replace(
            known,
            cycles=execution.cycles,
            energy_fj=execution.energy_fj,
            dram_bytes=execution.dram_bytes,
            counters=_shared(known, execution.cycles, execution.counters),
            created_at=at_seconds,
        )
        self._newest[key] = record
        return record


def _shared(known: Record, cycles: int, counters: Mapping[str, int]) -> Mapping[str, int]:
    same = abs(cycles - known.cycles) <= SAME_COST * known.cycles
    return known.counters if same else dict(counters)
