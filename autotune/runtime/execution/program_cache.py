"""The cache of lowered programs: what makes compiling the next table cheap."""

from __future__ import annotations

import threading
from collections import OrderedDict

from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice


class ProgramCache:
    """Lowered programs by (group key, schedule, hardware profile), least recently used out first.

    Safe to use from several threads.
    """

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str, str], tuple[Group, Program]] = OrderedDict()

    def lowered(self, choice: Choice, spec: HardwareSpec) -> tuple[Program, dict[str, str]]:
        """The program of a group and the names of the group's tensors by those of the program.

        Groups of equal key list their tensors in the same order, so one's program serves another.
        Raises ``ScheduleError`` when the schedule is not legal on the machine.
        """
        assert choice.schedule is not None
        key = (choice.group.key, choice.schedule.to_json(), spec.profile_id)
        with self._lock:
            entry = self._entries.pop(key, None)
        if entry is None:
            from autotune.lowering.lower import lower  # not where every program is kept

            entry = (choice.group, lower(choice.group, choice.schedule, spec))
        with self._lock:
            self._entries[key] = entry
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        first, program = entry
        pairs = zip(first.types, choice.group.types, strict=True)
        return program, {theirs: ours for (theirs, _), (ours, _) in pairs}
