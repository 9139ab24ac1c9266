"""Counts of the model's plans: the emulator runs them, which takes a small part of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.measure.runner import Workers
from autotune.targets.spec import HardwareSpec
from autotune.tuner.machines.confirmation import confirm
from autotune.tuner.machines.explored import Explored, Priced
from autotune.tuner.machines.figures import MachinePoint, NetworkFigures, Outcome, Unfit
from autotune.tuner.machines.menu import Estimate


def count(priced: Priced, graphs: Sequence[Graph], workers: Workers) -> Explored:
    """Return what the model's plans take on their machine, each group by its fastest offered schedule."""
    design = priced.design
    plans = zip(graphs, priced.plans, strict=True)
    outcomes = tuple(_counted(graph, plan, design.spec, workers) for graph, plan in plans)
    point = MachinePoint(design.settings, design.spec, outcomes)
    return Explored(design, point, priced.costs, searched=False)


def _counted(graph: Graph, plan: Estimate, spec: HardwareSpec, workers: Workers) -> Outcome:
    groups = [Group.from_graph(graph, names) for names in plan.groups]
    try:
        pairs = list(zip(groups, plan.schedules, strict=True))
        return confirm(graph, pairs, spec, plan.cycles, workers)
    except ScheduleError as error:
        return Unfit(graph.name, str(error))


def fastest_plans(first: Explored, second: Explored) -> Explored:
    """Return the ``first`` machine, each network by the faster of the plans of two looks at it."""
    pairs = zip(first.point.outcomes, second.point.outcomes, strict=True)
    outcomes = tuple(min(pair, key=_cycles) for pair in pairs)
    point = replace(first.point, outcomes=outcomes)
    return replace(first, point=point)


def _cycles(outcome: Outcome) -> float:
    return outcome.cycles if isinstance(outcome, NetworkFigures) else float("inf")
