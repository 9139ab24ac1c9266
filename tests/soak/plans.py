"""Plans that a soak serves by: the unfused one to learn from, and drawn ones for merges and de-fusions by force."""

from __future__ import annotations

import numpy as np

from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.runtime.execution.native_table import WholeNetworks, link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.session.session import Session
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.tuner.choice import Choice
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan


def unfused_plan(session: Session) -> Plan:
    """Return the plan that runs every operator alone, by heuristic schedules."""
    graph, spec = session.graph, session.target.spec
    rows = tuple(
        PlannedGroup(
            tuple(op.name for op in choice.group.ops),
            choice.group.outputs,
            choice.schedule,
            0.0,
            None,
            None,
            None,
        )
        for choice in _choices(graph, unfused(graph), HeuristicSchedules(spec))
    )
    plan = GraphPlan(graph.name, graph.fingerprint, rows)
    target = session.target
    return Plan((plan,), None, target.name, spec.profile_id, Objective.LATENCY)


def drawn_table(session: Session, rng: np.random.Generator) -> ProgramTable:
    """Return a table by a drawn partition of the session's graph: some groups merged, others cut."""
    graph, target = session.graph, session.target
    scheduled = HeuristicSchedules(target.spec)

    def fits(names: tuple[str, ...]) -> bool:
        group = Group.from_graph(graph, names)
        return group.is_view or scheduled(group) is not None

    edges = list(graph.digraph.edges)
    kept = {edge for edge in edges if rng.random() < rng.choice((0.0, 0.5, 1.0))}
    partition = Partition.from_edges(graph, kept, fits)
    choices = _choices(graph, partition, scheduled)
    table = compile_table(graph, choices, target.spec, ProgramCache())
    return link_table(table, target) if isinstance(target, WholeNetworks) else table


def _choices(graph: Graph, partition: Partition, scheduled: HeuristicSchedules) -> list[Choice]:
    groups = [Group.from_graph(graph, names) for names in partition.groups]
    return [Choice(group, None if group.is_view else scheduled(group)) for group in groups]
