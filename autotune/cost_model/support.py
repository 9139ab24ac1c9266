"""How much of the training set stands behind a prediction: the weight of the leaves that a row falls into.

Distances of features to the training set say little of a model's errors, since most features do not matter to
it. Leaves know which ones do, and their weight is the sum of the loss's second derivatives: a training row that
the trees never learned counts little. Trees as a measure of similarity: Breiman 2001 (*Random forests*, Machine
Learning 45) and Brophy and Lowd 2022 (*Instance-based uncertainty estimation for gradient-boosted regression
trees*, NeurIPS).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from autotune.cost_model.estimate import Rows
from autotune.cost_model.forest import Forest
from autotune.cost_model.packing import pack_trees
from autotune.kernels.trees.packed_forest import PackedForest

Floats = npt.NDArray[np.float64]

PERCENTILES = 101
"""Numbers that the supports of a training set are kept as."""
_LEAST = 1e-6


class Support:
    """Log of the weight of training rows in a row's leaves, the mean over trees."""

    def __init__(self, forests: Sequence[Forest]) -> None:
        """``forests`` add up to one prediction; there is at least one with a tree."""
        self._trees = sum(len(forest.roots) for forest in forests)
        self._packed = [_leaf_weights(forest) for forest in forests]

    def of(self, x: Rows) -> Floats:
        """Return the support [n] of rows [n, F]."""
        total: Floats = np.sum([packed.predict(x) for packed in self._packed], axis=0)
        return total / self._trees


def _leaf_weights(forest: Forest) -> PackedForest:
    """Return the same trees with the logs of their leaves' weights as leaves."""
    weights = np.log(np.maximum(forest.cover, _LEAST))
    value = np.where(forest.feature < 0, weights, forest.value).astype(np.float32)
    tables = pack_trees(forest.roots, forest.feature, value, forest.left, forest.nan_left)
    return tables.packed(forest.features, 0.0)


def percentiles(support: Floats) -> Floats:
    """Return the supports of a training set as ``PERCENTILES`` numbers, ascending."""
    found: Floats = np.quantile(support, _shares(PERCENTILES))
    return np.round(found, 6)


def moved_percentiles(known: Floats, before: Floats, after: Floats) -> Floats:
    """Return percentiles of held-out supports of grown trees: ``known`` ones, moved as those of the training rows
    were, from ``before`` [n] to ``after`` [n]."""
    moved: Floats = np.maximum.accumulate(known + percentiles(after) - percentiles(before))
    return moved


def novelty(support: Floats, known: Floats) -> Floats:
    """Return the share [n] of training rows, held out, with more support than ``support`` [n]; ``known`` are
    their ``percentiles``."""
    at = np.interp(support, known, _shares(len(known)))
    return np.asarray(1.0 - at, dtype=np.float64)


@cache
def _shares(count: int) -> Floats:
    """Return so many shares from 0 to 1 at equal distances; making them takes longer than asking for one novelty."""
    return np.linspace(0.0, 1.0, count)
