"""How good predictions are: the figures a cost model reports about networks it has not seen."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau, rankdata

Floats = npt.NDArray[np.float64]


def mape(actual: Floats, predicted: Floats) -> float:
    """Mean of |predicted − actual| / actual; a share, 0.08 is 8 %. Costs are whole numbers: one that
    is 0, as energy is where it cannot be measured, counts as 1."""
    return float(np.mean(np.abs(predicted - actual) / np.maximum(actual, 1.0)))


def spearman(actual: Floats, predicted: Floats) -> float:
    """Spearman's rank correlation; 1.0 where either side is constant or has one value."""
    if len(actual) < 2 or np.ptp(actual) == 0 or np.ptp(predicted) == 0:
        return 1.0
    return float(np.corrcoef(rankdata(actual), rankdata(predicted))[0, 1])


def kendall(actual: Floats, predicted: Floats) -> float:
    """Kendall's tau-b; 1.0 where either side is constant or has one value."""
    if len(actual) < 2 or np.ptp(actual) == 0 or np.ptp(predicted) == 0:
        return 1.0
    return float(kendalltau(actual, predicted).statistic)


def top1_regret(actual: Floats, predicted: Floats, groups: Sequence[Hashable]) -> float:
    """Mean over groups of: cost of the row predicted cheapest / cost of the cheapest − 1.

    Groups of one row say nothing about choice and are left out; 0.0 when no other is left.
    """
    rows: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        rows.setdefault(group, []).append(index)
    regrets = [
        actual[members[int(np.argmin(predicted[members]))]] / actual[members].min() - 1.0
        for members in rows.values()
        if len(members) > 1
    ]
    return float(np.mean(regrets)) if regrets else 0.0


def coverage(actual: Floats, low: Floats, high: Floats) -> float:
    """Share of rows whose actual value lies in [low, high]."""
    return float(np.mean((actual >= low) & (actual <= high)))
