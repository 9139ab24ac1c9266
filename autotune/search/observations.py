"""What has been measured so far, by group and schedule: it overrides every prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autotune.store.records import Record

_NONE: Mapping[str, Record] = MappingProxyType({})


class Observations:
    """The newest record of every (group key, schedule) on one machine. Grows while a search runs."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_group: dict[str, dict[str, Record]] = {}
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Take in records, later ones in place of earlier ones."""
        for record in records:
            self._by_group.setdefault(record.group_key, {})[record.schedule_json] = record

    def of_group(self, key: str) -> Mapping[str, Record]:
        """Schedule JSON to record, failed ones included, of the groups with this key."""
        return self._by_group.get(key, _NONE)

    def find(self, key: str, schedule_json: str) -> Record | None:
        """The record of a candidate, failed or not; None when it was never measured."""
        return self.of_group(key).get(schedule_json)

    def count(self, key: str) -> int:
        """Schedules of a group that were measured."""
        return len(self.of_group(key))
