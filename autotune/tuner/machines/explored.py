"""Results of an exploration: machines as the model prices them, as the emulator confirms them, and the front."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from autotune.display import Card, Displayed
from autotune.targets.settings import spelled_value
from autotune.tuner.machines.figures import MachinePoint, geometric_mean
from autotune.tuner.machines.menu import Estimate
from autotune.tuner.machines.space import DOUBLINGS, Design, Space

Costs = tuple[float, float, float]
"""Seconds, joules and mm²."""

COLUMNS = ("ms", "speed-up", "energy µJ", "mm²", "peak W", "DRAM MB", "array use", "busiest")
"""Columns of a confirmed machine: geometric means over the networks, the speed-up over the base."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A machine with the seconds and joules that the model expects of a run, geometric means over the
    networks; None where a network does not fit. ``plans`` are the plans that cost so, by network."""

    design: Design
    seconds: float | None
    joules: float | None
    plans: tuple[Estimate, ...] = field(default=(), repr=False)

    @property
    def costs(self) -> Costs | None:
        """Seconds, joules and mm²; None where a network does not fit."""
        if self.seconds is None or self.joules is None:
            return None
        return self.seconds, self.joules, self.design.area_mm2


@dataclass(frozen=True, slots=True)
class Explored:
    """A machine that the emulator confirmed; ``predicted`` is what the model expected of it.

    Where ``searched`` is False the emulator ran the model's plan, else the plan of a search.
    """

    design: Design
    point: MachinePoint
    predicted: Costs | None = None
    searched: bool = True

    @property
    def costs(self) -> Costs | None:
        """Seconds, joules and mm² of a run, geometric means over the networks; None where one does not fit."""
        figures = self.point.figures
        if figures is None:
            return None
        seconds = geometric_mean(one.seconds for one in figures)
        joules = geometric_mean(one.joules for one in figures)
        return seconds, joules, self.design.area_mm2


@dataclass(frozen=True, slots=True)
class Doubling:
    """A machine with twice as much of one resource, named by its key."""

    key: str
    made: Explored


@dataclass(frozen=True, slots=True, repr=False)
class ExploreResult(Displayed):
    """What an exploration found.

    ``front`` are the confirmed machines that none beats in latency, energy and area, fastest first;
    ``doublings`` are of the first one. ``priced_seconds`` is the time of the model alone, of ``seconds`` in all.
    """

    space: Space
    networks: tuple[str, ...]
    priced: tuple[Priced, ...]
    confirmed: tuple[Explored, ...]
    front: tuple[Explored, ...]
    base: Explored
    doublings: tuple[Doubling, ...]
    priced_seconds: float
    seconds: float

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of ``rows``."""
        return ("machine", *COLUMNS)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row of texts for every machine of the front, those alike in all columns once, then the base."""
        front = dict.fromkeys(self._row(one) for one in self.front)
        return (*front, self._row(self.base))

    def _row(self, one: Explored) -> tuple[str, ...]:
        return (self.text(one.design), *self.figures(one))

    def text(self, design: Design) -> str:
        """Return a machine's main numbers, and those that were explored besides."""
        spec = design.spec
        texts = [
            f"{spec.matrix.rows}×{spec.matrix.cols} {spec.matrix.dataflow}",
            f"{spec.vector.lanes} lanes",
            f"{spec.scratchpad.size_bytes / 1024:,g} KiB",
            f"{spec.dram.bytes_per_cycle:g} B/cycle",
            f"{spec.cores} core{'s' if spec.cores > 1 else ''}",
        ]
        told = {*DOUBLINGS, "matrix.dataflow"}
        others = [k for p in self.space.parameters for k in p.keys if k not in told]
        return ", ".join([*texts, *(f"{k} {spelled_value(value_of(design, k))}" for k in others)])

    def figures(self, one: Explored) -> tuple[str, ...]:
        """Return the texts of ``COLUMNS``."""
        figures, costs = one.point.figures, one.costs
        if figures is None or costs is None:
            return ("does not fit", *["–"] * (len(COLUMNS) - 1))
        busiest = max(figures, key=lambda f: f.seconds)
        base = self.base.costs
        return (
            f"{costs[0] * 1e3:,.3f}",
            "–" if base is None else f"{base[0] / costs[0]:.2f}",
            f"{costs[1] * 1e6:,.1f}",
            f"{costs[2]:,.2f}",
            f"{one.design.watts:,.2f}",
            f"{geometric_mean(f.dram_bytes for f in figures) / 1e6:,.2f}",
            f"{geometric_mean(max(f.array_use, 1e-9) for f in figures):.0%}",
            f"{busiest.bound} {busiest.use[busiest.bound]:.0%}",
        )

    def doubling_rows(self) -> Iterator[tuple[str, ...]]:
        """Give what twice as much of each resource of the fastest machine changes."""
        for doubling in self.doublings:
            old, new = self.front[0].costs, doubling.made.costs
            assert old is not None and new is not None
            value = value_of(doubling.made.design, doubling.key)
            changes = (f"{after / before - 1:+.1%}" for before, after in zip(old, new, strict=True))
            yield doubling.key, spelled_value(value), *changes

    @property
    def prediction_error(self) -> float:
        """Mean absolute relative error of predicted seconds on the confirmed machines."""
        errors = [
            abs(one.predicted[0] / one.costs[0] - 1)
            for one in self.confirmed
            if one.predicted is not None and one.costs is not None
        ]
        return math.fsum(errors) / len(errors) if errors else 0.0

    def _card(self) -> Card:
        facts = [
            ("machines priced", str(len(self.priced))),
            ("confirmed", str(len(self.confirmed))),
            ("front", str(len(self.front))),
        ]
        title = f"Exploration around {self.space.base.name}"
        return Card(title, facts, self.columns, self.rows)


DOUBLING_COLUMNS = ("twice", "value", "latency", "energy", "area")
"""Columns of ``doubling_rows``."""


def value_of(design: Design, key: str) -> int | float | str:
    """Return the value of a key on a machine."""
    section, dot, name = key.partition(".")
    owner = getattr(design.spec, section) if dot else design.spec
    value = getattr(owner, name if dot else section)
    assert isinstance(value, (int, float, str))
    return value
