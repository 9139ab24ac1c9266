"""Measurements so far by group and schedule; they override every prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.group import Group
from autotune.measure.measurement import FailureKind
from autotune.store.records import Outcome, Record

_NONE: Mapping[str, Record] = MappingProxyType({})


class Observations:
    """The newest record of every group and schedule on one machine. Grows while a search runs.

    A measurement of a group holds for its twins (``fusion.equivalence``). It holds for its equivalence class too, but for
    groups with a measurement of the same schedule: groups of a class are equal to the cost model, not to the rows and
    banks of a DRAM. Schedules are JSON here, as the store has them: a search looks up few of its thousands of records.
    """

    def __init__(self, classes: EquivalenceClasses, records: Iterable[Record] = ()) -> None:
        """``records`` are those of the store. Candidates that met a defect of ours then may be tried again."""
        self.classes = classes
        self._by_class: dict[str, dict[str, Record]] = {}
        self._own: dict[str, dict[str, Record]] = {}
        self.add(record for record in records if not _met_defect(record))

    def add(self, records: Iterable[Record]) -> frozenset[str]:
        """Take in records, later ones in place of earlier ones; return the keys of their classes."""
        keys = set()
        for record in records:
            key, own = self.classes.keys(record.group_key, record.group_json)
            self._by_class.setdefault(key, {})[record.schedule_json] = record
            self._own.setdefault(own, {})[record.schedule_json] = record
            keys.add(key)
        return frozenset(keys)

    def of_group(self, group: Group) -> Mapping[str, Record]:
        """Return schedule JSON to record, failed ones included, of a group and then of its class."""
        shared = self._by_class.get(self.classes.representative(group).key, _NONE)
        own = self._own.get(self.classes.twin(group).key, _NONE)
        return {**shared, **own} if own else shared

    def has_own(self, group: Group) -> bool:
        """Return True if the group itself was measured, or a twin."""
        return self.classes.twin(group).key in self._own

    def own(self, group: Group, schedule_json: str) -> Record | None:
        """Return the record of a candidate, failed or not; None without any."""
        return self._own.get(self.classes.twin(group).key, _NONE).get(schedule_json)

    def find(self, group: Group, schedule_json: str) -> Record | None:
        """Return the record of a candidate, failed or not, or one of its class; None without any."""
        own = self._own.get(self.classes.twin(group).key, _NONE).get(schedule_json)
        shared = self._by_class.get(self.classes.representative(group).key, _NONE)
        return shared.get(schedule_json) if own is None else own


def _met_defect(record: Record) -> bool:
    is_failed = record.outcome is Outcome.FAILED
    return is_failed and FailureKind.of(record.reason) is FailureKind.DEFECT
