"""Trees packed for prediction: thresholds as ranks of eight bits, every tree a complete one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import StoreError
from autotune.kernels.trees.packed_forest import (
    MAX_COLUMNS,
    MAX_DEPTH,
    MAX_LEVELS,
    PackedForest,
)

Ints = npt.NDArray[np.int32]
Array = npt.NDArray[Any]

_MOST = 2**MAX_LEVELS - 1
"""Thresholds of one column; a feature with more of them has several columns."""


@dataclass(frozen=True, slots=True)
class PackedTables:
    """Trees as ``kernels/trees/forest.h`` walks them; its fields say what each table means."""

    feature: Array
    nan_left: Array
    levels: Array
    first: Array
    threshold: Array
    depth: Array
    node: Array
    leaf: Array
    column: Array
    rank: Array
    value: Array

    def packed(self, features: int, base: float) -> PackedForest:
        """Return what predicts by these tables."""
        columns = (self.feature, self.nan_left, self.levels, self.first)
        trees, nodes = (self.depth, self.node, self.leaf), (self.column, self.rank)
        return PackedForest(features, base, columns, self.threshold, trees, nodes, self.value)


def pack_trees(
    roots: Ints,
    feature: Ints,
    value: npt.NDArray[np.float32],
    left: Ints,
    nan_left: npt.NDArray[np.uint8],
) -> PackedTables:
    """Pack the tables of a ``Forest``, whose names they have. Raises ``StoreError`` for too many
    columns and for deeper trees."""
    columns, thresholds, column, rank = _rank_nodes(feature, value, nan_left)
    if len(columns[0]) > MAX_COLUMNS:
        raise StoreError(f"trees over {len(columns[0])} columns: a forest holds {MAX_COLUMNS}")
    nodes, leaves = _complete(roots, feature, left)
    inner, ends = _join(nodes), _join(leaves)
    depth = np.array([len(path).bit_length() - 1 for path in leaves], dtype=np.uint8)
    trees = (depth, _starts(nodes), _starts(leaves))
    return PackedTables(*columns, thresholds, *trees, column[inner], rank[inner], value[ends])


def _rank_nodes(
    feature: Ints, value: npt.NDArray[np.float32], nan_left: npt.NDArray[np.uint8]
) -> tuple[tuple[Array, Array, Array, Array], Array, Array, Array]:
    """Return the columns [4, C], their thresholds, and column and rank of every node [N], 0 at leaves."""
    inner = np.flatnonzero(feature >= 0)
    order = inner[np.lexsort((value[inner], nan_left[inner], feature[inner]))]
    f, side, v = feature[order], nan_left[order], value[order]
    opens = _changes(f) | _changes(side)
    differs = opens | _changes(v)
    number = np.cumsum(differs) - 1
    place = number - np.maximum.accumulate(np.where(opens, number, 0))  # among those of a feature
    opens |= differs & (place % _MOST == 0)
    column, place = np.cumsum(opens) - 1, place % _MOST
    counts = np.bincount(column[differs], minlength=int(opens.sum()))
    levels = np.ceil(np.log2(counts + 1)).astype(np.int64)
    first = np.cumsum(np.append(0, 2**levels - 1))
    thresholds = np.full(first[-1], np.inf, dtype=np.float32)
    thresholds[first[column] + place] = v
    columns = np.zeros(len(feature), dtype=np.uint16)
    ranks = np.zeros(len(feature), dtype=np.uint8)
    columns[order], ranks[order] = np.minimum(column, 2**16 - 1), place + 1
    return (f[opens], side[opens], levels, first[:-1]), thresholds, columns, ranks


def _changes(ordered: Array) -> npt.NDArray[np.bool_]:
    """Return True where a number differs from the one before it, the first one included."""
    changes = np.ones(len(ordered), dtype=bool)
    changes[1:] = ordered[1:] != ordered[:-1]
    return changes


def _complete(roots: Ints, feature: Ints, left: Ints) -> tuple[list[Array], list[Array]]:
    """Return every tree's nodes in heap order and its leaves, a leaf above the last level repeated."""
    level = roots[:, None].astype(np.int64)
    depth = np.zeros(len(roots), dtype=np.int64)
    levels = [level]
    while (inner := feature[level] >= 0).any():
        if len(levels) > MAX_DEPTH:
            raise StoreError(f"trees of more than {MAX_DEPTH} levels: a forest holds {MAX_DEPTH}")
        depth[inner.any(axis=1)] = len(levels)
        children = np.where(inner, left[level], level)
        level = np.stack([children, children + inner], axis=2).reshape(len(roots), -1)
        levels.append(level)
    heap = np.concatenate(levels, axis=1)
    nodes = [row[: 2**d - 1] for row, d in zip(heap, depth.tolist(), strict=True)]
    return nodes, [levels[d][tree] for tree, d in enumerate(depth.tolist())]


def _join(parts: list[Array]) -> Array:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _starts(parts: list[Array]) -> Array:
    """Return where each part starts once they are joined."""
    return np.cumsum([0, *map(len, parts)])[:-1]
