"""How good predictions are: the figures a cost model reports about networks it has not seen.

Ranks and regrets are taken within groups, since a search chooses among the schedules of one group:
over all programs, from hundreds to millions of cycles, errors of 10 % still rank at 0.998.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST_RANKED = 4
"""Rows of a group whose order says something."""
APART = 0.05
"""Difference from which the order of two rows counts: nearer ones may change it when they are measured again."""


def relative_errors(actual: Floats, predicted: Floats) -> Floats:
    """Return |predicted − actual| / actual [n]. Costs are whole numbers: one that is 0, as energy is where
    it cannot be measured, counts as 1."""
    return np.asarray(np.abs(predicted - actual) / np.maximum(actual, 1.0), dtype=np.float64)


def mape(actual: Floats, predicted: Floats) -> float:
    """Return the mean relative error; a share, 0.08 is 8 %."""
    return float(np.mean(relative_errors(actual, predicted)))


def median_error(actual: Floats, predicted: Floats) -> float:
    """Return the median relative error, a share."""
    return float(np.median(relative_errors(actual, predicted)))


def within(actual: Floats, predicted: Floats, limit: float) -> float:
    """Return the share of rows whose relative error is at most ``limit``."""
    return float(np.mean(relative_errors(actual, predicted) <= limit))


def coverage(actual: Floats, low: Floats, high: Floats) -> float:
    """Return the share of rows whose actual value lies in [low, high]."""
    return float(np.mean((actual >= low) & (actual <= high)))


def spearman(actual: Floats, predicted: Floats) -> float:
    """Return Spearman's rank correlation; 1.0 where ``actual`` is constant or has one value, 0.0 where
    only ``predicted`` is constant."""
    if len(actual) < 2 or np.ptp(actual) == 0:
        return 1.0
    if np.ptp(predicted) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(actual), _ranks(predicted))[0, 1])


def kendall(actual: Floats, predicted: Floats) -> float:
    """Return Kendall's tau-b (Kendall 1945, Biometrika 33); 1.0 and 0.0 as in ``spearman``.

    Takes time and memory in proportion to n²: a group has some hundreds of rows.
    """
    if len(actual) < 2 or np.ptp(actual) == 0:
        return 1.0
    if np.ptp(predicted) == 0:
        return 0.0
    first = np.sign(actual[:, None] - actual).astype(np.float64)
    second = np.sign(predicted[:, None] - predicted).astype(np.float64)
    return float((first * second).sum() / np.sqrt(np.abs(first).sum() * np.abs(second).sum()))


def ordered(actual: Floats, predicted: Floats, apart: float = APART) -> tuple[int, int]:
    """Return how many pairs of rows are predicted in the right order, and how many there are, of those whose actual
    values differ by the share ``apart`` or more. Equal predictions are wrong."""
    farther = np.log(actual[:, None]) - np.log(actual) >= np.log1p(apart)
    return int((farther & (predicted[:, None] > predicted)).sum()), int(farther.sum())


def regret(actual: Floats, predicted: Floats, tried: int = 1) -> float:
    """Return cost of the best of the ``tried`` rows predicted cheapest / cost of the cheapest − 1."""
    first = np.argsort(predicted, kind="stable")[:tried]
    return float(actual[first].min() / actual.min() - 1.0)


def within_groups(
    figure: Callable[[Floats, Floats], float],
    actual: Floats,
    predicted: Floats,
    groups: Sequence[Hashable],
    fewest: int = 2,
) -> Floats:
    """Return a figure of every group with at least ``fewest`` rows [g], in the order they first occur."""
    figures = [
        figure(actual[rows], predicted[rows])
        for rows in rows_of_groups(groups)
        if len(rows) >= fewest
    ]
    return np.array(figures, dtype=np.float64)


def group_metrics(
    actual: Floats, predicted: Floats, groups: Sequence[Hashable]
) -> dict[str, float]:
    """Return ranks and regrets within groups, the mean over groups of each.

    Ranks are of groups with at least ``FEWEST_RANKED`` rows, regrets of those with two. Without any such
    group ranks are 1 and regrets 0. ``ordered`` is the share of all groups' pairs that are ``APART`` and in the right
    order, 1 without any.
    """

    def mean(figure: Callable[[Floats, Floats], float], fewest: int, empty: float) -> float:
        figures = within_groups(figure, actual, predicted, groups, fewest)
        return float(figures.mean()) if len(figures) else empty

    pairs = [ordered(actual[rows], predicted[rows]) for rows in rows_of_groups(groups)]
    right, count = (sum(numbers) for numbers in zip(*pairs, strict=True)) if pairs else (0, 0)
    return {
        "ordered": right / count if count else 1.0,
        "spearman": mean(spearman, FEWEST_RANKED, 1.0),
        "kendall": mean(kendall, FEWEST_RANKED, 1.0),
        "top1_regret": mean(regret, 2, 0.0),
        "top5_regret": mean(lambda a, p: regret(a, p, 5), 2, 0.0),
    }


def rows_of_groups(groups: Sequence[Hashable]) -> Iterator[Ints]:
    """Give the rows of each group, in the order of first rows."""
    rows: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        rows.setdefault(group, []).append(index)
    for members in rows.values():
        yield np.array(members, dtype=np.int64)


def _ranks(values: Floats) -> Floats:
    """Return ranks [n] from 0, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts + 1) / 2.0)[inverse], dtype=np.float64)
