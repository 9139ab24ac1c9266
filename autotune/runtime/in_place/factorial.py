"""Effects of changes to a plan by a factorial design: in every run half of the changes are on, drawn at random.

Fresh runs confirm what a tournament chose. Least squares give each change's effect on its own steps and, as it leaves
other data in the caches, on the step behind them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_REWEIGHTED, _HUBER = 8, 1.345
"""Rounds of reweighting, and deviations beyond which a run counts less (95 % efficient on normal noise)."""
_TO_DEVIATION = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Seconds that a change adds to one run (less than 0: it is faster), and the standard error."""

    seconds: float
    error: float

    def is_gain(self, errors: float) -> bool:
        """Return True if the change saves time by more than so many standard errors."""
        return self.seconds < -errors * self.error


def balanced_design(runs: int, changes: int, rng: np.random.Generator) -> Bools:
    """Return [runs, changes]: each change is on in half of the runs; each run is followed by its opposite."""
    half = rng.random((-(-runs // 2), changes)) < 0.5
    design: Bools = np.empty((2 * len(half), changes), np.bool_)
    design[0::2], design[1::2] = half, ~half
    return design[:runs]


def effects(design: Bools, seconds: Floats, related: Bools) -> tuple[Effect, ...]:
    """Return the effect of each change on its own ``seconds`` [changes, runs]: of its steps and the step behind.

    A regression holds the changes that are ``related`` to it [changes, changes], as they alter the same steps.
    Runs that an outlier struck count less (iteratively reweighted least squares, Huber 1964).
    """
    return tuple(_effect(design, taken, at, related[at]) for at, taken in enumerate(seconds))


def _effect(design: Bools, taken: Floats, at: int, related: Bools) -> Effect:
    others = [i for i in np.flatnonzero(related).tolist() if i != at]
    columns = np.column_stack([design[:, [at, *others]], np.ones(len(design))]).astype(float)
    weights = np.ones(len(taken))
    for _ in range(_REWEIGHTED):
        root = np.sqrt(weights)
        scaled = columns * root[:, None]
        solution = np.linalg.lstsq(scaled, taken * root, rcond=None)[0]
        rest = np.abs(taken - columns @ solution)
        scale = _TO_DEVIATION * float(np.median(rest))
        weights = np.minimum(1.0, _HUBER * scale / np.maximum(rest, 1e-15))
    variance = float(np.linalg.pinv(scaled.T @ scaled)[0, 0])
    freedom = max(1, len(taken) - columns.shape[1])
    error = scale * np.sqrt(max(0.0, variance) * len(taken) / freedom)
    return Effect(float(solution[0]), float(error))
