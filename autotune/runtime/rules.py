"""A plan by rule alone: what a session runs on a machine that nothing was ever measured on."""

from __future__ import annotations

from autotune.fusion.blocks import with_blocks
from autotune.fusion.candidates import greedy
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.graph.op import Family
from autotune.runtime.choice import Choice
from autotune.schedule.schedule import Schedule
from autotune.search.by_rule import rule_schedule
from autotune.targets.spec import HardwareSpec

Schedules = dict[str, Schedule | None]
"""Schedules by the key of their group on one machine; None where none fits."""


def ruled_choices(
    graph: Graph, spec: HardwareSpec, known: Schedules | None = None
) -> tuple[Choice, ...]:
    """The greedy partition, with blocks around softmax where intermediates stay in cache (no unit
    loads ahead there: one buffer), and default schedules; groups of equal structure get equal ones.
    Those ``known`` already are taken, and others added to them."""
    schedules = {} if known is None else known

    def schedule(group: Group) -> Schedule | None:
        if group.key not in schedules:
            schedules[group.key] = rule_schedule(group, spec)
        return schedules[group.key]

    in_place = spec.buffers == 1
    free = _free_concatenations(graph) if in_place else frozenset()

    def fits(names: tuple[str, ...]) -> bool:
        return free.isdisjoint(names) and schedule(Group.from_graph(graph, names)) is not None

    partition = greedy(graph, fits)
    if in_place:
        partition = with_blocks(partition, fits)
    groups = [Group.from_graph(graph, names) for names in partition.groups]
    return tuple(Choice(group, None if group.is_view else schedule(group)) for group in groups)


def _free_concatenations(graph: Graph) -> frozenset[str]:
    """Names of those that copy nothing on their own (runtime/windows.py): along the last axis, of
    what the network computes."""
    return frozenset(
        op.name
        for op in graph.ops
        if op.family is Family.CONCAT
        and op.int("axis") == len(graph.shape(op.output)) - 1
        and all(x in graph.producer for x in op.inputs)
    )
