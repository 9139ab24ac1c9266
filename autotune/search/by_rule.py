"""The schedule that a rule gives a group: what runs before anything was measured, and what a search on
a machine that works in place has to beat."""

from __future__ import annotations

from autotune.fusion.group import Group
from autotune.schedule.rule import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.search.legality import legal_nests
from autotune.targets.spec import HardwareSpec


def rule_schedule(group: Group, spec: HardwareSpec) -> Schedule | None:
    """None when no schedule of the group fits the machine."""
    nests = legal_nests(group, spec)
    if nests is None:
        return None
    capacity, cores = spec.scratchpad_elements, spec.cores
    return default_schedule(nests, capacity, cores, spec.grain, spec.buffers)
