"""The menu of a network: groups and schedules that paid on some machine, priced on any other in one pass.

A search ranks thousands of schedules of hundreds of groups on one machine. Machines differ in what they
choose, less in what is worth a look: anchors are searched by the model, others choose from the menu.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.cost_model.estimate import Forecast
from autotune.cost_model.model import CostModel
from autotune.errors import ScheduleError
from autotune.fusion.analysis import analyse
from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.schedule.bulk_fit import legal_rows
from autotune.schedule.neighbours import neighbours
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity
from autotune.targets.spec import HardwareSpec
from autotune.tuner.exact.prover import Prover
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.legality import legal_nests
from autotune.tuner.machines.figures import NetworkFigures
from autotune.tuner.machines.search_point import model_of
from autotune.tuner.objective import Objective
from autotune.tuner.problem import FusionProblem
from autotune.tuner.progress import Progress
from autotune.tuner.ranking import Effort, Ranked, Ranking

LIGHT = Effort(enumerated=2048, predicted=256, rounds=1, refined=24, verified=0)
"""Effort of ranking on an anchor: that of a search's partitions, without a second stage."""
LISTED = 16
"""Schedules of a group that an anchor puts on the menu."""
FRESH = 1024
"""Schedules that are enumerated for the machine itself, beside those of the menu."""
REFINED = 16
"""Best schedules whose neighbours are priced too."""
OFFERED = 4
"""Best schedules of a group that the emulator may choose from."""


@dataclass(frozen=True, slots=True)
class Price:
    """What the model expects of a group: cycles and femtojoules of its best schedule. ``schedules`` has at
    most ``OFFERED``, best first; it is empty for views."""

    cycles: float
    energy_fj: float
    schedules: tuple[Schedule, ...]


NOTHING = Price(0.0, 0.0, ())
"""Price of a group of views."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the model expects of one run of a network: cycles, femtojoules, and the groups that cost so,
    each with its best schedules."""

    cycles: float
    energy_fj: float
    groups: tuple[Names, ...]
    schedules: tuple[tuple[Schedule, ...], ...]


class AnchorCosts:
    """Costs of groups on an anchor by light ranking; a ``Pricing``."""

    def __init__(self, model: CostModel, spec: HardwareSpec, seed: int) -> None:
        self._ranking = Ranking(model, spec, Objective.LATENCY, seed)
        self._classes = EquivalenceClasses(spec.dram.burst_bytes)
        self._ranked: dict[str, Ranked] = {}

    def legal(self, group: Group) -> bool:
        """See ``Pricing``."""
        return group.is_view or legal_nests(group, self._ranking.spec) is not None

    def prepare(self, groups: Iterable[Group]) -> None:
        """See ``Pricing``."""
        for group in groups:
            self.ranked(group)

    def deepen(self, groups: Iterable[Group]) -> None:
        """Do nothing: light ranking is all."""

    def cost(self, group: Group) -> float | None:
        """See ``Pricing``."""
        if group.is_view:
            return 0.0
        ranked = self.ranked(group)
        return float(ranked.values[0, 0]) if len(ranked) else None

    def ranked(self, group: Group) -> Ranked:
        """Return the schedules of a group, best first."""
        alike = self._classes.representative(group)
        if alike.key not in self._ranked:
            nothing = alike.is_view or not self.legal(alike)
            self._ranked[alike.key] = (
                Ranked.nothing() if nothing else self._ranking.rank(alike, LIGHT)
            )
        return self._ranked[alike.key]


