"""The heuristic plan, without measurement or cost model: sessions without a plan file run it.

On machines with cached memory a search has to beat it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autotune.errors import ScheduleError
from autotune.fusion.blocks import with_blocks
from autotune.fusion.concatenation import joined_in_place
from autotune.fusion.greedy import greedy
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.graph.graph import Graph
from autotune.operators.op import Family
from autotune.schedule.heuristic import default_schedule, least_traffic
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.choice import Choice
from autotune.tuner.legality import legal_nests

Schedules = dict[str, Schedule | None]
"""Schedules by the key of their group on one machine; None where none fits."""

_ENUMERATED, _ESTIMATED = 2048, 128
"""Schedules of a nest to enumerate, and the number of least traffic to estimate cycles of."""


def heuristic_choices(
    graph: Graph, spec: HardwareSpec, known: Schedules | None = None
) -> tuple[Choice, ...]:
    """Return the groups of the greedy partition with heuristic schedules, in running order.

    With cached memory the partition has blocks (``fusion.blocks``), and concatenations that copy nothing
    stay alone. Groups of equal structure get equal schedules: those in ``known``, which grows by the others.

    Raises ``ScheduleError`` for an operator without a legal schedule even alone.
    """
    planner = _HeuristicPlanner(graph, spec, {} if known is None else known)
    partition = greedy(graph, planner.fits)
    if spec.memory is Memory.CACHED:
        partition = with_blocks(partition, planner.fits)
    return tuple(choice for names in partition.groups for choice in planner.choices(names))


def group_choices(
    graph: Graph, spec: HardwareSpec, names: tuple[str, ...], known: Schedules
) -> tuple[Choice, ...]:
    """Return the group of some operators with its heuristic schedule; each operator alone where it has none.

    ``known`` is as ``heuristic_choices`` has it. Raises ``ScheduleError`` for an operator without a schedule.
    """
    return tuple(_HeuristicPlanner(graph, spec, known).choices(names))


class _HeuristicPlanner:
    """Schedules of a graph's groups on one machine; equal groups are scheduled once."""

    def __init__(self, graph: Graph, spec: HardwareSpec, known: Schedules) -> None:
        self._graph, self._spec, self._known = graph, spec, known
        self._free = (
            _free_concatenations(graph) if spec.memory is Memory.CACHED else frozenset[str]()
        )
        self._legal: dict[str, bool] = {}

    def fits(self, names: tuple[str, ...]) -> bool:
        """Return True if the operators may become one group."""
        if not self._free.isdisjoint(names):
            return False
        group = Group.from_graph(self._graph, names)
        if self._spec.memory is Memory.CACHED:
            return self._schedule(group) is not None
        if group.key not in self._legal:  # a schedule takes longer, and few of these groups last
            self._legal[group.key] = legal_nests(group, self._spec) is not None
        return self._legal[group.key]

    def choices(self, names: tuple[str, ...]) -> Iterator[Choice]:
        """Give the group of the operators with its schedule, or each operator alone where it has none.

        Raises ``ScheduleError`` for an operator without a schedule.
        """
        group = Group.from_graph(self._graph, names)
        schedule = None if group.is_view else self._schedule(group)
        if schedule is not None or group.is_view:
            yield Choice(group, schedule)
        elif len(names) > 1:
            for name in names:
                yield from self.choices((name,))
        else:
            raise no_schedule_error(self._graph, group, self._spec)

    def _schedule(self, group: Group) -> Schedule | None:
        if group.key not in self._known:
            self._known[group.key] = heuristic_schedule(group, self._spec)
        return self._known[group.key]


def no_schedule_error(graph: Graph, group: Group, spec: HardwareSpec) -> ScheduleError:
    """Return the error for a group that does not fit the machine."""
    names = ", ".join(f"{op.name} ({op.kind.value})" for op in group.ops)
    return ScheduleError(
        f"{graph.name}: operator {names} has no legal schedule on {spec.name} "
        f"({spec.tile_elements} elements of scratchpad); take a larger target"
    )


def heuristic_schedule(group: Group, spec: HardwareSpec) -> Schedule | None:
    """Return the heuristic schedule of a group; None when no schedule fits the machine."""
    nests = legal_nests(group, spec)
    if nests is None:
        return None
    if spec.memory is Memory.CACHED:
        return default_schedule(
            nests, spec.capacity, spec.cores, spec.tile_multiple, spec.max_buffers
        )
    parts = [_least_cycles(nest, spec) for nest in nests]
    return Schedule(tuple(part for part in parts if part is not None)) if all(parts) else None


def _least_cycles(nest: Nest, spec: HardwareSpec) -> NestSchedule | None:
    """Return the schedule of least analytic cycles on a machine that loads ahead; None if none fits.

    The analytic estimate counts what each unit does and how far units overlap; it needs no
    calibration (docs/decisions/0031-opening.md has the measurements)."""
    from autotune.cost_model.analysis import analytic_model  # not where every schedule is kept

    rng = np.random.default_rng(0)
    table = enumerate_on(nest, spec, _ENUMERATED, rng)
    if not len(table):
        return None
    if len(table) > _ESTIMATED:
        traffic = least_traffic(nest, table)
        table = table.take(np.argpartition(traffic, _ESTIMATED)[:_ESTIMATED])
    estimate = analytic_model(spec).analyse(nest, table, spec).estimate
    return table.row(int(np.argmin(estimate)))


def _free_concatenations(graph: Graph) -> frozenset[str]:
    """Return names of concatenations that copy nothing on their own, with or without the reshapes."""
    views = {op.output: op.inputs[0] for op in graph.ops if op.family is Family.RESHAPE}
    return frozenset(op.name for op in graph.ops if joined_in_place(graph, op, views))
