"""Prices of counted work, and how far units overlap, fitted to measurements: what raw trees learn the ratio to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.raw.work import RAW_UNITS, RAW_WORK, RawUnit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CALM = 0.1
"""Error of a logarithm beyond which it counts by its size."""
_PULL = 1e-4
"""Weight of the squared distance of a logarithmic price from its start, by measurement."""
_ROUNDS = 300
_FEWEST = 10
"""Measurements with a kind of work, below which it costs nothing: its price would be what else is not explained."""
_FREE = -30.0
_BELOW, _ABOVE = 12.0, 2.0
"""How far the logarithm of a price may lie from where it starts: a third of what hardly any measurement undercuts."""
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class RawPrices:
    """Logarithms [2 W + 2]: of the cycles of a unit of each kind, with one buffer and with several, then of the
    exponents less 1 by which busy units add up with them: 1 adds them, ∞ takes the longest.

    Work [n, 2 W] is what ``split_work`` returns."""

    logs: Floats

    def cycles(self, work: Floats) -> Floats:
        """Return cycles [n] of counted work, at least 1."""
        return _cycles(self.logs, work)[0]

    def by_unit(self, work: Floats) -> Floats:
        """Return the cycles [n, U] that each unit is busy, in the order of ``RawUnit``."""
        return _by_unit(work * np.exp(self.logs[:-2]))

    def features(self, work: Floats) -> Floats:
        """Return what trees read of prices [n, U + W + 1], as ``PRICE_NAMES``: shares of units and of kinds, and
        the logarithm of cycles."""
        priced = work * np.exp(self.logs[:-2])
        kinds = priced[:, : len(RAW_WORK)] + priced[:, len(RAW_WORK) :]
        cycles = self.cycles(work)[:, None]
        return np.concatenate([_by_unit(priced) / cycles, kinds / cycles, np.log(cycles)], axis=1)


PRICE_NAMES: tuple[str, ...] = (
    *(f"unit_{unit.name.lower()}_share" for unit in RawUnit),
    *(f"priced_{kind}_share" for kind in RAW_WORK),
    "log_priced",
)
"""Columns of ``RawPrices.features``."""
_UNITS = np.tile(RAW_UNITS, 2)
_NESTS = RAW_WORK.index("nests")


def split_work(work: Floats, buffers: Floats) -> Floats:
    """Return the work [n, 2 W] of schedules with one buffer, then of those with several, of work [n, W]."""
    single = (buffers < 2)[:, None]
    return np.concatenate([np.where(single, work, 0.0), np.where(single, 0.0, work)], axis=1)


def _by_unit(priced: Floats) -> Floats:
    return np.stack([priced[:, unit == _UNITS].sum(axis=1) for unit in RawUnit], axis=1)


def _cycles(logs: Floats, work: Floats) -> tuple[Floats, Floats]:
    """Return cycles [n] and their derivatives [n, W + 2] by the logarithms."""
    priced = work * np.exp(logs[:-2])
    busy = np.maximum(_by_unit(priced)[:, 1:], _LEAST)
    single = work[:, _NESTS] > 0
    excess = np.where(single, np.exp(logs[-2]), np.exp(logs[-1]))
    p = 1.0 + excess
    most = busy.max(axis=1)
    ratio = busy / most[:, None]
    powers = ratio ** p[:, None]
    total = powers.sum(axis=1)
    norm = most * total ** (1.0 / p)
    control = priced[:, _UNITS == RawUnit.CONTROL].sum(axis=1)
    by_busy = ratio ** excess[:, None] * (total ** (1.0 / p - 1.0))[:, None]
    slope = np.concatenate([np.ones((len(work), 1)), by_busy], axis=1)[:, _UNITS] * priced
    by_p = norm * ((powers * np.log(ratio)).sum(axis=1) / total / p - np.log(total) / p**2) * excess
    ends = np.stack([np.where(single, by_p, 0.0), np.where(single, 0.0, by_p)], axis=1)
    return np.maximum(control + norm, 1.0), np.concatenate([slope, ends], axis=1)


def fit_raw_prices(work: Floats, owner: Ints, cycles: Floats, weight: Floats) -> RawPrices:
    """Fit prices to ``cycles`` [r] that nests' ``work`` [n, 2 W] took together, each weighted by ``weight`` [r].

    The pseudo-Huber error of logarithms is least (L-BFGS; Byrd et al. 1995, SIAM J. Sci. Comput. 16).
    """
    from scipy.optimize import minimize

    start = _start(work, owner, cycles)
    count = len(cycles)
    weight = weight / weight.sum()

    def loss(logs: Floats) -> tuple[float, Floats]:
        each, slope = _cycles(logs, work)
        total = np.bincount(owner, each, count)
        error = np.log(total / cycles) / _CALM
        root = np.sqrt(1.0 + error**2)
        value = float(weight @ (root - 1.0)) + _PULL * float(((logs - start) ** 2).sum())
        pull = (weight * error / root / _CALM / total)[owner]
        return value, pull @ slope + 2.0 * _PULL * (logs - start)

    ends = [(at - _BELOW, at + _ABOVE) if at > _FREE else (at, at) for at in start[:-2]]
    bounds = [*ends, (-4.0, 4.0), (-4.0, 4.0)]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ROUNDS}
    )
    return RawPrices(np.asarray(found.x, dtype=np.float64))


def _start(work: Floats, owner: Ints, cycles: Floats) -> Floats:
    """Price each kind at a third of the cheapest of the measurements that it alone explains; rare ones at nothing."""
    logs = np.full(work.shape[1] + 2, _FREE)
    for at, column in enumerate(work.T):
        total = np.bincount(owner, column, len(cycles))
        has = total > 0
        if has.sum() >= _FEWEST:
            logs[at] = float(np.quantile(np.log(cycles[has] / total[has]), 0.02)) - np.log(3.0)
    logs[-2:] = -2.0, 1.0
    return logs
