"""A sweep: every combination of settings of a machine, and what networks take on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.display import Card, Displayed
from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.store.store import Store
from autotune.targets.plausibility import warnings_of
from autotune.targets.settings import (
    Setting,
    Value,
    assignments,
    spelled_value,
    with_settings,
)
from autotune.targets.spec import HardwareSpec
from autotune.tuner.machines.figures import MachinePoint
from autotune.tuner.machines.rows import FIGURE_COLUMNS, figure_row
from autotune.tuner.machines.search_point import PointOptions, model_of, searched
from autotune.tuner.progress import MACHINES, Progress

Networks = Callable[[str], Sequence[Graph]]
"""From a layout to the networks in it."""
MOST_MACHINES = 4096
"""Largest number of machines of one sweep."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The machines of a sweep: a base, and all combinations of settings of it.

    All machines are legal before the first search: a wrong one costs no time. Raises ``InputError`` and
    ``SpecError`` for settings that repeat, for values that make no legal machine, and for too many machines.
    """

    base: HardwareSpec
    settings: tuple[Setting, ...]

    def __post_init__(self) -> None:
        count = len(self.machines)
        if count > MOST_MACHINES:
            raise InputError(f"{count} machines are too many; a sweep has at most {MOST_MACHINES}")
        model_of(self.base)

    @property
    def machines(self) -> tuple[tuple[Mapping[str, Value], HardwareSpec], ...]:
        """Settings and spec of every machine; the last setting changes fastest."""
        combined = assignments(self.settings)
        return tuple((one, with_settings(self.base, one)) for one in combined)

    def points(
        self, networks: Networks, options: PointOptions, store: Store, progress: Progress
    ) -> Iterator[MachinePoint]:
        """Search every network on every machine; give each machine when it is done."""
        total = len(self.machines)
        odd = set(warnings_of(self.base))
        for done, (assignment, spec) in enumerate(self.machines):
            outcomes = []
            graphs = networks(spec.layout)
            for number, graph in enumerate(graphs):
                progress(MACHINES, done * len(graphs) + number, total * len(graphs))
                outcomes.append(searched(graph, spec, options, store, progress))
            warnings = tuple(one for one in warnings_of(spec) if one not in odd)
            yield MachinePoint(tuple(assignment.items()), spec, tuple(outcomes), warnings)


@dataclass(frozen=True, slots=True, repr=False)
class SweepResult(Displayed):
    """Machines of a sweep with what networks take on each, in order.

    ``points`` are fewer than ``machines`` where the sweep was interrupted.
    """

    base: HardwareSpec
    settings: tuple[Setting, ...]
    points: tuple[MachinePoint, ...]
    machines: int

    @property
    def is_complete(self) -> bool:
        """True if every machine has its point."""
        return len(self.points) == self.machines

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the figures of a row, the settings first."""
        return (*(setting.name for setting in self.settings), *FIGURE_COLUMNS)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row of texts for every network on every machine."""
        return tuple(row for point in self.points for row in self._point_rows(point))

    def _point_rows(self, point: MachinePoint) -> Iterator[tuple[str, ...]]:
        values = dict(point.settings)
        head = tuple(spelled_value(values[setting.keys[0]]) for setting in self.settings)
        for outcome, first in zip(point.outcomes, self.points[0].outcomes, strict=True):
            yield (*head, *figure_row(outcome, first))

    def _card(self) -> Card:
        facts = [("machines", str(len(self.points))), ("settings", str(len(self.settings)))]
        return Card(f"Sweep of {self.base.name}", facts, self.columns, self.rows)
