"""The optimiser: asked for a configuration, told its value, until the list is exhausted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.tuner.blackbox.design import initial_design
from autotune.tuner.blackbox.posterior import Marginals
from autotune.tuner.blackbox.space import Bools, Floats, Ints, Space
from autotune.tuner.blackbox.surrogate import ValiditySurrogate, ValueSurrogate

FIRST = 5
"""Configurations of the initial design."""
FIRST_TOLD = 10
"""The same where other machines chose some: so many values tell whether a recording agrees."""
LEAST_VALUES = 3
"""Values from which on a surrogate is fitted; before, configurations are drawn at random."""
CANDIDATES = 8_000
"""Configurations weighed at a time: all of a smaller space, else a draw and the neighbours of the best."""
NEAR_BEST, NEAR_CHANGES = 5, 2
"""How many of the best have their neighbours weighed, and how many parameters those change."""
LEAST_SCALE, LEAST_SPREAD = 0.1, 1e-9


@dataclass
class Optimiser:
    """Sequential minimisation of a positive cost over a finite space; each configuration is asked once.

    ``first`` are configurations to begin with, ``failures`` [j, n] are True where another machine failed.
    """

    space: Space
    seed: int
    first: Sequence[int] = ()
    failures: Bools | None = None
    rows: list[int] = field(default_factory=list, init=False)
    values: list[float] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        count = FIRST_TOLD if self.first else FIRST
        design = initial_design(self.space, count, self._rng)
        spread = [row for row in design if row not in self.first]
        kept = max(count - len(self.first), 0)
        self._design, self._withheld = [*self.first, *spread[:kept]], spread[kept:]
        self._is_asked = np.zeros(self.space.size, bool)
        self._surrogate = ValueSurrogate(self.space)
        self._validity = ValiditySurrogate(self.space)
        self._candidates: Ints = np.arange(self.space.size)

    def ask(self) -> int:
        """Return a configuration that was not asked yet. Raises ``ValueError`` if none is left."""
        if self._is_asked.all():
            raise ValueError(f"all {self.space.size} configurations were asked")
        row = self._next()
        self._is_asked[row] = True
        return row

    def tell(self, row: int, value: float | None) -> None:
        """Take the cost of a configuration; None if it is invalid."""
        self._is_asked[row] = True
        self.rows.append(row)
        self.values.append(np.nan if value is None else value)

    def _next(self) -> int:
        row = self._planned()
        return self._most_promising() if row is None else row

    def _planned(self) -> int | None:
        """Return the next of the design; recordings that the first values contradict do not shorten it."""
        if not self._design and self._withheld:
            is_valid = np.isfinite(self.values)
            rows, values = np.array(self.rows)[is_valid], np.array(self.values)[is_valid]
            self._surrogate.listen(rows, values)
            if not self._surrogate.heard.any():
                self._design = self._withheld
            self._withheld = []
        while self._design:
            row = self._design.pop(0)
            if not self._is_asked[row]:
                return row
        return None

    def _most_promising(self) -> int:
        values = np.array(self.values)
        is_valid = np.isfinite(values)
        if is_valid.sum() < LEAST_VALUES or not self.space.dimensions:
            return int(self._rng.choice(np.flatnonzero(~self._is_asked)))
        rows = np.array(self.rows)
        merit = self._merit(rows, values, is_valid)
        merit[self._is_asked[self._candidates]] = -np.inf
        best = int(np.argmax(merit))
        if merit[best] == -np.inf:
            return int(self._rng.choice(np.flatnonzero(~self._is_asked)))
        return int(self._candidates[best])

    def _merit(self, rows: Ints, values: Floats, is_valid: Bools) -> Floats:
        """Return the expected improvement [c] of candidates, counting that they may be invalid."""
        targets = standardised(values[is_valid])
        known = rows[is_valid]
        if self._surrogate.is_due(len(known)):
            self._candidates = self._weighed(known[np.argsort(targets, kind="stable")[:NEAR_BEST]])
            self._surrogate.refit(known, targets, self._candidates)
        marginals = self._surrogate.predict(known, targets)
        gain = expected_improvement(marginals, float(targets.min()))
        warned = self._warned()
        return gain * self._validity.probability(rows, is_valid, self._candidates, warned)

    def _warned(self) -> Floats:
        """Return the share [size] of failures among the machines that are heard."""
        heard = self._surrogate.heard
        if self.failures is None or not heard.any():
            return np.zeros(self.space.size)
        return np.asarray(self.failures[heard].mean(axis=0))

    def _weighed(self, best: Ints) -> Ints:
        if self.space.size <= CANDIDATES:
            return self._candidates
        drawn = self._rng.permutation(self.space.size)[:CANDIDATES]
        return np.union1d(drawn, self.space.neighbours(best, NEAR_CHANGES))


def standardised(values: Floats) -> Floats:
    """Return logarithms of positive ``values`` [n] with mean 0 and deviation 1, those above the median compressed:
    how slow the slow half is teaches little about the fast half."""
    logs = np.log(values)
    above = logs - np.median(logs)
    scale = max(float(-above.min()), LEAST_SCALE)
    bent = np.where(above > 0, scale * np.log1p(np.maximum(above, 0) / scale), above)
    return np.asarray((bent - bent.mean()) / max(bent.std(), LEAST_SPREAD))


def expected_improvement(marginals: Marginals, least: float) -> Floats:
    """Return the expected gain [c] below ``least`` (Jones et al. 1998, *J. Global Optimization* 13)."""
    from scipy.special import ndtr

    score = (least - marginals.mean) / marginals.deviation
    density = np.exp(-0.5 * score * score) / np.sqrt(2 * np.pi)
    return np.asarray((least - marginals.mean) * ndtr(score) + marginals.deviation * density)
