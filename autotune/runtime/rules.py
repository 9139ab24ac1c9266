"""A plan by rule alone: what a session runs on a machine that nothing was ever measured on."""

from __future__ import annotations

from autotune.fusion.candidates import greedy
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.runtime.choice import Choice
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import default_schedule
from autotune.search.legality import legal_nests
from autotune.targets.spec import HardwareSpec


def ruled_choices(graph: Graph, spec: HardwareSpec) -> tuple[Choice, ...]:
    """The greedy partition with default schedules."""
    schedules: dict[frozenset[str], Schedule | None] = {}

    def schedule(group: Group) -> Schedule | None:
        nests = legal_nests(group, spec)
        if nests is None:
            return None
        capacity, cores = spec.scratchpad_elements, spec.cores
        return default_schedule(nests, capacity, cores, spec.grain, spec.buffers)

    def fits(names: tuple[str, ...]) -> bool:
        found = schedules[frozenset(names)] = schedule(Group.from_graph(graph, names))
        return found is not None

    choices = []
    for names in greedy(graph, fits).groups:
        group = Group.from_graph(graph, names)
        known = schedules.get(frozenset(names))
        choices.append(Choice(group, None if group.is_view else known or schedule(group)))
    return tuple(choices)
