"""Explains a plan group by group: by the model of today, and by what the store has measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.cost_model.explanation import Explanation
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group, connected_halves
from autotune.fusion.partition import Names
from autotune.graph.graph import Graph
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.reasons.group_reasons import GroupReasons, OtherGrouping, OtherSchedule
from autotune.tuner.reasons.obstacle import Constraint, Obstacle, obstacle
from autotune.tuner.reasons.on_chip_tensors import kept_tensors
from autotune.tuner.reasons.price import Price, Prices, compare
from autotune.tuner.reasons.rejected_fusion import RejectedFusion, causes, explained, judge
from autotune.tuner.schedules import GroupCosts

MOST_JOINED = 5
"""Most groups of the plan that are joined in thought."""
CUTS = 4
"""Cuts of a group that are priced: those where the fewest bytes cross."""


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Groups of the plan by their places that would be one program, and the operators of all."""

    places: tuple[int, ...]
    names: Names


class PlanExplainer:
    """Explains one graph's plan; ``costs`` know the measurements of its machine.

    Groups of many explanations are ranked at once. Raises ``PlanError`` for another graph's plan.
    """

    def __init__(self, graph: Graph, plan: GraphPlan, costs: GroupCosts, first: int = 0) -> None:
        """``first`` is the number of the graph's first group among those of all graphs."""
        plan.check_graph(graph)
        self.graph = graph
        self.plan = plan
        self.first = first
        self.prices = Prices(costs)
        self._groups = tuple(planned.group(graph) for planned in plan.groups)
        self._home = {name: i for i, g in enumerate(plan.groups) for name in g.operators}

    def reasons(self, places: Iterable[int]) -> tuple[GroupReasons, ...]:
        """Explain the groups at these places of the plan."""
        chosen = tuple(places)
        self.prices.costs.prepare(self._needed(chosen))
        return tuple(self._reasons(place) for place in chosen)

    def cost(self, place: int) -> Explanation | None:
        """Explain the cost of one group by the plan's schedule; None for views and old schedules."""
        price = self.prices.planned(self._groups[place], self.plan.groups[place])
        if price.schedule is None or not price.predicted_dram_bytes:
            return None
        return explained(self._model, self._groups[place], price)

    @property
    def _model(self) -> CostModel:
        return self.prices.costs.model

    def _needed(self, places: Sequence[int]) -> Iterator[Group]:
        """Yield every group whose price an explanation asks for."""
        for place in places:
            yield self._groups[place]
            yield from self._operators(self._groups[place])
            for pieces in self._cuts(place):
                yield from map(self._group, pieces)
            for fusion in self._fusions(place):
                yield from (self._groups[i] for i in fusion.places)
                if self._obstacle(fusion) is None:
                    yield self._group(fusion.names)

    def _reasons(self, place: int) -> GroupReasons:
        group, planned = self._groups[place], self.plan.groups[place]
        price = self.prices.planned(group, planned)
        alone = [self.prices.best(one) for one in self._operators(group)]
        known = [one for one in alone if one is not None]
        is_fused = len(group.ops) > 1 and len(known) == len(alone) and not group.is_view
        fusions = self._fusions(place)
        rejected = tuple(self._rejected(fusion) for fusion in fusions)
        return GroupReasons(
            self.first + place,
            tuple(op.kind.value for op in group.ops),
            planned.operators,
            price,
            compare(known, [price]) if is_fused else None,
            kept_tensors(group) if len(group.ops) > 1 else (),
            self._other_schedule(group, price),
            self._other_grouping(place, price, zip(fusions, rejected, strict=True)),
            rejected,
        )

    def _operators(self, group: Group) -> list[Group]:
        return [self._group((op.name,)) for op in group.ops]

    def _group(self, names: Names) -> Group:
        return Group.from_graph(self.graph, names)

    def _other_schedule(self, group: Group, price: Price) -> OtherSchedule | None:
        if price.schedule is None:
            return None
        for other in self.prices.ranked(group):
            if other.schedule is not None and other.schedule != price.schedule:
                return OtherSchedule(other.schedule, compare([other], [price]))
        return None

    def _other_grouping(
        self, place: int, price: Price, judged: Iterable[tuple[_Fusion, RejectedFusion]]
    ) -> OtherGrouping | None:
        """Return the cheapest of the cuts of a group and of its fusions with neighbours."""
        others = []
        for pieces in self._cuts(place):
            priced = [self.prices.best(self._group(names)) for names in pieces]
            known = [one for one in priced if one is not None]
            if len(known) == len(priced):
                text = f"cut before {pieces[1][0]}"
                others.append(OtherGrouping(text, pieces, compare(known, [price])))
        for fusion, rejected in judged:
            if rejected.comparison is not None:
                joined = " and ".join(f"#{self.first + i}" for i in fusion.places if i != place)
                reverse = rejected.comparison.reverse
                others.append(OtherGrouping(f"join {joined}", (fusion.names,), reverse))
        return min(others, key=lambda other: other.comparison.saved_cycles, default=None)

    def _cuts(self, place: int) -> list[tuple[Names, Names]]:
        """Return the cuts of a group in two, each connected, where the fewest bytes cross."""
        group = self._groups[place]
        if group.is_view:
            return []
        names = tuple(op.name for op in group.ops)
        whole = [
            (self._crossing_bytes(group, len(a)), a, b)
            for a, b in connected_halves(self.graph, names)
        ]
        return [(a, b) for _, a, b in sorted(whole)[:CUTS]]

    def _crossing_bytes(self, group: Group, at: int) -> int:
        made = {op.output for op in group.ops[:at]}
        crossing = {x for op in group.ops[at:] for x in op.inputs if x in made}
        return sum(group.type_of[x].elements for x in crossing)

    def _fusions(self, place: int) -> tuple[_Fusion, ...]:
        """Return the fusions with every neighbour; views between two groups go along."""
        if self._groups[place].is_view:
            return ()
        return tuple(fusion for fusion in self._all_fusions if place in fusion.places)

    @cached_property
    def _all_fusions(self) -> tuple[_Fusion, ...]:
        """Every two groups of which one reads the other's results, in running order; where other groups
        stand between the two, all of them as well."""
        found: dict[tuple[int, ...], None] = {}
        for place, group in enumerate(self._groups):
            if group.is_view:
                continue
            for places in self._joined_with_readers((place,), place):
                whole = self._hull(places)
                found[places] = None
                if len(whole) <= MOST_JOINED:
                    found[whole] = None
        return tuple(_Fusion(places, self._together(places)) for places in found)

    def _hull(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """Return the places with those of all groups on paths between them."""
        first, last = places[0], places[-1]
        behind, before = {first}, {last}
        for place in range(first + 1, last):
            if self._sources[place] & behind:
                behind.add(place)
        for place in range(last, first, -1):
            if place in before:
                before |= self._sources[place]
        between = {place for place in behind & before if first < place < last}
        return tuple(sorted({*places, *between}))

    @cached_property
    def _sources(self) -> tuple[set[int], ...]:
        """Places of the groups whose results each group reads."""
        producer = self.graph.producer
        return tuple(
            {self._home[producer[x].name] for x in group.inputs if x in producer}
            for group in self._groups
        )

    def _joined_with_readers(self, path: tuple[int, ...], last: int) -> Iterator[tuple[int, ...]]:
        readers = {
            self._home[user.name]
            for x in self._groups[last].outputs
            for user in self.graph.consumers[x]
        }
        for reader in sorted(readers - {last}):
            joined = tuple(sorted((*path, reader)))
            if self._groups[reader].is_view:
                yield from self._joined_with_readers(joined, reader)
            else:
                yield joined

    def _together(self, places: Sequence[int]) -> Names:
        names = [name for place in places for name in self.plan.groups[place].operators]
        return tuple(sorted(names, key=self.graph.position.__getitem__))

    def _obstacle(self, fusion: _Fusion) -> Obstacle | None:
        if fusion.places not in self._obstacles:
            self._obstacles[fusion.places] = obstacle(
                self.graph, fusion.names, self.prices.costs.spec
            )
        return self._obstacles[fusion.places]

    @cached_property
    def _obstacles(self) -> dict[tuple[int, ...], Obstacle | None]:
        return {}

    def _rejected(self, fusion: _Fusion) -> RejectedFusion:
        if fusion.places not in self._judged:
            self._judged[fusion.places] = self._judge(fusion)
        return self._judged[fusion.places]

    @cached_property
    def _judged(self) -> dict[tuple[int, ...], RejectedFusion]:
        return {}

    def _judge(self, fusion: _Fusion) -> RejectedFusion:
        forbidden = self._obstacle(fusion)
        numbers = tuple(self.first + place for place in fusion.places)
        if forbidden is not None:
            return RejectedFusion(numbers, forbidden.constraint, forbidden.reason)
        parts = [
            (self._groups[i], self.prices.planned(self._groups[i], self.plan.groups[i]))
            for i in fusion.places
        ]
        joint = self._group(fusion.names)
        price = self.prices.best(joint)
        if price is None:  # every schedule failed when it was measured
            return RejectedFusion(numbers, Constraint.LEGALITY, "all of its schedules failed")
        comparison = compare([part for _, part in parts], [price])
        worse = causes(self._model, parts, (joint, price)) if comparison.saved_cycles <= 0 else ()
        verdict = judge(comparison, worse)
        return RejectedFusion(numbers, verdict.constraint, verdict.reason, comparison)
