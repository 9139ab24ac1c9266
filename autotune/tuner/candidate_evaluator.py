"""Measures candidates during a search, each at most once, and remembers the results.

Machines that count cycles tell the same twice: what the store has of them is not measured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autotune.fusion.group import Group
from autotune.measure.measurement import FailureKind
from autotune.measure.runner import HANGS, Workers, arrivals, hanging
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import SEARCH, Outcome, Record
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.progress import Progress, silent
from autotune.tuner.record_writer import RecordWriter
from autotune.tuner.records import to_record
from autotune.tuner.schedules import GroupCosts, ScoredSchedule

Key = tuple[str, Schedule]
"""Key of a group, and a schedule of it."""


class CandidateEvaluator:
    """Measures each candidate at most once per search, and tells ``costs`` and the store.

    Of the groups in one equivalence class it measures the representative, unless ``measure_exact`` asks for
    the group itself. A measurement of a group itself counts more than its representative's.
    """

    def __init__(
        self,
        target: Target,
        costs: GroupCosts,
        network: str,
        store: Store | None = None,
        progress: Progress = silent,
        workers: Workers = None,
        time_limit_seconds: float | None = None,
    ) -> None:
        self.target = target
        self.costs = costs
        self.network = network
        self.store = store
        self.progress = progress
        self.workers = workers
        self.time_limit_seconds = time_limit_seconds
        self.records: list[Record] = []
        self.expected = 0
        """Measurements that the search expects to take in all; its progress counts to here."""
        self._samples: dict[Key, ScoredSchedule] = {}
        self._best: dict[str, ScoredSchedule] = {}
        self._hangs = 0

    def has_measured(self, group: Group, scored: ScoredSchedule) -> bool:
        """Return True if this search has measured the candidate."""
        return (self.costs.representative(group).key, scored.schedule) in self._samples

    def recalls(self, group: Group, scored: ScoredSchedule) -> bool:
        """Return True if a measurement from before this search answers for the candidate."""
        return self._recalled(self.costs.representative(group), scored) is not None

    def _recalled(self, group: Group, scored: ScoredSchedule) -> Record | None:
        """Return the earlier record of a candidate; None on machines that are timed, and for failures."""
        if self.target.spec.timed:
            return None
        record = self.costs.record(group, scored.schedule)
        return None if record is None or record.outcome is not Outcome.OK else record

    def measure(self, candidates: Iterable[tuple[Group, ScoredSchedule]]) -> None:
        """Measure unmeasured candidates; their records enter the store as one batch."""
        self._measure((self.costs.representative(group), scored) for group, scored in candidates)

    def measure_exact(self, groups: Iterable[Group]) -> None:
        """Measure the best schedule of every group itself, where only its representative was measured.

        The next schedule follows where one fails.
        """
        twins = map(self.costs.twin, groups)
        pending = {group.key: group for group in twins if group.key not in self._best}
        while candidates := [
            (group, sample)
            for group in pending.values()
            if group.key not in self._best and (sample := self.best(group)) is not None
        ]:
            self._measure(candidates)

    def _measure(self, candidates: Iterable[tuple[Group, ScoredSchedule]]) -> None:
        fresh = {
            key: (group, scored)
            for group, scored in candidates
            if (key := (group.key, scored.schedule)) not in self._samples
        }
        recalled = {
            key: (candidate, record)
            for key, candidate in fresh.items()
            if (record := self._recalled(*candidate)) is not None
        }
        for key, ((_, scored), record) in recalled.items():
            self._enter(key, replace(scored, record=record))
        fresh = {key: candidate for key, candidate in fresh.items() if key not in recalled}
        if not fresh:
            return
        self.expected = max(self.expected, len(self.records) + len(fresh))
        work = [Candidate(group, scored.schedule, self.network) for group, scored in fresh.values()]
        records: dict[int, Record] = {}
        writer = RecordWriter(self.store)
        results = arrivals(self.target, work, self.workers, self.time_limit_seconds)
        try:
            for place, result in results:
                records[place] = record = to_record(result, self.target, SEARCH)
                writer.add(record)
                self._count_hang(record)
                done = len(self.records) + len(records)
                self.progress("measure", done, max(done, self.expected))
        finally:
            writer.flush()
            self._remember(fresh, records)

    def _count_hang(self, record: Record) -> None:
        """Raise ``TargetError`` at the last of ``HANGS`` overdue candidates in a row, however many batches they span."""
        is_hang = FailureKind.of(record.reason) is FailureKind.OVERDUE
        self._hangs = self._hangs + 1 if is_hang else 0
        if self._hangs == HANGS:
            raise hanging(self.target, record.reason)

    def _remember(
        self, fresh: dict[Key, tuple[Group, ScoredSchedule]], records: Mapping[int, Record]
    ) -> None:
        """Take in records by the candidate's place, in their order; an interrupt leaves fewer records."""
        for place, (key, (_, scored)) in enumerate(fresh.items()):
            if place in records:
                self._enter(key, replace(scored, record=records[place]))
        ordered = [records[place] for place in sorted(records)]
        self.records += ordered
        self.costs.observe(ordered)

    def _enter(self, key: Key, sample: ScoredSchedule) -> None:
        """Remember a schedule with its record."""
        self._samples[key] = sample
        best = self._best.get(key[0])
        if sample.is_measured and (best is None or self._cost(sample) < self._cost(best)):
            self._best[key[0]] = sample

    def _cost(self, sample: ScoredSchedule) -> float:
        return sample.cost(self.costs.objective)

    def mape(self) -> float:
        """Return the mean error of predicted cycles over the samples, as a share of measured cycles."""
        errors = [
            abs(sample.predicted_cycles / sample.record.cycles - 1.0)
            for sample in self._samples.values()
            if sample.record is not None and sample.record.cycles > 0
        ]
        return sum(errors) / len(errors) if errors else 0.0

    def best(self, group: Group) -> ScoredSchedule | None:
        """Return the cheapest sample of a group in this search; None without any.

        A sample of its representative counts where the group itself has none. Schedules that failed on the
        group itself do not count.
        """
        group = self.costs.twin(group)
        own = self._best.get(group.key)
        if own is not None:
            return own
        shared_key = self.costs.representative(group).key
        best = self._best.get(shared_key)
        if best is None or (group.key, best.schedule) not in self._samples:
            return best
        others = (
            sample
            for (key, schedule), sample in self._samples.items()
            if key == shared_key and sample.is_measured
            if (group.key, schedule) not in self._samples
        )
        return min(others, key=self._cost, default=None)

    def samples(self, group: Group) -> dict[Schedule, float | None]:
        """Return what this search measured of a group's representative: costs by schedule, None where it failed."""
        shared_key = self.costs.representative(group).key
        return {
            schedule: self._cost(sample) if sample.is_measured else None
            for (key, schedule), sample in self._samples.items()
            if key == shared_key
        }

    def sample(self, group: Group, schedule: Schedule) -> ScoredSchedule | None:
        """Return the sample of a schedule, on the group or else on its representative; None without."""
        own = self._samples.get((self.costs.twin(group).key, schedule))
        return own or self._samples.get((self.costs.representative(group).key, schedule))

    def has_failed(self, group: Group, schedule: Schedule | None) -> bool:
        """Return True if this search met a failure of the candidate; views, without a schedule, have none."""
        sample = None if schedule is None else self.sample(group, schedule)
        return sample is not None and not sample.is_measured

    def legal(self, group: Group) -> bool:
        """Return True if the group was measured: measurements alone price plans here."""
        return group.is_view or self.best(group) is not None

    def prepare(self, groups: Iterable[Group]) -> None:
        """Do nothing: measurements need no preparation."""

    def deepen(self, groups: Iterable[Group]) -> None:
        """Do nothing: measurements are as close as costs get."""

    def cost(self, group: Group) -> float | None:
        """Return measured cycles or femtojoules of the group's cheapest sample; 0 for views."""
        if group.is_view:
            return 0.0
        sample = self.best(group)
        return None if sample is None else self._cost(sample)