@dataclass(frozen=True)
class Menu:
    """Groups of a network worth a look, with schedules worth a look: those of some anchor.

    ``schedules`` are by the key of a group's representative, a table for each of its nests.
    """

    graph: Graph
    partitions: tuple[Partition, ...]
    classes: EquivalenceClasses
    schedules: Mapping[str, tuple[tuple[Nest, ScheduleTable], ...]]
    seed: int
    _fresh: dict[tuple[str, int, Capacity, int], ScheduleTable] = field(default_factory=dict)

    def estimate(self, spec: HardwareSpec) -> Estimate | None:
        """Return the cheapest plan that the menu has for a machine; None where nothing fits.

        One plan joins the best parts of all anchors' plans: between operators where all of them have a
        border, the cheapest one is chosen.
        """
        model = model_of(spec)
        names = {group for partition in self.partitions for group in partition.groups}
        prices = self._prices(names, model, spec)
        plans = [p.groups for p in self.partitions if all(n in prices for n in p.groups)]
        if not plans:
            return None
        groups = _joined(self.graph, plans, prices)
        return Estimate(
            cycles=sum(prices[n].cycles for n in groups),
            energy_fj=sum(prices[n].energy_fj for n in groups),
            groups=groups,
            schedules=tuple(prices[n].schedules for n in groups),
        )

    def _prices(
        self, names: Iterable[Names], model: CostModel, spec: HardwareSpec
    ) -> dict[Names, Price]:
        """Return what groups cost on a machine by their best schedule; without those that do not fit."""
        known: dict[str, Price | None] = {}
        prices: dict[Names, Price] = {}
        for group_names in names:
            group = Group.from_graph(self.graph, group_names)
            if group.is_view:
                prices[group_names] = NOTHING
                continue
            key = self.classes.representative(group).key
            if key not in known:
                known[key] = self._price(key, model, spec)
            price = known[key]
            if price is not None:
                prices[group_names] = price
        return prices

    def _price(self, key: str, model: CostModel, spec: HardwareSpec) -> Price | None:
        cycles = energy_fj = 0.0
        offers: list[list[NestSchedule]] = []
        for number, (nest, listed) in enumerate(self.schedules.get(key, ())):
            fits = legal_rows(nest, listed, spec.capacity, spec.cores)
            table = listed.take(fits).then(self._enumerated(key, number, nest, spec))
            if not len(table):
                return None
            best, forecast = _best(model, nest, table, spec)
            cycles += float(forecast.cycles[0])
            energy_fj += float(model.energy(forecast)[0])
            offers.append([best.row(n) for n in range(len(best))])
        if not cycles:
            return None
        schedules = (Schedule(nests) for nests in zip(*offers, strict=False))
        return Price(cycles, energy_fj, tuple(schedules))

    def _enumerated(self, key: str, number: int, nest: Nest, spec: HardwareSpec) -> ScheduleTable:
        """Return schedules that fill the machine's own scratchpad and cores."""
        place = (key, number, spec.capacity, spec.cores)
        if place not in self._fresh:
            rng = np.random.default_rng([self.seed, int(key[:12], 16)])
            self._fresh[place] = enumerate_on(nest, spec, FRESH, rng)
        return self._fresh[place]


def menu_of(graph: Graph, anchors: Sequence[HardwareSpec], seed: int, progress: Progress) -> Menu:
    """Search a network by the model alone on every anchor; list what was chosen.

    Raises ``ScheduleError`` if the network fits none of them.
    """
    classes = EquivalenceClasses(anchors[0].dram.burst_bytes)
    partitions: dict[Partition, None] = {}
    judges: list[AnchorCosts] = []
    reason: ScheduleError | None = None
    for spec in anchors:
        costs = AnchorCosts(model_of(spec), spec, seed)
        try:
            partitions |= dict.fromkeys(_partitions(graph, costs, spec, progress))
        except ScheduleError as error:
            reason = error
            continue
        judges.append(costs)
    if reason is not None and not judges:
        raise reason
    listed = {name for partition in partitions for name in partition.groups}
    schedules = _listed_schedules(graph, sorted(listed), judges, classes)
    return Menu(graph, tuple(partitions), classes, schedules, seed)


def menu_of_plans(
    graph: Graph, found: Sequence[NetworkFigures], burst_bytes: int, seed: int
) -> Menu:
    """Return a menu of the groups and schedules of plans that were found on other machines; groups are alike by
    bursts of ``burst_bytes``."""
    partitions = [Partition.of(graph, [names for names, _ in one.plan]) for one in found]
    classes = EquivalenceClasses(burst_bytes)
    offers: dict[str, list[Schedule]] = {}
    tables: dict[str, tuple[Nest, ...]] = {}
    for names, text in dict.fromkeys(pair for one in found for pair in one.plan if pair[1]):
        group = classes.representative(Group.from_graph(graph, names))
        nests = analyse(group)
        if not isinstance(nests, Rejection):
            tables[group.key] = nests
            offers.setdefault(group.key, []).append(Schedule.from_json(text))
    schedules = {
        key: tuple(
            (nest, _table(nest, [schedule.nests[at] for schedule in offers[key]]))
            for at, nest in enumerate(nests)
        )
        for key, nests in tables.items()
    }
    return Menu(graph, tuple(dict.fromkeys(partitions)), classes, schedules, seed)


