"""Where a search measures: runs candidates on the target and keeps what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import to_record
from autotune.tuner.schedules import GroupCosts, ScoredSchedule, measured_cost


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured schedule of a group, and how it was scored before it was measured."""

    scored: ScoredSchedule
    record: Record


class Laboratory:
    """Measures each candidate at most once per search, of twins one unless asked to ``settle``; ``costs``
    and the store hear of it. What was measured of a group itself counts more than its twin's."""

    def __init__(
        self,
        target: Target,
        costs: GroupCosts,
        network: str,
        store: Store | None = None,
        progress: Progress = silent,
        workers: int | None = None,
    ) -> None:
        self.target = target
        self.costs = costs
        self.network = network
        self.store = store
        self.progress = progress
        self.workers = workers
        self.records: list[Record] = []
        self.expected = 0
        """Measurements that the search is expected to take in all: for its progress."""
        self._samples: dict[tuple[str, str], Sample] = {}
        self._best: dict[str, Sample] = {}

    def knows(self, group: Group, scored: ScoredSchedule) -> bool:
        """Whether this search has measured the candidate."""
        return (self.costs.twin(group).key, scored.schedule.to_json()) in self._samples

    def take(self, wanted: Iterable[tuple[Group, ScoredSchedule]]) -> None:
        """Measure what was not measured yet; records go into the store as one batch."""
        self._measure((self.costs.twin(group), scored) for group, scored in wanted)

    def settle(self, groups: Iterable[Group]) -> None:
        """Measure the best known schedule of every group as the group stands, where only its twin
        was measured; another follows where one fails."""
        open_ = {group.key: group for group in groups if group.key not in self._best}
        while wanted := [
            (group, sample.scored)
            for group in open_.values()
            if group.key not in self._best and (sample := self.best(group)) is not None
        ]:
            self._measure(wanted)

    def _measure(self, wanted: Iterable[tuple[Group, ScoredSchedule]]) -> None:
        fresh = {
            key: (group, scored)
            for group, scored in wanted
            if (key := (group.key, scored.schedule.to_json())) not in self._samples
        }
        if not fresh:
            return
        self.expected = max(self.expected, len(self.records) + len(fresh))
        candidates = [
            Candidate(group, scored.schedule, self.network) for group, scored in fresh.values()
        ]
        records: list[Record] = []
        try:
            for result in measure(self.target, candidates, self.workers):
                records.append(to_record(result, self.target, "search"))
                done = len(self.records) + len(records)
                self.progress("measure", done, max(done, self.expected))
        finally:
            self._keep(fresh, records)

    def _keep(
        self, fresh: dict[tuple[str, str], tuple[Group, ScoredSchedule]], records: list[Record]
    ) -> None:
        for key, record in zip(fresh, records, strict=False):
            sample = Sample(fresh[key][1], record)
            self._samples[key] = sample
            known = self._best.get(record.group_key)
            if record.outcome is Outcome.OK and (
                known is None or self._cost(sample) < self._cost(known)
            ):
                self._best[record.group_key] = sample
        self.records += records
        self.costs.observe(records)
        if self.store is not None and records:
            self.store.add(records)

    def _cost(self, sample: Sample) -> float:
        return measured_cost(sample.record, self.costs.objective)

    def mape(self) -> float:
        """Mean error of the predictions of cycles of what was measured, as a share of those."""
        errors = [
            abs(sample.scored.predicted_cycles / sample.record.cycles - 1.0)
            for sample in self._samples.values()
            if sample.record.cycles > 0
        ]
        return sum(errors) / len(errors) if errors else 0.0

    def best(self, group: Group) -> Sample | None:
        """The cheapest sample of a group taken in this search, or else of its twin, but for schedules
        that failed on the group itself; None when there is none."""
        own = self._best.get(group.key)
        if own is not None:
            return own
        alike = self.costs.twin(group).key
        best = self._best.get(alike)
        if best is None or (group.key, best.record.schedule_json) not in self._samples:
            return best
        others = (
            sample
            for (key, text), sample in self._samples.items()
            if key == alike and sample.record.outcome is Outcome.OK
            if (group.key, text) not in self._samples
        )
        return min(others, key=self._cost, default=None)

    def sample(self, group: Group, schedule: Schedule) -> Sample | None:
        """What came of a schedule in this search, on the group or else on its twin; None when it
        was not measured."""
        text = schedule.to_json()
        own = self._samples.get((group.key, text))
        return own or self._samples.get((self.costs.twin(group).key, text))

    def legal(self, group: Group) -> bool:
        """Whether the group was measured: the laboratory prices plans by measurements alone."""
        return group.is_view or self.best(group) is not None

    def prepare(self, groups: Iterable[Group]) -> None:
        """Nothing to do: what was measured is known."""

    def cost(self, group: Group) -> float | None:
        """Measured cycles or femtojoules of the group's cheapest sample; 0 for views."""
        if group.is_view:
            return 0.0
        sample = self.best(group)
        return None if sample is None else self._cost(sample)
