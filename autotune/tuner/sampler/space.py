"""A search space as a cube: parameters of Optuna to coordinates and back, random and near points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Floats = npt.NDArray[np.float64]
Params = Mapping[str, Any]
"""Values of a trial's parameters by name."""

SCALES = (0.25, 0.08, 0.02)
"""Standard deviations of steps to near points, as shares of a parameter's range."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter: ``choices`` of a categorical one, else the values between two ends.

    ``count`` is the number of values, None where they are continuous.
    """

    name: str
    low: float
    high: float
    step: float | None
    is_log: bool
    is_integer: bool
    choices: tuple[Any, ...] = ()

    @classmethod
    def of(cls, name: str, distribution: BaseDistribution) -> Axis:
        """Return the axis of a distribution."""
        from optuna.distributions import CategoricalDistribution, IntDistribution

        if isinstance(distribution, CategoricalDistribution):
            return cls(name, 0, 1, None, False, False, tuple(distribution.choices))
        is_integer = isinstance(distribution, IntDistribution)
        d: Any = distribution
        return cls(name, d.low, d.high, d.step, d.log, is_integer)

    @property
    def count(self) -> int | None:
        """Number of values; None where they are continuous."""
        if self.choices:
            return len(self.choices)
        if self.low == self.high:
            return 1
        if self.step is None:
            return None
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the range that [0, 1] stands for: of whole steps, in logarithms where asked."""
        half = 0.0 if self.step is None else self.step / 2
        low, high = self.low - half, self.high + half
        return (math.log(low), math.log(high)) if self.is_log else (low, high)

    def value(self, at: float) -> Any:
        """Return the value at a coordinate."""
        if self.choices:
            return self.choices[int(at)]
        low, high = self.ends
        raw = low + at * (high - low)
        raw = math.exp(raw) if self.is_log else raw
        if self.step is not None:
            raw = self.low + self.step * round((raw - self.low) / self.step)
        bounded = min(max(raw, self.low), self.high)
        return int(bounded) if self.is_integer else float(bounded)

    def coordinate(self, value: Any) -> float:
        """Return the coordinate of a value: an index of ``choices``, else a share of the range."""
        if self.choices:
            return float(self.choices.index(value))
        low, high = self.ends
        at = math.log(value) if self.is_log else float(value)
        return 0.5 if low == high else (at - low) / (high - low)


@dataclass(frozen=True)
class Space:
    """Parameters of a study as axes. Points are rows of coordinates [n, axes]: shares of a range, indices
    of choices."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, distributions: Mapping[str, BaseDistribution]) -> Space:
        """Return the space of Optuna's distributions."""
        return cls(tuple(Axis.of(name, one) for name, one in distributions.items()))

    @cached_property
    def size(self) -> float:
        """Number of points; infinite for a continuous space."""
        counts = [axis.count for axis in self.axes]
        return math.prod(math.inf if count is None else count for count in counts)

    def every(self) -> list[dict[str, Any]]:
        """Return all points of a finite space."""
        values = [
            axis.choices or [axis.value((i + 0.5) / count) for i in range(count)]
            if not axis.is_log
            else range(int(axis.low), int(axis.high) + 1)
            for axis in self.axes
            if (count := axis.count) is not None
        ]
        return [dict(zip(self.names, row, strict=True)) for row in product(*values)]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(axis.name for axis in self.axes)

    def drawn(self, count: int, rng: np.random.Generator) -> Floats:
        """Return random points [count, axes], evenly drawn."""
        points = rng.random((count, len(self.axes)))
        for column, axis in enumerate(self.axes):
            if axis.choices:
                points[:, column] = rng.integers(len(axis.choices), size=count)
        return points

    def near(self, points: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Return ``count`` points that differ from random ones of ``points`` in some parameters, at least one."""
        rows = points[rng.integers(len(points), size=count)].copy()
        width = len(self.axes)
        changes = rng.random(rows.shape) < np.maximum(1.0 / width, 0.2)
        changes[np.arange(count), rng.integers(width, size=count)] = True
        fresh = self.drawn(count, rng)
        steps = rng.normal(size=rows.shape) * rng.choice(SCALES, size=(count, 1))
        for column, axis in enumerate(self.axes):
            moved = rows[:, column] + steps[:, column]
            if axis.choices:
                moved = fresh[:, column]
            elif axis.count is not None:  # a step of a value at least
                least = np.sign(steps[:, column]) / axis.count
                moved = np.where(abs(steps[:, column]) < abs(least), rows[:, column] + least, moved)
            chosen = changes[:, column]
            rows[chosen, column] = moved[chosen]
            if not axis.choices:
                rows[:, column] = np.clip(rows[:, column], 0.0, np.nextafter(1.0, 0.0))
        return rows

    def params(self, points: Floats) -> list[dict[str, Any]]:
        """Return the parameters at points."""
        return [
            {axis.name: axis.value(at) for axis, at in zip(self.axes, row, strict=True)}
            for row in points.tolist()
        ]

    def points(self, rows: Sequence[Params]) -> Floats:
        """Return the coordinates of parameters [n, axes]."""
        found = [[axis.coordinate(row[axis.name]) for axis in self.axes] for row in rows]
        return np.array(found, dtype=np.float64).reshape(len(rows), len(self.axes))

    def features(self, rows: Sequence[Params]) -> Floats:
        """Return coordinates with a column for each choice of a categorical parameter [n, F]."""
        points = self.points(rows)
        columns = [
            np.eye(len(axis.choices))[points[:, i].astype(np.int64)]
            if axis.choices
            else points[:, [i]]
            for i, axis in enumerate(self.axes)
        ]
        return np.concatenate(columns, axis=1)
