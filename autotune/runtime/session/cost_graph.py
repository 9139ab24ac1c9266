"""The cost graph of a session: operators, transfers and control flow, with what a run takes on the edges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from autotune.fusion.group import Group
from autotune.graph.cost_edges import CostEdge, EdgeKind, GroupCost, Rates, cost_edges
from autotune.runtime.execution.execution import GroupRun
from autotune.runtime.execution.program_table import GroupStep, ProgramTable
from autotune.runtime.session.network_session import NetworkSession
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class PartCosts:
    """The edges of one graph of a network, and how often its groups ran in the run that was measured."""

    name: str
    runs: int
    edges: tuple[CostEdge, ...]


Predict = Callable[[Group, Schedule], float]
"""Cycles that a model expects of a group."""


def rates_of(spec: HardwareSpec) -> Rates:
    """Return the peak rates of a machine."""
    return Rates(2.0 * spec.peak_macs_per_cycle, spec.dram.bytes_per_cycle)


def cost_graph(session: NetworkSession, predict: Predict | None = None) -> tuple[PartCosts, ...]:
    """Return the cost edges of each part that the last run reached, costs of all its runs in total.

    A part of several is reached by an edge of control flow, which carries the cost of the part. ``predict`` answers for
    groups of which the plan says nothing. Raises ``AutotuneError`` before the first run.
    """
    runs: dict[int, list[GroupRun]] = defaultdict(list)
    for run in session.last_run.groups:
        runs[id(run.step)].append(run)
    parts = session.parts
    made = [
        part_costs(name, one.table, runs, session.target.spec, predict)
        for name, one in parts.items()
        if any(id(step) in runs for step in one.table.group_steps)
    ]
    return tuple(made if len(parts) == 1 else (_controlled(session.name, one) for one in made))


def part_costs(
    name: str,
    table: ProgramTable,
    runs: Mapping[int, list[GroupRun]],
    spec: HardwareSpec,
    predict: Predict | None = None,
) -> PartCosts:
    """Return the edges of a table; ``runs`` are those of its steps, by the step's ``id``."""
    groups = [_group_cost(step, runs.get(id(step), []), predict) for step in table.group_steps]
    counts = Counter(len(runs.get(id(step), [])) for step in table.group_steps)
    edges = cost_edges(table.graph, groups, rates_of(spec))
    return PartCosts(name, max(counts, default=0), edges)


def _group_cost(step: GroupStep, runs: list[GroupRun], predict: Predict | None) -> GroupCost:
    count, one = len(runs), step.predicted_cycles
    if one is None and predict is not None:
        one = predict(step.group, step.schedule)
    predicted = None if one is None else one * count
    if not count:
        return GroupCost(step.operators, one, None, None)
    energy = sum(run.execution.energy_fj for run in runs)
    cycles = float(sum(run.execution.cycles for run in runs))
    return GroupCost(step.operators, predicted, cycles, float(energy) if energy else None)


def _controlled(network: str, part: PartCosts) -> PartCosts:
    """Add the edge by which control flow reaches a part."""
    edge = CostEdge(
        network,
        part.name,
        "",
        EdgeKind.CONTROL,
        0,
        total(edge.predicted_cycles for edge in part.edges),
        total(edge.measured_cycles for edge in part.edges),
        total(edge.energy_fj for edge in part.edges),
    )
    return replace(part, edges=(edge, *part.edges))


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum; None if one is not known."""
    known = list(costs)
    return None if any(cost is None for cost in known) else sum(x for x in known if x is not None)
