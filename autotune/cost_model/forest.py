"""Boosted trees as flat tables: what a trained model is made of, and all that predicting needs.

XGBoost trains them (``training``), ``kernels.trees`` walks them: the numbers equal XGBoost's bit for bit.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.estimate import Rows
from autotune.cost_model.packing import PackedTables, pack_trees
from autotune.errors import StoreError
from autotune.kernels.trees.packed_forest import PackedForest

if TYPE_CHECKING:
    import xgboost as xgb

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

PROBES = 16
"""Rows with known predictions that a stored forest carries."""
_HEADER = struct.Struct("<iiif")
_COLUMNS = (
    ("feature", "<i4"),
    ("value", "<f4"),
    ("left", "<i4"),
    ("nan_left", "u1"),
    ("cover", "<f4"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Regression trees over ``features`` numbers whose leaves add up from ``base``.

    Per node [N], tree after tree from ``roots`` [T], parents before children: ``feature`` (−1 at a
    leaf), ``value`` (threshold, or what a leaf adds), ``left`` child (the right one follows it; 0 at
    a leaf), ``nan_left``, ``cover`` (weight of training rows). A row goes left if its feature is less than the
    threshold. ``probes`` [P, F] have known predictions ``answers`` [P]. Immutable; threads may share it.
    ``packed`` predicts, from Cython too (``packed_forest.pxd``).
    """

    features: int
    base: float
    roots: npt.NDArray[np.int32]
    feature: npt.NDArray[np.int32]
    value: Singles
    left: npt.NDArray[np.int32]
    nan_left: npt.NDArray[np.uint8]
    cover: Singles
    probes: Singles
    answers: Singles
    packed: PackedForest = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raise ``StoreError`` for tables that are no trees, or whose probes are answered by other bits."""
        _check_tables(self)
        object.__setattr__(self, "packed", self.tables.packed(self.features, self.base))
        together = self.predict(self.probes)
        apart = [self.predict(row[None])[0] for row in self.probes]
        if not (_equals(together, self.answers) and _equals(np.array(apart), self.answers)):
            raise StoreError(
                "cost model: its trees predict other numbers on this processor than XGBoost does; "
                "please report the processor's model"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Forest.from_bytes, (self.to_bytes(),)

    @property
    def tables(self) -> PackedTables:
        """The same trees as the kernels walk them."""
        return pack_trees(self.roots, self.feature, self.value, self.left, self.nan_left)

    @classmethod
    def of(cls, booster: xgb.Booster, after: Forest | None = None) -> Forest:
        """Return the trees of a trained XGBoost regressor of one output; behind the trees of ``after`` where
        boosting started from their predictions.

        Raises ``StoreError`` for one of another kind, or with trees deeper than 8 levels.
        """
        return _from_document(json.loads(booster.save_raw("json")), booster, after)

    def predict(self, x: Rows) -> Floats:
        """Return predictions [n] of rows ``x`` [n, F], which are rounded to float32; NaN is a missing
        number. Equal to ``Booster.inplace_predict`` bit for bit."""
        return self.packed.predict(x)

    def with_step(self, feature: int, threshold: float, step: float) -> Forest:
        """Return the same trees and one that adds ``step`` where a feature is ``threshold`` or more, or missing."""
        begin = len(self.feature)
        rows = float(
            self.cover[self.roots].max(initial=0.0)
        )  # of the whole training set, in either leaf
        added = {
            "feature": (feature, -1, -1),
            "value": (threshold, 0.0, step),
            "left": (begin + 1, 0, 0),
            "nan_left": (0, 0, 0),
            "cover": (rows, rows, rows),
        }
        tables = {
            name: np.append(getattr(self, name), added[name]).astype(kind)
            for name, kind in _COLUMNS
        }
        roots = np.append(self.roots, begin).astype(np.int32)
        grown = pack_trees(roots, *(tables[x] for x in ("feature", "value", "left", "nan_left")))
        answers = grown.packed(self.features, self.base).predict(self.probes).astype(np.float32)
        return Forest(
            self.features, self.base, roots, **tables, probes=self.probes, answers=answers
        )

    def to_bytes(self) -> bytes:
        """Return the tables as little-endian bytes."""
        counts = (self.features, len(self.roots), len(self.feature), self.base)
        columns = [getattr(self, name).astype(kind).tobytes() for name, kind in _COLUMNS]
        known = (self.probes.astype("<f4").tobytes(), self.answers.astype("<f4").tobytes())
        return b"".join(
            (_HEADER.pack(*counts), self.roots.astype("<i4").tobytes(), *columns, *known)
        )

    @classmethod
    def from_bytes(cls, blob: bytes) -> Forest:
        """Read what ``to_bytes`` wrote. Raises ``StoreError`` for anything else."""
        if len(blob) < _HEADER.size:
            raise StoreError("cost model: damaged trees")
        features, trees, nodes, base = _HEADER.unpack_from(blob)
        kinds = [("<i4", trees), *((kind, nodes) for _, kind in _COLUMNS)]
        kinds += [("<f4", PROBES * features), ("<f4", PROBES)]
        sizes = [np.dtype(kind).itemsize * count for kind, count in kinds]
        if min(features, trees, nodes) < 0 or len(blob) != _HEADER.size + sum(sizes):
            raise StoreError("cost model: damaged trees")
        starts = np.cumsum([_HEADER.size, *sizes])
        roots, *columns, probes, answers = (
            np.frombuffer(blob, kind, count, int(start))
            for (kind, count), start in zip(kinds, starts, strict=False)
        )
        named = dict(zip((name for name, _ in _COLUMNS), columns, strict=True))
        known = {"probes": probes.reshape(PROBES, features), "answers": answers}
        return cls(features, base, roots, **named, **known)


def _equals(ours: Floats, theirs: Singles) -> bool:
    """Return True if float32 numbers have the same bits."""
    return ours.astype(np.float32).tobytes() == theirs.tobytes()


def _check_tables(forest: Forest) -> None:
    """Refuse children outside of their tree, features outside of a row, and numbers that order nothing."""
    nodes = np.arange(len(forest.feature))
    inner = forest.feature >= 0
    ends = np.append(forest.roots[1:], len(nodes))
    end = (
        np.repeat(ends, np.diff(np.append(forest.roots, len(nodes))))
        if len(forest.roots)
        else ends[:0]
    )
    legal = (
        len(end) == len(nodes)
        and (not len(nodes) or forest.roots[0] == 0)
        and bool(np.all(np.diff(ends, prepend=0) > 0))
        and bool(np.all(forest.feature < forest.features))
        and bool(np.all((forest.left > nodes) & (forest.left + 1 < end) | ~inner))
        and bool(np.isfinite(forest.value).all())
        and bool(np.isfinite(forest.base))
        and bool(np.all(forest.nan_left <= 1))
    )
    if not legal:
        raise StoreError("cost model: damaged trees")


def _from_document(document: dict[str, Any], booster: xgb.Booster, after: Forest | None) -> Forest:
    """Read the document that XGBoost saves (its ``doc/model.schema``)."""
    learner = document["learner"]
    boosting = learner["gradient_booster"]
    parameters = learner["learner_model_param"]
    objective = learner["objective"]["name"]
    if boosting["name"] != "gbtree" or not objective.startswith("reg:") or objective in _LINKED:
        raise StoreError(
            f"trees of {boosting['name']} for {objective}: a forest adds up plain leaves"
        )
    if int(parameters["num_class"]) > 1 or int(parameters["num_target"]) > 1:
        raise StoreError("trees of several outputs: a forest has one")
    trees = [_ordered(tree) for tree in boosting["model"]["trees"]]
    sizes = [len(tree["feature"]) for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    columns = {name: np.concatenate([tree[name] for tree in trees]) for name, _ in _COLUMNS}
    columns["left"] += np.where(columns["feature"] >= 0, np.repeat(roots, sizes), 0).astype(
        np.int32
    )
    base = float(np.float32(parameters["base_score"].strip("[]")))
    features = int(parameters["num_feature"])
    if after is not None:
        base, roots, columns = _joined(after, roots, columns)
    probes = _draw_probes(columns["feature"], columns["value"], features)
    start = None if after is None else after.predict(probes).astype(np.float32)
    known = {"probes": probes, "answers": booster.inplace_predict(probes, base_margin=start)}
    return Forest(features, base, roots, **columns, **known)


def _joined(
    first: Forest, roots: npt.NDArray[np.int32], columns: dict[str, npt.NDArray[Any]]
) -> tuple[float, npt.NDArray[np.int32], dict[str, npt.NDArray[Any]]]:
    """Return base, roots and columns of the trees of a forest, then of others."""
    nodes = np.int32(len(first.feature))
    moved = columns | {"left": columns["left"] + np.where(columns["feature"] >= 0, nodes, 0)}
    together = {
        name: np.concatenate([getattr(first, name), moved[name]]).astype(kind)
        for name, kind in _COLUMNS
    }
    return first.base, np.concatenate([first.roots, roots + nodes]).astype(np.int32), together


_LINKED = ("reg:logistic", "reg:gamma", "reg:tweedie", "reg:squaredlogerror")
"""Objectives of XGBoost that do something to the sum of leaves, or are no ratios."""


def _ordered(tree: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of one tree, level by level from its root."""
    if any(tree["split_type"]):
        raise StoreError("trees with categorical splits: a forest compares numbers")
    lefts, rights = tree["left_children"], tree["right_children"]
    order = [0]
    for node in order:  # grows while it is read
        if lefts[node] != -1:
            order += (lefts[node], rights[node])
    at = np.array(order)
    inner = np.array(lefts)[at] != -1
    children = 2 * np.cumsum(inner) - 1
    return {
        "feature": np.where(inner, np.array(tree["split_indices"])[at], -1).astype(np.int32),
        "value": np.array(tree["split_conditions"], dtype=np.float32)[at],
        "left": np.where(inner, children, 0).astype(np.int32),
        "nan_left": np.where(inner, np.array(tree["default_left"])[at], 0).astype(np.uint8),
        "cover": np.array(tree["sum_hessian"], dtype=np.float32)[at],
    }


def _draw_probes(feature: npt.NDArray[np.int32], value: Singles, features: int) -> Singles:
    """Draw rows [P, F] of thresholds, of their neighbours and of NaN: where comparisons might differ."""
    rng = np.random.default_rng(0)
    probes = rng.normal(size=(PROBES, features)).astype(np.float32)
    for index in np.unique(feature[feature >= 0]):
        drawn = rng.choice(value[feature == index], PROBES)
        towards = rng.choice(np.array([-np.inf, 0, np.inf], dtype=np.float32), PROBES)
        probes[:, index] = np.where(towards == 0, drawn, np.nextafter(drawn, towards))
    probes[rng.random(probes.shape) < 0.05] = np.nan
    return probes
