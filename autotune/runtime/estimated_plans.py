"""Plans by rule with estimated costs, as results have them: what a search compares with, and all it has at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.runtime.execution.program_table import running_order
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import Estimate, estimate_of
from autotune.runtime.variants.variants import Groups, Names, names_of
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.choice import Choice
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.legality import legal_nests
from autotune.tuner.result import GraphSearch, GroupResult, PlanResult


class EstimatedPlans:
    """Results of a graph's plans on one machine: costs by ``estimate``, and by times where there are any."""

    def __init__(self, graph: Graph, spec: HardwareSpec, estimate: Estimate) -> None:
        self._graph, self._spec, self._estimate = graph, spec, estimate
        self._groups, self._scheduled = Groups(graph), HeuristicSchedules(spec)

    @property
    def unfused(self) -> PlanResult:
        """Every operator alone, by heuristic schedules."""
        return self.result(self._choices(unfused(self._graph)))

    @property
    def greedy(self) -> PlanResult:
        """The greedy partition, by heuristic schedules."""

        def fits(names: Names) -> bool:
            return self._scheduled(self._groups.of(names)) is not None

        return self.result(self._choices(greedy(self._graph, fits)))

    def _choices(self, partition: Partition) -> tuple[Choice, ...]:
        made = (self._groups.of(names) for names in partition.groups)
        return tuple(Choice(g, None if g.is_view else self._scheduled(g)) for g in made)

    def result(
        self, plan: Sequence[Choice], times: Sequence[Mapping[Names, float]] = ()
    ) -> PlanResult:
        """Return a plan with its costs; ``times`` are the seconds of its groups in some runs."""
        ordered = running_order(self._graph, tuple(plan))
        return PlanResult(tuple(self._group(choice, times) for choice in ordered))

    def _group(self, choice: Choice, times: Sequence[Mapping[Names, float]]) -> GroupResult:
        if choice.schedule is None:
            return GroupResult.view(choice.group)
        nests = legal_nests(choice.group, self._spec) or ()
        pairs = zip(nests, choice.schedule.nests, strict=True)
        cycles = sum(
            float(self._estimate(nest, ScheduleTable.of(nest, [s]))[0]) for nest, s in pairs
        )
        names = names_of(choice)
        seconds = float(np.median([one[names] for one in times])) if times else None
        measured = None if seconds is None else max(1, round(seconds * self._spec.clock_hz))
        return GroupResult(
            choice.group, choice.schedule, cycles, cycles, cycles, 0.0, 0.0, measured, None, None
        )

    def plan(self, result: PlanResult) -> GraphPlan:
        """Return a result's plan as a plan file holds it."""
        graph = self._graph
        return GraphPlan(
            graph.name, graph.fingerprint, tuple(group.planned() for group in result.groups)
        )


def heuristic_search(graph: Graph, spec: HardwareSpec) -> GraphSearch:
    """Return the result of a search that ends before it begins: the heuristic plan with analytic estimates.

    Raises ``ScheduleError`` for an operator without a legal schedule.
    """
    plans = EstimatedPlans(graph, spec, estimate_of(None, spec))
    heuristic = plans.result(heuristic_choices(graph, spec))
    return GraphSearch(
        plan=plans.plan(heuristic),
        unfused=plans.unfused,
        greedy=plans.greedy if spec.memory is Memory.CACHED else heuristic,  # else they are one
        found=heuristic,
        records=(),
        trials=(),
        model=None,
        accuracy=accuracy_of(graph),
        heuristic=heuristic,
        stopped="interrupted",
    )
