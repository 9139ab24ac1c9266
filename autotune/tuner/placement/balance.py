"""Balance: the placement whose busiest device or link has least to do, as an integer programme.

The time between requests of a long stream is what one request takes of the busiest device or link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.tuner.placement.costed_graph import CostedGraph, Placement

NODES = 100
"""Nodes of the search tree at most: a count, so that a search repeats."""
GAP = 0.005
"""Share by which the balance may be above its bound when the search ends."""
TIME_LIMIT_SECONDS = 20.0
"""Time of this machine after which the search ends all the same."""


@dataclass(frozen=True, slots=True)
class Balance:
    """A placement (None if none was found in time), and the seconds that no placement's busiest part undercuts."""

    placement: Placement | None
    bound_seconds: float


def balanced(graph: CostedGraph) -> Balance:
    """Return the placement with the least busy busiest device or direction of a link.

    ``x[t, d]`` places task ``t`` on ``d``; ``z[k, a, b]`` carries tensor ``k`` from ``a`` to ``b``: every reader on ``b``
    gets it from somewhere, and only the place of its producer has it. The relaxation of this form is tight on chains.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    programme = _Programme(graph)
    lower, upper = programme.limits()
    found = milp(
        programme.goal(),
        integrality=programme.integrality(),
        bounds=Bounds(0, np.append(np.ones(programme.busy), np.inf)),
        constraints=LinearConstraint(programme.matrix(), lower, upper),
        options={"node_limit": NODES, "mip_rel_gap": GAP, "time_limit": TIME_LIMIT_SECONDS},
    )
    bound = getattr(found, "mip_dual_bound", None)
    seconds = 0.0 if bound is None or not np.isfinite(bound) else float(bound) * programme.scale
    return Balance(None if found.x is None else programme.placement(found.x), max(0.0, seconds))


@dataclass
class _Programme:
    """Rows ``low ≤ Σ coefficient · variable ≤ high`` over the variables of a graph; the last variable is the busiest."""

    graph: CostedGraph
    _rows: list[int] = field(default_factory=list)
    _columns: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)
    _limits: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        places = [(n, d) for n, task in enumerate(self.graph.tasks) for d in task.places]
        self.place = {key: number for number, key in enumerate(places)}
        count = len(self.graph.devices)
        carried = [
            (n, k, a, b)
            for n, made in enumerate(self.graph.readers)
            for k in range(len(made))
            for a in self.graph.tasks[n].places
            for b in range(count)
        ]
        self.carry = {key: len(places) + number for number, key in enumerate(carried)}
        self.busy = len(places) + len(carried)
        costs = (self.graph.tasks[n].cost(d) for n, d in places)
        ways = (
            self.graph.transfer_seconds(a, b, self.graph.readers[n][k][1]) for n, k, a, b in carried
        )
        self.scale = max((*costs, *ways), default=0.0) or 1.0
        self._write_rows()

    def _write_rows(self) -> None:
        work: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for number, task in enumerate(self.graph.tasks):
            self._row([(self.place[number, d], 1.0) for d in task.places], 1.0, 1.0)
            for d in task.places:
                work.setdefault((d, d), []).append((self.place[number, d], task.cost(d)))
        for (number, k, a, b), column in self.carry.items():
            self._row([(column, 1.0), (self.place[number, a], -1.0)], -np.inf, 0.0)
            size = self.graph.readers[number][k][1]
            if a != b:
                cost = self.graph.transfer_seconds(a, b, size)
                work.setdefault((a, b), []).append((column, cost))
        self._write_arrivals()
        for terms in work.values():
            scaled = [(column, cost / self.scale) for column, cost in terms]
            self._row([*scaled, (self.busy, -1.0)], -np.inf, 0.0)

    def _write_arrivals(self) -> None:
        """A reader on a device has each of its tensors there."""
        for number, made in enumerate(self.graph.readers):
            sources = self.graph.tasks[number].places
            for k, (_, _, users) in enumerate(made):
                for user in users:
                    for b in self.graph.tasks[user].places:
                        ways = [(self.carry[number, k, a, b], 1.0) for a in sources]
                        self._row([*ways, (self.place[user, b], -1.0)], 0.0, np.inf)

    def _row(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        row = len(self._limits)
        for column, value in terms:
            self._rows.append(row)
            self._columns.append(column)
            self._values.append(value)
        self._limits.append((low, high))

    def matrix(self) -> object:
        """Return the coefficients as a sparse matrix."""
        from scipy.sparse import csr_matrix

        shape = (len(self._limits), self.busy + 1)
        return csr_matrix((self._values, (self._rows, self._columns)), shape=shape)

    def limits(self) -> tuple[list[float], list[float]]:
        """Return the least and the largest value of each row."""
        return [low for low, _ in self._limits], [high for _, high in self._limits]

    def goal(self) -> np.ndarray:
        """Return the coefficients of what is minimised: the busiest alone."""
        goal = np.zeros(self.busy + 1)
        goal[-1] = 1.0
        return goal

    def integrality(self) -> np.ndarray:
        """Return 1 for variables that are 0 or 1: with places whole, tensors need no cutting."""
        whole = np.zeros(self.busy + 1)
        whole[: len(self.place)] = 1
        return whole

    def placement(self, values: np.ndarray) -> Placement:
        """Return the placement that the variables say."""
        return tuple(
            max(task.places, key=lambda d: values[self.place[number, d]])
            for number, task in enumerate(self.graph.tasks)
        )
