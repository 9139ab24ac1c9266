"""What each operator costs within the cheapest cover of a graph: dual prices of set partitioning, relaxed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from autotune.tuner.exact.programme import matrix
from autotune.tuner.exact.wiring import places

Floats = npt.NDArray[np.float64]


def dual_prices(operators: int, columns: Mapping[int, float]) -> Floats:
    """Return a price for each of ``operators`` that makes no column cheaper than its operators together.

    The prices add up to the cost of the cheapest cover, columns taken in parts. So a partition with a column
    costs at least as much more as the column costs above its operators' prices. Every operator is in some column.
    """
    from scipy.optimize import linprog  # a second to import

    cost = np.array(list(columns.values()))
    scale = float(cost.mean()) or 1.0
    entries = ((at, j) for j, members in enumerate(columns) for at in places(members))
    once = matrix(entries, operators, len(columns))
    found = linprog(cost / scale, A_eq=once, b_eq=np.ones(operators), method="highs")
    assert found.status == 0, found.message
    prices: Floats = np.asarray(found.eqlin.marginals, dtype=np.float64) * scale
    return prices
