"""Pareto fronts: what nothing beats in every figure, and how far one front is from another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Points = Sequence[Sequence[float]]
"""Costs of things, of which less is better."""


def non_dominated(points: Points, tolerance: float = 0.0) -> tuple[int, ...]:
    """Return the positions of points that no other beats.

    One beats another if it is no dearer in any figure and cheaper in one; with a ``tolerance`` only if it
    is cheaper by more than that share in every figure that differs.
    """
    costs = np.asarray(points, dtype=np.float64)
    kept = []
    for number, own in enumerate(costs):
        scaled = costs * (1.0 + tolerance)
        no_dearer = np.where(costs == own, costs <= own, scaled <= own).all(axis=1)
        cheaper = (costs < own).any(axis=1)
        if not bool((no_dearer & cheaper).any()):
            kept.append(number)
    return tuple(kept)


def distance(front: Points, reference: Points) -> float:
    """Return by which share the worst served point of ``reference`` is dearer in ``front``.

    This is the multiplicative epsilon indicator (Zitzler et al., IEEE TEC 7(2), 2003) minus one.
    """
    return max(distances(front, reference))


def distances(front: Points, reference: Points) -> list[float]:
    """Return by which share each point of ``reference`` is dearer in ``front``: there some point is at most
    so much dearer in any figure."""
    ours = np.asarray(front, dtype=np.float64)
    ratios = (float((ours / np.asarray(point)).max(axis=1).min()) for point in reference)
    return [max(0.0, ratio - 1.0) for ratio in ratios]


def hypervolume(points: Points, corner: Sequence[float]) -> float:
    """Return the volume between three-figure points and a ``corner`` that is dearer than all of them."""
    costs: npt.NDArray[np.float64] = np.asarray(points, dtype=np.float64)
    costs = costs[(costs < np.asarray(corner)).all(axis=1)]
    volume, levels = 0.0, [*np.unique(costs[:, 2]).tolist(), corner[2]]
    for low, high in pairwise(levels):
        layer = costs[costs[:, 2] <= low]
        volume += _plane(layer, corner) * (high - low)
    return volume


def _plane(points: npt.NDArray[np.float64], corner: Sequence[float]) -> float:
    """Return the area between points and the corner in the first two figures."""
    area, ceiling = 0.0, corner[1]
    for x, y in points[np.argsort(points[:, 0], kind="stable"), :2].tolist():
        if y < ceiling:
            area += (corner[0] - x) * (ceiling - y)
            ceiling = y
    return area
