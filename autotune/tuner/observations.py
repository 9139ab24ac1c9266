"""What has been measured so far, by group and schedule: it overrides every prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.group import Group
from autotune.store.records import Record

_NONE: Mapping[str, Record] = MappingProxyType({})


class Observations:
    """The newest record of every group and schedule on one machine. Grows while a search runs.

    What was measured of a group holds for its ``twins`` too, but for those of which the same schedule
    was measured itself: twins are alike to the cost model, not to the rows and banks of a DRAM.
    """

    def __init__(self, twins: EquivalenceClasses, records: Iterable[Record] = ()) -> None:
        self.twins = twins
        self._by_twin: dict[str, dict[str, Record]] = {}
        self._own: dict[str, dict[str, Record]] = {}
        self.add(records)

    def add(self, records: Iterable[Record]) -> frozenset[str]:
        """Take in records, later ones in place of earlier ones; gives the keys of their twins."""
        keys = set()
        for record in records:
            key = self.twins.key(record.group_key, record.group_json)
            self._by_twin.setdefault(key, {})[record.schedule_json] = record
            self._own.setdefault(record.group_key, {})[record.schedule_json] = record
            keys.add(key)
        return frozenset(keys)

    def of_group(self, group: Group) -> Mapping[str, Record]:
        """Schedule JSON to record, failed ones included, of a group and, of other schedules, its twins."""
        shared = self._by_twin.get(self.twins.representative(group).key, _NONE)
        own = self._own.get(group.key, _NONE)
        return {**shared, **own} if own else shared

    def has_own(self, group: Group) -> bool:
        """Whether the group was measured itself."""
        return group.key in self._own

    def find(self, group: Group, schedule_json: str) -> Record | None:
        """The record of a candidate, failed or not, or else its twins'; None when there is none."""
        own = self._own.get(group.key, _NONE).get(schedule_json)
        shared = self._by_twin.get(self.twins.representative(group).key, _NONE)
        return shared.get(schedule_json) if own is None else own
