"""A plan by rule alone: what a session runs on a machine that nothing was ever measured on, and what a
search on a machine that works in place has to beat."""

from __future__ import annotations

from autotune.fusion.blocks import with_blocks
from autotune.fusion.candidates import greedy
from autotune.fusion.concatenation import joins_in_place
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.graph.op import Family
from autotune.schedule.rule import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.search.choice import Choice
from autotune.search.legality import legal_nests
from autotune.targets.spec import HardwareSpec

Schedules = dict[str, Schedule | None]
"""Schedules by the key of their group on one machine; None where none fits."""


def ruled_choices(
    graph: Graph, spec: HardwareSpec, known: Schedules | None = None
) -> tuple[Choice, ...]:
    """The greedy partition, on a machine that works in place with blocks (``fusion.blocks``) and with
    concatenations alone that copy nothing there, and default schedules; groups of equal structure
    get equal ones. Those ``known`` already are taken, and others added to them."""
    schedules = {} if known is None else known

    def schedule(group: Group) -> Schedule | None:
        if group.key not in schedules:
            schedules[group.key] = rule_schedule(group, spec)
        return schedules[group.key]

    free = _free_concatenations(graph) if spec.in_place else frozenset()

    def fits(names: tuple[str, ...]) -> bool:
        return free.isdisjoint(names) and schedule(Group.from_graph(graph, names)) is not None

    partition = greedy(graph, fits)
    if spec.in_place:
        partition = with_blocks(partition, fits)
    groups = [Group.from_graph(graph, names) for names in partition.groups]
    return tuple(Choice(group, None if group.is_view else schedule(group)) for group in groups)


def rule_schedule(group: Group, spec: HardwareSpec) -> Schedule | None:
    """None when no schedule of the group fits the machine."""
    nests = legal_nests(group, spec)
    if nests is None:
        return None
    capacity, cores = spec.tile_elements, spec.cores
    return default_schedule(nests, capacity, cores, spec.grain, spec.buffers)


def _free_concatenations(graph: Graph) -> frozenset[str]:
    """Names of those that copy nothing on their own, whatever becomes of the reshapes."""
    reshapes = [op for op in graph.ops if op.family is Family.RESHAPE]
    viewed = {x for op in reshapes for x in (op.inputs[0], op.output)}
    return frozenset(op.name for op in graph.ops if joins_in_place(graph, op, viewed))
