"""The legal configurations of a black box as codes of levels, with a distance between levels of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.tuner.blackbox.relations import Column, factors_of_two, relations

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Value = int | float | str

WIDE_RANGE = 4.0
"""Largest over smallest level from which a parameter's levels are spaced by logarithm and by rank."""
IDENTITY = 0.3
"""Share of a level's effect that its neighbours do not have."""
MANY_LEVELS = 5
"""Levels from which powers of two within whole numbers are told from the others."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One property that varies: the level ``codes`` [n] of every configuration, the ``distance`` [k, k] between
    levels, 1 at most, and what share of a level's effect is its own (``identity``)."""

    name: str
    codes: Ints
    distance: Floats
    identity: float = 0.0

    @property
    def levels(self) -> int:
        """Number of levels."""
        return len(self.distance)


@dataclass(frozen=True, slots=True)
class Space:
    """``size`` legal configurations over the parameters that vary, as ``dimensions``.

    ``derived`` follow from the parameters: factors of two, powers of two, products and quotients. ``scores`` [j, n]
    are what other machines say of each configuration, standardised, lower for faster; there may be none.
    """

    size: int
    dimensions: tuple[Dimension, ...]
    derived: tuple[Dimension, ...]
    scores: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(
        cls,
        parameters: Sequence[str],
        values: Sequence[Sequence[Value]],
        scores: Floats | None = None,
    ) -> Space:
        """Encode configurations ``values`` [n][p]."""
        columns = zip(parameters, zip(*values, strict=True), strict=True)
        varied = [(name, column) for name, column in columns if len(set(column)) > 1]
        dimensions = tuple(_dimension(name, column) for name, column in varied)
        numeric = [_numbers(name, column) for name, column in varied if not _has_text(column)]
        derived = [d for column in numeric for d in _divisors(column)]
        derived += [Dimension(name, c, _distances(_scaled(v))) for name, v, c in relations(numeric)]
        none = np.zeros((0, len(values)))
        return cls(len(values), dimensions, tuple(derived), none if scores is None else scores)

    @property
    def factors(self) -> tuple[Dimension, ...]:
        """Parameters and what is derived from them."""
        return self.dimensions + self.derived

    def neighbours(self, rows: Ints, changes: int) -> Ints:
        """Return the configurations that differ from one of ``rows`` in at most ``changes`` parameters."""
        near = np.zeros(self.size, bool)
        for row in rows:
            differing = np.zeros(self.size, np.int64)
            for dimension in self.dimensions:
                differing += dimension.codes != dimension.codes[row]
            near |= differing <= changes
        return np.flatnonzero(near)


def _has_text(column: Sequence[Value]) -> bool:
    return any(isinstance(value, str) for value in set(column))


def _numbers(name: str, column: Sequence[Value]) -> Column:
    levels, codes = np.unique(np.array(column, np.float64), return_inverse=True)
    return name, levels, codes.astype(np.int64)


def _dimension(name: str, column: Sequence[Value]) -> Dimension:
    if _has_text(column):
        texts, codes = np.unique([str(value) for value in column], return_inverse=True)
        return Dimension(name, codes.astype(np.int64), 1.0 - np.eye(len(texts)))
    _, levels, codes = _numbers(name, column)
    identity = IDENTITY if len(levels) > 2 else 0.0
    return Dimension(name, codes, _distances(_places(levels)), identity)


def _divisors(column: Column) -> list[Dimension]:
    """Return the factors of two of a parameter of many whole numbers, and if they are powers of two."""
    name, numbers, codes = column
    if len(numbers) < MANY_LEVELS or (numbers < 0).any() or (numbers != np.floor(numbers)).any():
        return []
    is_power = np.array([int(n) & (int(n) - 1) == 0 for n in numbers])
    if is_power.all():
        return []
    properties = {
        f"{name}: factors of two": factors_of_two(numbers),
        f"{name}: power of two": is_power * 1.0,
    }
    return [
        Dimension(text, places[codes].astype(np.int64), _distances(_scaled(levels)))
        for text, (levels, places) in (
            (text, np.unique(values, return_inverse=True)) for text, values in properties.items()
        )
        if len(levels) > 1
    ]


def _distances(places: Floats) -> Floats:
    return np.asarray(np.abs(places[:, None] - places[None, :]))


def _scaled(levels: Floats) -> Floats:
    return np.asarray((levels - levels[0]) / (levels[-1] - levels[0]))


def _places(levels: Floats) -> Floats:
    """Return the places [k] of ascending numbers between 0 and 1."""
    if len(levels) > 2 and levels[0] > 0 and levels[-1] >= WIDE_RANGE * levels[0]:
        logs = np.log2(levels)
        ranks = np.arange(len(levels)) / (len(levels) - 1)
        return np.asarray(0.5 * (logs - logs[0]) / (logs[-1] - logs[0]) + 0.5 * ranks)
    return _scaled(levels)
