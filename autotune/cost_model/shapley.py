"""Exact Shapley values of boosted trees: how much each feature of a row adds to its prediction."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autotune.cost_model.forest import Forest

Floats = npt.NDArray[np.float64]


def contributions(forest: Forest, row: Floats) -> Floats:
    """Return what each feature of ``row`` [F] adds to the mean prediction [F].

    Values are those of Lundberg et al. 2020 (*From local explanations to global understanding with
    explainable AI for trees*, Nature Machine Intelligence 2, path-dependent), as XGBoost's
    ``pred_contribs``. A leaf is a product game: a feature that is known leaves the path open or
    closes it, one that is not known leaves it open in the share of training rows that took it.
    """
    features, is_open, share, value = _paths(forest, row)
    depth, total = len(features), np.zeros(forest.features)
    order = [
        math.factorial(k) * math.factorial(depth - k - 1) / math.factorial(depth)
        for k in range(depth)
    ]
    for own in range(depth):
        sums = np.zeros((depth, len(value)))  # over coalitions of the others, by their size
        sums[0] = 1.0
        for other in range(depth):
            if other != own:
                taken = sums[:-1] * is_open[other]
                sums *= share[other]
                sums[1:] += taken
        weighted = value * (is_open[own] - share[own]) * (np.array(order) @ sums)
        on_path = features[own] >= 0
        total += np.bincount(features[own][on_path], weighted[on_path], forest.features)
    return total


def _paths(forest: Forest, row: Floats) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
    """Return the paths of all leaves, [depth, L]: feature (−1 where a path is shorter), 1 where the
    row's value leaves the path open, else 0, share of training rows that took it; values [L].

    A feature that a path tests several times stands in one place.
    """
    inner = np.flatnonzero(forest.feature >= 0)
    parent = np.full(len(forest.feature), -1, dtype=np.int64)
    for child in (forest.left[inner], forest.left[inner] + 1):
        parent[child] = inner
    is_left = np.zeros(len(parent), dtype=bool)
    is_left[forest.left[inner]] = True
    known = row.astype(np.float32)[np.maximum(forest.feature, 0)]
    goes_left = np.where(np.isnan(known), forest.nan_left == 1, known < forest.value)
    leaves = np.flatnonzero(forest.feature < 0)
    features, is_open, share = [], [], []
    node = leaves
    while bool((parent[node] >= 0).any()):
        above, inside = parent[node], parent[node] >= 0
        features.append(np.where(inside, forest.feature[above], -1))
        is_open.append(np.where(inside, goes_left[above] == is_left[node], True))
        share.append(np.where(inside, forest.cover[node] / forest.cover[above], 1.0))
        node = np.where(inside, above, node)
    for later in range(len(features)):
        for first in range(later):
            same = (features[first] == features[later]) & (features[later] >= 0)
            is_open[first] &= is_open[later] | ~same
            share[first] *= np.where(same, share[later], 1.0)
            features[later] = np.where(same, -1, features[later])
            is_open[later] |= same
            share[later] = np.where(same, 1.0, share[later])
    shape = (len(features), len(leaves))
    return (
        np.array(features, dtype=np.int64).reshape(shape),
        np.array(is_open, dtype=np.float64).reshape(shape),
        np.array(share, dtype=np.float64).reshape(shape),
        forest.value[leaves].astype(np.float64),
    )
