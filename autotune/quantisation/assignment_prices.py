"""What a network costs whose products have these formats or those, without a search of it.

On machines with a cost model the groups of searched plans are carried over to the network, and ranked: a group in one
precision once. Elsewhere costs of products in these plans add up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from autotune.fusion.carry import carry_groups
from autotune.fusion.group import Group
from autotune.fusion.partition import Names
from autotune.graph.graph import Graph
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.observation import serialised
from autotune.quantisation.plan_costs import ProductCosts, costs_of, product_costs
from autotune.quantisation.qdq import Formats, write_qdq
from autotune.quantisation.space import PrecisionSpace
from autotune.quantisation.steps import Gains
from autotune.tuner.objective import Objective
from autotune.tuner.partitioners.cutting import cut_groups
from autotune.tuner.problem import FusionProblem
from autotune.tuner.result import SearchResult
from autotune.tuner.schedules import GroupCosts

KEPT = 24
"""Networks that stay imported: a study prices few choices again, its cheapest."""


class AssignmentPrices(Protocol):
    """Prices of networks by the formats of their products."""

    def learn(self, formats: Formats, result: SearchResult) -> None:
        """Take in the plan that a search found for a network of these formats."""

    def price(self, formats: Formats) -> float:
        """Return the predicted cost of a run by the objective."""

    def gains(self) -> Gains:
        """Return what each format saves at each product; 0 where that is not known."""


@dataclass
class PlanPrices:
    """Costs of products by format, as the plan that was searched last has them; they add up."""

    space: PrecisionSpace
    objective: Objective
    _costs: ProductCosts = field(default_factory=ProductCosts)

    def learn(self, formats: Formats, result: SearchResult) -> None:
        """See ``AssignmentPrices``."""
        parts = costs_of(result.found, self.objective)
        self._costs.add(formats, product_costs(self.space.network, parts, self.space.work()))

    def price(self, formats: Formats) -> float:
        """See ``AssignmentPrices``."""
        names = (p.name for p in self.space.network.products)
        return sum(self._costs.cost(name, formats.get(name)) for name in names)

    def gains(self) -> Gains:
        """See ``AssignmentPrices``."""
        return self._costs.gains(self.space.names)


@dataclass
class GroupPrices:
    """Sums of costs of groups, fused as in the known plan by which a network is cheapest."""

    space: PrecisionSpace
    costs: GroupCosts
    opened: Callable[[Path], Graph]
    by_product: PlanPrices
    _plans: dict[tuple[Names, ...], None] = field(default_factory=dict)
    _problems: dict[frozenset[tuple[str, NarrowFormat]], FusionProblem] = field(
        default_factory=dict
    )
    """By formats: the latest networks, without their weights, for a price changes with every plan that is learned."""

    def learn(self, formats: Formats, result: SearchResult) -> None:
        """See ``AssignmentPrices``."""
        (one,) = result.graphs
        self._plans[one.found.names] = None
        self.by_product.learn(formats, result)
        self.costs.observe(one.records)

    def price(self, formats: Formats) -> float:
        """See ``AssignmentPrices``."""
        return sum(cost for _, cost in self._parts(formats))

    def gains(self) -> Gains:
        """See ``AssignmentPrices``."""
        return self.by_product.gains()

    def _parts(self, formats: Formats) -> Sequence[tuple[Group, float]]:
        """Return the groups of the cheapest plan with their costs."""
        problem = self._problem(formats)
        carried = (carry_groups(names, problem.graph, problem.may_try) for names in self._plans)
        best = min((cut_groups(problem, one) for one in carried), key=problem.legal_cost)
        groups = map(problem.group, best.groups)
        return [(group, self.costs.cost(group) or 0.0) for group in groups]

    def _problem(self, formats: Formats) -> FusionProblem:
        key = frozenset(formats.items())
        problem = self._problems.pop(key, None)
        if problem is None:
            problem = FusionProblem(_without_weights(self._graph(formats)), self.costs)
        self._problems[key] = problem  # the latest is the last
        if len(self._problems) > KEPT:
            del self._problems[next(iter(self._problems))]
        return problem

    def _graph(self, formats: Formats) -> Graph:
        space = self.space
        made = write_qdq(space.network, formats, space.grids, space.quantiser.scheme)
        with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
            file = Path(folder, "model.onnx")
            file.write_bytes(serialised(made))
            return self.opened(file)


def _without_weights(graph: Graph) -> Graph:
    """Return the graph with zeros that take no memory in place of weights, which no cost depends on."""
    empty = {
        x: np.broadcast_to(np.float32(0.0), value.shape) for x, value in graph.constants.items()
    }
    return Graph(graph.name, graph.ops, graph.types, graph.inputs, graph.outputs, empty)
