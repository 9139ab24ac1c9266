"""Exploration: which machine within a budget runs networks fast, with little energy, on little area.

The way of the data:

- anchors → menus of networks → the model prices machines in bulk, which Optuna proposes;
- machines near the front → the emulator runs the model's plans on them → searches on the best of them;
- found plans → carried to the others of the front → searches where plans are then farthest above their bounds;
- the front → what the next doubling of each resource would buy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.arguments import integer_of, seconds_of
from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.store.store import Store
from autotune.tuner.machines.counting import count, fastest_plans
from autotune.tuner.machines.explored import (
    Costs,
    Doubling,
    Explored,
    ExploreResult,
    Priced,
    value_of,
)
from autotune.tuner.machines.figures import MachinePoint, geometric_mean
from autotune.tuner.machines.front import non_dominated
from autotune.tuner.machines.menu import Menu, menu_of, menu_of_plans
from autotune.tuner.machines.proposals import proposed
from autotune.tuner.machines.search_point import PointOptions, searched
from autotune.tuner.machines.selection import (
    farthest_above_bound,
    front_of,
    near_front,
    spread_front,
)
from autotune.tuner.machines.space import DOUBLINGS, Design, Space, doubled
from autotune.tuner.progress import Progress, silent

DEFAULT_EVALUATIONS = 200
"""Machines that the model prices."""
DEFAULT_CONFIRMED = 12
"""Machines that are searched at most."""
COUNTED = 8
"""Machines whose plans by the model the emulator runs, for each that is searched."""
CARRIED = 0.15
"""Share by which a search may better plans of the model: machines so much dearer than the front are near it."""
LATE = 3
"""One of so many searches waits until found plans are carried: the machine whose plans look worst then gets it."""
EXPLORE_STAGES: Mapping[str, float] = {"menus": 0.2, "price": 0.3, "count": 0.15, "confirm": 0.35}
"""Phases of an exploration with their shares of its time."""


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """``evaluations`` bounds the machines that the model prices, ``seconds`` the time for it (None: no
    limit), ``confirmed`` the machines of the front that are searched. Without ``doublings`` the
    fastest of them is left as it is."""

    evaluations: int = DEFAULT_EVALUATIONS
    seconds: float | None = None
    confirmed: int = DEFAULT_CONFIRMED
    doublings: bool = True
    point: PointOptions = field(default_factory=PointOptions)

    def __post_init__(self) -> None:
        integer_of(self.evaluations, "evaluations", 1)
        integer_of(self.confirmed, "confirmed", 1)
        seconds_of(self.seconds, "seconds")


@dataclass(frozen=True)
class Exploration:
    """Networks, the machines to choose from, and what is remembered meanwhile."""

    space: Space
    graphs: Sequence[Graph]
    options: ExploreOptions
    store: Store
    progress: Progress = silent
    clock: Callable[[], float] = time.monotonic

    def run(self) -> ExploreResult:
        """Price machines by the model, confirm the front, double each resource of the fastest machine.

        Raises ``InputError`` if no machine within the budget runs the networks.
        """
        begin = self.clock()
        menus = self._menus()
        priced = self._priced(menus)
        if not priced:
            raise InputError(
                f"{self.space.base.name}: no machine within {self.space.budget.area_mm2:.3g} mm² and "
                f"{self.space.budget.watts:.3g} W runs all networks; raise the budget or add values"
            )
        priced_seconds = self.clock() - begin
        confirmed = self._searched(self._counted(priced))
        base = self._confirm(self.space.base_design)
        if base.costs is not None and self._may_choose(base.design):
            others = (one for one in confirmed if one.design.spec != base.design.spec)
            confirmed = [*others, base]
        front = front_of(confirmed)
        doublings = tuple(self._doublings(front[0])) if self.options.doublings and front else ()
        return ExploreResult(
            self.space,
            tuple(graph.name for graph in self.graphs),
            tuple(priced),
            tuple(confirmed),
            tuple(front),
            base,
            doublings,
            priced_seconds,
            self.clock() - begin,
        )

    def _menus(self) -> list[Menu]:
        anchors = self._anchors()
        menus = []
        for number, graph in enumerate(self.graphs):
            self.progress("menus", number, len(self.graphs))
            specs = [design.spec for design in anchors]
            menus.append(menu_of(graph, specs, self.options.point.seed, silent))
        return menus

    def _anchors(self) -> list[Design]:
        """Return the base, and the machines of all least and of all greatest values."""
        designs = [self.space.base_design]
        for at in (0, -1):
            assignment = {key: p.values[at] for p in self.space.parameters for key in p.keys}
            design = self.space.unbounded(assignment)
            if design is not None:
                designs.append(design)
        return designs

    def _priced(self, menus: Sequence[Menu]) -> list[Priced]:
        """Return machines with the model's prices, each once."""
        end = None if self.options.seconds is None else self.clock() + self.options.seconds
        found: dict[str, Priced] = {}
        for design in proposed(
            self.space, found, self.options.evaluations, self.options.point.seed
        ):
            self.progress("price", len(found), self.options.evaluations)
            priced = price(design, menus)
            found[design.spec.profile_id] = priced
            if len(found) >= self.options.evaluations or (end is not None and self.clock() > end):
                break
        return [one for one in found.values() if one.costs is not None]

    def _counted(self, priced: Sequence[Priced]) -> list[Explored]:
        """Let the emulator run the model's plans on the predicted front, and then on what is near it."""
        chosen = near_front(priced, COUNTED * self.options.confirmed)
        found = []
        for number, one in enumerate(chosen):
            self.progress("count", number, len(chosen))
            made = count(one, self.graphs, self.options.point.workers)
            if made.costs is not None:
                found.append(made)
        return found

    def _searched(self, counted: Sequence[Explored]) -> list[Explored]:
        """Search machines of the counted front, and carry what searches found to those near it.

        Most are spread over the front. The others are those whose plans are then farthest above
        their lower bounds: a search has most to find there. Machines left over keep their best plans.
        """
        late = self.options.confirmed // LATE
        early = spread_front(counted, self.options.confirmed - late)
        machines = self._carried(self._search(counted, early))
        for _ in range(late):
            near = [machines[at] for at in _near(machines)]
            machines = self._search(machines, farthest_above_bound(near, self.graphs))
        return self._carried(machines) if late else machines

    def _search(self, machines: Sequence[Explored], chosen: Sequence[Explored]) -> list[Explored]:
        """Search the ``chosen`` of the machines; each keeps its faster plans."""
        left = {one.design.spec.profile_id: one for one in machines}
        for one in chosen:
            seen = sum(other.searched for other in left.values())
            self.progress("confirm", seen, self.options.confirmed + len(DOUBLINGS))
            made = self._confirm(one.design, one.predicted)
            if made.costs is not None:
                left[one.design.spec.profile_id] = fastest_plans(made, one)
        return list(left.values())

    def _carried(self, confirmed: Sequence[Explored]) -> list[Explored]:
        """Try what searches found on the machines near the front that were not searched: the model fits these plans
        to each, the emulator runs them, and the faster plan of every network counts."""
        found = [one.point.figures for one in confirmed if one.searched]
        plans = [one for one in found if one is not None]
        burst, seed = self.space.base.dram.burst_bytes, self.options.point.seed
        menus = [
            menu_of_plans(graph, [figures[at] for figures in plans], burst, seed)
            for at, graph in enumerate(self.graphs)
        ]
        near = _near(confirmed)
        return [
            one if one.searched or at not in near else self._with_plans(one, menus)
            for at, one in enumerate(confirmed)
        ]

    def _with_plans(self, counted: Explored, menus: Sequence[Menu]) -> Explored:
        fitted = price(counted.design, menus)
        if fitted.costs is None:
            return counted
        return fastest_plans(counted, count(fitted, self.graphs, self.options.point.workers))

    def _may_choose(self, base: Design) -> bool:
        """Return True if the base is a machine of the space."""
        own = (
            value_of(base, key) in parameter.values
            for parameter in self.space.parameters
            for key in parameter.keys
        )
        return all(own) and self.space.allows(base)

    def _confirm(self, design: Design, predicted: Costs | None = None) -> Explored:
        outcomes = tuple(
            searched(graph, design.spec, self.options.point, self.store, silent)
            for graph in self.graphs
        )
        return Explored(design, MachinePoint(design.settings, design.spec, outcomes), predicted)

    def _doublings(self, best: Explored) -> Iterator[Doubling]:
        """Give what twice as much of each resource of a machine would buy."""
        for number, key in enumerate(DOUBLINGS):
            self.progress(
                "confirm", self.options.confirmed + number, self.options.confirmed + len(DOUBLINGS)
            )
            design = doubled(best.design, self.space, key)
            if design is None:
                continue
            made = self._confirm(design)
            if made.costs is not None:
                yield Doubling(key, made)


def _near(machines: Sequence[Explored]) -> set[int]:
    """Return the positions of machines that a search may bring to the front."""
    return set(non_dominated([one.costs for one in machines if one.costs is not None], CARRIED))


def price(design: Design, menus: Sequence[Menu]) -> Priced:
    """Return what the model expects of networks on a machine: geometric means over them."""
    estimates = [menu.estimate(design.spec) for menu in menus]
    known = [one for one in estimates if one is not None]
    if len(known) < len(estimates):
        return Priced(design, None, None)
    return Priced(
        design,
        geometric_mean(one.cycles / design.spec.clock_hz for one in known),
        geometric_mean(one.energy_fj * 1e-15 for one in known),
        tuple(known),
    )
