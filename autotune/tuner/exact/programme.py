"""Set partitioning as an integer programme, which HiGHS solves with proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autotune.tuner.exact.wiring import places

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NODES = 20_000
"""Nodes of HiGHS's search tree before it gives up: no shipped network has needed more than one."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A circle that groups must not close, as (entry, exits) of each group on it.

    A group that holds an entry and one of its exits goes on with the circle. As many such groups as
    there are entries would close it, so a partition has fewer.
    """

    turns: tuple[tuple[int, int], ...]

    def goes_on(self, members: int) -> bool:
        """Return True if a group goes on with the circle."""
        return any(members >> entry & 1 and members & exits for entry, exits in self.turns)


@dataclass(frozen=True, slots=True)
class Answer:
    """The columns chosen, by their places, and a cost that no choice is below."""

    chosen: tuple[int, ...]
    bound: float


def solve(columns: Sequence[int], costs: Sequence[float], cuts: Sequence[Cut]) -> Answer | None:
    """Return the cheapest columns that hold every operator once and respect ``cuts``.

    Columns are sets of operators as bits. None where there is no such choice, or none was found
    within ``NODES``.
    """
    from scipy.optimize import LinearConstraint, milp  # a second to import

    covered = 0
    for members in columns:
        covered |= members
    rows = {at: row for row, at in enumerate(places(covered))}
    once = ((rows[at], j) for j, members in enumerate(columns) for at in places(members))
    limits = [LinearConstraint(matrix(once, len(rows), len(columns)), 1, 1)]
    if cuts:
        turns = ((i, j) for i, c in enumerate(cuts) for j, m in enumerate(columns) if c.goes_on(m))
        most = np.array([len(cut.turns) - 1 for cut in cuts])
        limits.append(LinearConstraint(matrix(turns, len(cuts), len(columns)), -np.inf, most))
    scale = sum(costs) / len(costs) or 1.0
    found = milp(
        np.array(costs) / scale,
        integrality=np.ones(len(columns)),
        bounds=(0, 1),
        constraints=limits,
        options={"mip_rel_gap": 0.0, "node_limit": NODES},
    )
    if found.x is None:
        return None
    chosen = tuple(np.flatnonzero(found.x > 0.5).tolist())
    cost = sum(costs[j] for j in chosen)
    return Answer(chosen, cost if found.status == 0 else min(cost, found.mip_dual_bound * scale))


def matrix(entries: Iterable[tuple[int, int]], rows: int, columns: int) -> csr_array:
    """Return the matrix [rows, columns] with ones at ``entries``, which are (row, column)."""
    from scipy.sparse import csr_array

    at = np.array(list(entries), dtype=np.int64).reshape(-1, 2)
    return csr_array((np.ones(len(at)), (at[:, 0], at[:, 1])), shape=(rows, columns))
