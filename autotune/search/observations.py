"""What has been measured so far, by group and schedule: it overrides every prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autotune.fusion.group import Group
from autotune.fusion.twin import Twins
from autotune.store.records import Record

_NONE: Mapping[str, Record] = MappingProxyType({})


class Observations:
    """The newest record of every group and schedule on one machine. Grows while a search runs.

    What was measured of a group holds for all its ``twins``: runs and calibrations record groups
    as they stand in the network, search the twin.
    """

    def __init__(self, twins: Twins, records: Iterable[Record] = ()) -> None:
        self.twins = twins
        self._by_twin: dict[str, dict[str, Record]] = {}
        self.add(records)

    def add(self, records: Iterable[Record]) -> frozenset[str]:
        """Take in records, later ones in place of earlier ones; gives the keys of their twins."""
        keys = set()
        for record in records:
            key = self.twins.key(record.group_key, record.group_json)
            self._by_twin.setdefault(key, {})[record.schedule_json] = record
            keys.add(key)
        return frozenset(keys)

    def of_group(self, group: Group) -> Mapping[str, Record]:
        """Schedule JSON to record, failed ones included, of a group and its twins."""
        return self._by_twin.get(self.twins.of(group).key, _NONE)

    def find(self, group: Group, schedule_json: str) -> Record | None:
        """The record of a candidate, failed or not; None when it was never measured."""
        return self.of_group(group).get(schedule_json)
