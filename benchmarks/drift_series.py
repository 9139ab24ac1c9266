"""Long series of quiet runs, with and without a shift, for ``benchmarks.drift``: real ones by block bootstrap
of recordings, and drawn ones whose noise is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.drift_recording import Recording

Floats = npt.NDArray[np.float64]
BLOCK_RUNS = (64, 512)
"""Least and greatest length of a block: longer than the spells that a detector must bear."""


@dataclass(frozen=True, slots=True)
class Series:
    """Log seconds of runs, one after another, and whether the kernel took a core away meanwhile."""

    log_seconds: Floats
    taken: npt.NDArray[np.bool_]

    def shifted(self, at: int, factor: float) -> Series:
        """The same series with all runs from ``at`` on longer by ``factor``."""
        moved = self.log_seconds.copy()
        moved[at:] += np.log(factor)
        return Series(moved, self.taken)


def bootstrapped(recording: Recording, runs: int, rng: np.random.Generator) -> Series:
    """Draw blocks of consecutive runs of a recording, with replacement, until there are ``runs``."""
    values, taken = recording.log_seconds, recording.taken > 0
    places: list[npt.NDArray[np.int64]] = []
    count = 0
    while count < runs:
        length = int(rng.integers(*BLOCK_RUNS, endpoint=True))
        begin = int(rng.integers(0, max(1, len(values) - length)))
        places.append(np.arange(begin, min(begin + length, len(values))))
        count += len(places[-1])
    chosen = np.concatenate(places)[:runs]
    return Series(values[chosen], taken[chosen])


def drawn(kind: str, runs: int, rng: np.random.Generator) -> Series:
    """Draw a series of a kind of ``KINDS``."""
    return Series(KINDS[kind](runs, rng), np.zeros(runs, np.bool_))


def _normal(runs: int, rng: np.random.Generator) -> Floats:
    return rng.normal(0, 0.02, runs)


def _heavy_tails(runs: int, rng: np.random.Generator) -> Floats:
    """Student's t with two degrees of freedom, and one run of a hundred up to five times as long."""
    odd = (rng.random(runs) < 0.01) * rng.uniform(0, np.log(5), runs)
    tails: Floats = np.clip(0.012 * rng.standard_t(2, runs), -0.3, 1.5) + odd
    return tails


def _slow_spells(runs: int, rng: np.random.Generator) -> Floats:
    """Every 500 runs on average, at least 100 apart, ten or so runs take a third longer, never more than twenty."""
    values = rng.normal(0, 0.015, runs)
    for begin in np.cumsum(100 + rng.exponential(400, runs // 300).astype(int)):
        values[begin : begin + min(20, rng.geometric(0.1))] += np.log(4 / 3)
    return values


def _clock_modes(runs: int, rng: np.random.Generator) -> Floats:
    """The clock steps between two modes 2 % apart, every 300 runs on average."""
    mode = np.cumsum(rng.random(runs) < 1 / 300) % 2
    values: Floats = rng.normal(0, 0.012, runs) + 0.02 * mode
    return values


KINDS = {
    "drawn: normal, 2 %": _normal,
    "drawn: heavy tails": _heavy_tails,
    "drawn: slow spells": _slow_spells,
    "drawn: clock modes": _clock_modes,
}


def all_series(recordings: list[Recording], runs: int, seed: int) -> Mapping[str, Series]:
    """One quiet series of every recording and kind."""
    rng = np.random.default_rng(seed)
    real = {f"recorded: {r.name}": bootstrapped(r, runs, rng) for r in recordings}
    return real | {kind: drawn(kind, runs, rng) for kind in KINDS}
