"""What searches of a network measured of its groups on this machine: kept as it comes, and where the next one begins.

Between the search, which observes times, and the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.fusion.equivalence import twin, twin_key
from autotune.fusion.group import Group
from autotune.measure.measurement import Measured
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import SEARCH, Outcome, Record
from autotune.store.store import Store
from autotune.targets.protocol import Execution, Target
from autotune.tuner.records import to_record, toolchain

MOST_RECORDS = 50_000
"""Newest records of a machine's searches that one reads."""
MOST_GROUPS, MOST_SCHEDULES = 4096, 64
"""Groups whose times are kept, and schedules of each: what is kept takes 50 MB at most. The group that was measured
longest ago goes first, and of a group the slowest schedule, whose only use is that it is not measured again."""
ERROR = "error_ppm"
"""Counter of their standard error in millionths, which times of groups alone have not."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Seconds of a group in whole runs by one schedule, shrunk towards those of the plan in use; ``error`` is the
    standard error as a share of them."""

    group: Group
    schedule: Schedule
    seconds: float
    error: float

    def record(self, target: Target, network: str) -> Record:
        """Return it as the store keeps it."""
        cycles = max(1, round(self.seconds * target.spec.clock_hz))
        counters = {ERROR: round(1e6 * self.error)}
        candidate = Candidate(self.group, self.schedule, network)
        return to_record(Measured(candidate, Execution(cycles, 0, 0, counters)), target, SEARCH)


class TimeKeeper:
    """Adds what a search observes to the store as it comes, and to ``records``."""

    def __init__(self, store: Store, target: Target, network: str) -> None:
        self._store, self._target, self._network = store, target, network
        self.records: list[Record] = []

    def __call__(self, observed: Iterable[Observed]) -> None:
        records = [one.record(self._target, self._network) for one in observed]
        self._store.add(records)
        self.records += records


class KeptTimes:
    """Times of groups and their twins by schedule, in cycles; the newest of a schedule counts. They are bounded by group and in all,
    so that no group with many schedules takes the place of others.

    They propose, and spare measuring again what was slower. Only fresh runs adopt.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._cycles: dict[str, dict[str, int]] = {}
        for record in records:
            if record.outcome is Outcome.OK:
                self._keep(record)

    def _keep(self, record: Record) -> None:
        key = twin_key(record.group_key, record.group_json)
        times = self._cycles.pop(key, {})
        self._cycles[key] = times  # the newest group is the last
        times[record.schedule_json] = record.cycles
        if len(times) > MOST_SCHEDULES:
            del times[max(times, key=times.__getitem__)]
        if len(self._cycles) > MOST_GROUPS:
            del self._cycles[next(iter(self._cycles))]

    @classmethod
    def read(cls, store: Store, target: Target, network: str) -> KeptTimes:
        """Return what earlier searches of the network kept, by the same programs.

        Times of groups alone, on hot caches, are left out: they have no error, and compare with none of whole runs.
        """
        wanted = network, toolchain(is_native=True)
        records = store.records(target.spec.profile_id, SEARCH, limit=MOST_RECORDS)
        return cls(r for r in records if (r.network, r.toolchain) == wanted and ERROR in r.counters)

    def faster(self, group: Group, current: Schedule) -> Sequence[Schedule]:
        """Return schedules that took less time than the one in use, the fastest first; none if that has no time."""
        times = self._cycles.get(twin(group).key, {})
        limit = times.get(current.to_json(), 0)
        order = sorted((cycles, text) for text, cycles in times.items() if cycles < limit)
        return [Schedule.from_json(text) for _, text in order]

    def is_slower(self, group: Group, schedule: Schedule, current: Schedule) -> bool:
        """Return True if a schedule took more time than the one in use."""
        times = self._cycles.get(twin(group).key, {})
        if not times:
            return False
        cycles, limit = times.get(schedule.to_json()), times.get(current.to_json())
        return cycles is not None and limit is not None and cycles > limit

    def best(self, group: Group) -> Schedule | None:
        """Return the fastest schedule of a group; None without any."""
        times = self._cycles.get(twin(group).key)
        return Schedule.from_json(min(times, key=times.__getitem__)) if times else None