def _partitions(
    graph: Graph, costs: AnchorCosts, spec: HardwareSpec, progress: Progress
) -> list[Partition]:
    """Return the plans of an anchor: unfused, by rule, heuristic, and the cheapest by light ranking."""
    problem = FusionProblem(graph, costs, progress)
    choices = heuristic_choices(graph, spec)
    heuristic = Partition.of(graph, [[op.name for op in c.group.ops] for c in choices])
    alone, rule = unfused(graph), greedy(graph, problem.fits)
    return [alone, rule, heuristic, Prover(problem).prove([alone]).partition]


def _listed_schedules(
    graph: Graph,
    names: Iterable[Names],
    judges: Sequence[AnchorCosts],
    classes: EquivalenceClasses,
) -> dict[str, tuple[tuple[Nest, ScheduleTable], ...]]:
    """Return the best schedules of every group on every anchor, by the key of its representative."""
    found: dict[str, tuple[tuple[Nest, ScheduleTable], ...]] = {}
    for group_names in names:
        group = classes.representative(Group.from_graph(graph, group_names))
        nests = analyse(group)
        if group.is_view or group.key in found or isinstance(nests, Rejection):
            continue
        best = [s for judge in judges for s in judge.ranked(group).schedules[:LISTED]]
        found[group.key] = tuple(
            (nest, _table(nest, [schedule.nests[at] for schedule in best]))
            for at, nest in enumerate(nests)
        )
    return found


def _table(nest: Nest, schedules: Sequence[NestSchedule]) -> ScheduleTable:
    return ScheduleTable.of(nest, list(dict.fromkeys(schedules)))


def _best(
    model: CostModel, nest: Nest, table: ScheduleTable, spec: HardwareSpec
) -> tuple[ScheduleTable, Forecast]:
    """Return the ``OFFERED`` best schedules of a table and of the neighbours of its best ones, with the
    forecast of each, best first."""
    forecast = model.forecast(nest, table)
    refined = table.take(np.argsort(forecast.cycles, kind="stable")[:REFINED])
    near = neighbours(
        nest,
        refined,
        spec.capacity,
        spec.cores,
        spec.tile_multiple,
        spec.max_buffers,
        im2col=True,
    )
    if len(near):
        table, forecast = table.then(near), forecast.then(model.forecast(nest, near))
    _, distinct = np.unique(table.identities, return_index=True)
    best = distinct[np.argsort(forecast.cycles[distinct], kind="stable")[:OFFERED]]
    return table.take(best), forecast.take(best)


def _joined(
    graph: Graph, plans: Sequence[Sequence[Names]], prices: Mapping[Names, Price]
) -> tuple[Names, ...]:
    """Return the cheapest mix of plans: parts between borders that plans share come from any of them."""
    best = min(plans, key=lambda groups: sum(prices[n].cycles for n in groups))
    for other in plans:
        best = _mixed(best, other, prices)
    return Partition.of(graph, best).groups


def _mixed(
    first: Sequence[Names], second: Sequence[Names], prices: Mapping[Names, Price]
) -> tuple[Names, ...]:
    """Return two plans' cheapest mix: where unions of their groups hold the same operators, the cheaper ones."""
    home = {name: n for n, group in enumerate(first) for name in group}
    parent = list(range(len(first)))

    def root(n: int) -> int:
        while parent[n] != n:
            n = parent[n]
        return n

    for group in second:
        for name in group[1:]:
            parent[root(home[name])] = root(home[group[0]])
    blocks: dict[int, tuple[list[Names], list[Names]]] = {}
    for n, group in enumerate(first):
        blocks.setdefault(root(n), ([], []))[0].append(group)
    for group in second:
        blocks[root(home[group[0]])][1].append(group)
    chosen = (
        min(pair, key=lambda groups: sum(prices[n].cycles for n in groups))
        for pair in blocks.values()
    )
    return tuple(group for groups in chosen for group in groups)
