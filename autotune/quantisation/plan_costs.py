"""What each product of a network takes in a searched plan: the costs of its groups, parted by multiplications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.fusion.group import Group
from autotune.operators.op import Family, Op
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Formats
from autotune.quantisation.steps import Gains
from autotune.tuner.objective import Objective
from autotune.tuner.result import GroupResult, PlanResult

_PRODUCTS = (Family.CONV, Family.WINOGRAD, Family.MATMUL, Family.STRASSEN)


def product_costs(
    network: Network,
    groups: Iterable[tuple[Group, float]],
    work: Mapping[str, float],
) -> dict[str, float]:
    """Return the cost of each product by a plan's groups with their costs, in running order; they add up to the plan's.

    Groups without a product, such as conversions, count for the next one with a product, the last ones for the one
    before. A group of several products is parted by their ``work``. Products that no group names are left out.
    """
    made = {node.name: node.output[0] for node in network.model.graph.node}
    names = {p.name: made[p.name] for p in network.products}
    costs: dict[str, float] = {}
    waiting, last = 0.0, {}
    for group, cost in groups:
        inside = [x for op in group.ops if (x := _product_of(op, names)) is not None]
        waiting += cost
        if not inside:
            continue
        total = sum(work[x] for x in inside)
        last = {x: work[x] / total for x in inside}
        _add(costs, last, waiting)
        waiting = 0.0
    _add(costs, last, waiting)
    return costs


def _product_of(op: Op, names: Mapping[str, str]) -> str | None:
    """Return the product of the file that an operator computes: both go by the node's name, or by its result's.

    A result may be named ``y`` where that of another product is ``y.1``.
    """
    if op.family not in _PRODUCTS:
        return None
    for name, made in names.items():
        if name == op.name or made == op.output:
            return name
    begun = [name for name, made in names.items() if op.name.startswith(f"{made}.")]
    return max(begun, key=lambda name: len(names[name]), default=None)


def costs_of(plan: PlanResult, objective: Objective) -> list[tuple[Group, float]]:
    """Return the groups of a plan with their costs: as measured, else as predicted."""
    return [(item.group, _cost(item, objective)) for item in plan.groups]


def _cost(item: GroupResult, objective: Objective) -> float:
    cycles, energy = item.measured_cycles, item.energy_fj
    if cycles is None or (objective.weighs_energy and energy is None):
        return objective.of(item.predicted_cycles, item.predicted_energy_fj)
    return objective.of(cycles, energy or 0)


def _add(costs: dict[str, float], shares: Mapping[str, float], cost: float) -> None:
    for name, share in shares.items():
        costs[name] = costs.get(name, 0.0) + share * cost


@dataclass
class ProductCosts:
    """Costs of products by format (None: float32), as the plan searched last has them."""

    latest: dict[tuple[str, NarrowFormat | None], float] = field(default_factory=dict)

    def add(self, formats: Formats, costs: Mapping[str, float]) -> None:
        """Take the costs of a plan for a network of these formats."""
        for name, cost in costs.items():
            self.latest[name, formats.get(name)] = cost

    def gains(self, names: Mapping[NarrowFormat, Sequence[str]]) -> Gains:
        """Return what each format saves at each product; 0 where a plan has not told."""
        return {
            (name, format): self._saved(name, format)
            for format, own in names.items()
            for name in own
        }

    def cost(self, name: str, format: NarrowFormat | None) -> float:
        """Return the cost of a product in a format (None: float32); float32's where no plan has told."""
        plain = self.latest.get((name, None), 0.0)
        return self.latest.get((name, format), plain)

    def _saved(self, name: str, format: NarrowFormat) -> float:
        plain, narrow = self.latest.get((name, None)), self.latest.get((name, format))
        return 0.0 if plain is None or narrow is None else plain - narrow
