"""What each operator costs within the cheapest cover of a graph: dual prices of set partitioning, relaxed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from autotune.tuner.exact.programme import matrix
from autotune.tuner.exact.wiring import places

Floats = npt.NDArray[np.float64]


STEPS, PREFERENCE = 8, 1e-3
"""An even price is made of so many steps, equal parts of what the operator costs alone; the first step counts more
than the last one by this share."""


def dual_prices(operators: int, columns: Mapping[int, float]) -> tuple[Floats, Floats]:
    """Return two prices for each of ``operators`` that make no column cheaper than its operators together.

    Prices add up to the cost of the cheapest cover, columns taken in parts. So a partition with a column
    costs at least as much more as the column costs above its operators' prices. Many prices do so. The first are
    a corner of them all: of operators that are cheapest together, one may bear the whole cost. The second are
    even: operators bear similar shares of what they cost alone. Every operator is a column.
    """
    return _corner(operators, columns), _even(operators, columns)


def _corner(operators: int, columns: Mapping[int, float]) -> Floats:
    from scipy.optimize import linprog  # a second to import

    cost = np.array(list(columns.values()))
    scale = float(cost.mean()) or 1.0
    entries = ((at, j) for j, members in enumerate(columns) for at in places(members))
    once = matrix(entries, operators, len(columns))
    found = linprog(cost / scale, A_eq=once, b_eq=np.ones(operators), method="highs")
    assert found.status == 0, found.message
    prices: Floats = np.asarray(found.eqlin.marginals, dtype=np.float64) * scale
    return prices


def _even(operators: int, columns: Mapping[int, float]) -> Floats:
    from scipy.optimize import linprog

    alone = np.array([columns[1 << at] for at in range(operators)])
    cost = np.array(list(columns.values()))
    scale = float(cost.mean()) or 1.0
    entries = (
        (j, at * STEPS + step)
        for j, members in enumerate(columns)
        for at in places(members)
        for step in range(STEPS)
    )
    members = matrix(entries, len(columns), operators * STEPS)
    worth = np.tile(1.0 + PREFERENCE * np.linspace(1.0, 0.0, STEPS), operators)
    most = np.repeat(alone / scale / STEPS, STEPS)
    least = np.where(np.arange(len(most)) % STEPS, 0.0, -np.inf)
    bounds = np.stack([least, most], axis=1)
    found = linprog(-worth, A_ub=members, b_ub=cost / scale, bounds=bounds, method="highs")
    assert found.status == 0, found.message
    steps: Floats = np.asarray(found.x, dtype=np.float64).reshape(operators, STEPS)
    prices: Floats = steps.sum(axis=1) * scale
    return prices
