"""What feature families and measurements buy: ablation, and learning curves of random and active choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.raw.features import RAW_NAMES
from benchmarks.model_baselines import Trained, train_guided, train_priced, train_raw
from benchmarks.model_rows import Rows
from benchmarks.model_scores import score
from benchmarks.model_study import Study

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RAW_FAMILIES = {
    "extents and tiles": r"dim\d|reduced",
    "products": r"product\d",
    "transfers": r"load\d|store_",
    "choices": r"(buffers|cores|balance|im2col|loops|tiles)$",
    "totals": r"multiply_adds|vector_operations|loaded_bytes|stored_bytes|fills|operations_per|held|trivial",
    "operators": r"count_|views|links|loads|stores",
    "machine": r"spec_",
}
"""Family of raw features to the beginning of their names."""
GUIDED_FAMILIES = {
    "bounds and overlap": r"log_(estimate|bottleneck|latency)|\w+_share$|\w+_inner$|share_",
    "loops and choices": r"log_trips|log_innermost|depth|innermost_rest|log_pieces|buffers|cores"
    r"|core_balance|im2col|fold_use",
    "counts and traffic": r"\w+_instructions|queue_pressure|\w+_bytes|intensity|fill_scratchpad|log_|work_",
    "operators": r"stages_|loads|stores",
    "machine": r"spec_",
}
"""The same of the analytic models' features; of several families that fit a name the first has it."""
OTHER = "others"
SIZES = (125, 250, 500, 1000, 2000, 4000)
"""Measurements that learning curves are trained on."""
COMMITTEE = 4
"""Models whose disagreement active choice goes by (Seung et al. 1992, *Query by committee*, COLT)."""
CURVE_FOLDS = 3
"""Folds whose networks learning curves are tested on."""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """Held-out figures without the ``columns`` features of one family; ``family`` is empty with all."""

    features: str
    family: str
    columns: int
    mape: float
    top1_regret: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Held-out figures after ``measurements``, chosen at random or actively."""

    features: str
    choice: str
    measurements: int
    mape: float
    top1_regret: float


def families(names: Sequence[str], patterns: dict[str, str]) -> dict[str, list[int]]:
    """Return the columns of each family that has any; those of no family are ``OTHER``."""
    found: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        fits = (family for family, pattern in patterns.items() if re.match(pattern, name))
        found.setdefault(next(fits, OTHER), []).append(column)
    return found


def ablate(study: Study) -> list[AblationRow]:
    """Train without one family of features after the other, and judge held-out networks."""
    guided = analytic_model(study.spec).feature_names
    rows = []
    for features, names, patterns, train in (
        ("raw", RAW_NAMES, RAW_FAMILIES, train_raw),
        ("priced raw", RAW_NAMES, RAW_FAMILIES, train_priced),
        ("guided", guided, GUIDED_FAMILIES, train_guided),
    ):
        every = range(len(names))
        left_out: dict[str, list[int]] = {"": [], **families(names, patterns)}
        for family, columns in left_out.items():
            kept = [column for column in every if column not in columns]
            if not kept or _is_constant(study, features, columns):
                continue
            found = score(study.judged(study.predict(partial(train, columns=kept))))
            rows.append(AblationRow(features, family, len(columns), found.mape, found.top1_regret))
    return rows


def _is_constant(study: Study, features: str, columns: Sequence[int]) -> bool:
    """Return True for features that are equal in all rows: those of the spec, with one machine."""
    x = study.training.guided if features == "guided" else study.training.raw
    return bool(columns) and not np.ptp(x[:, columns], axis=0).any()


def learning_curves(study: Study, seed: int = 0) -> list[CurvePoint]:
    """Train on ever more measurements, chosen at random or where a committee disagrees most."""
    folds = list(range(min(CURVE_FOLDS, study.folds)))
    points = []
    for features, train in (
        ("raw", train_raw),
        ("priced raw", train_priced),
        ("guided", train_guided),
    ):
        for choice, extend in (("random", _randomly), ("active", _actively)):
            found: dict[int, Floats] = {}
            for fold in folds:
                pool = study.training.take(study.known(fold))
                tested = study.tested(fold)
                rows = study.rows.take(tested)
                for size, chosen in _growing(pool, train, extend, seed):
                    cycles = found.setdefault(size, np.full(len(study.rows), np.nan))
                    cycles[tested] = train(pool.first(chosen))(rows)
            for size, cycles in found.items():
                scores = score(study.judged(cycles))
                points.append(CurvePoint(features, choice, size, scores.mape, scores.top1_regret))
    return points


Train = Callable[..., Trained]
Extend = Callable[[Rows, Ints, int, Train, np.random.Generator], Ints]


def _growing(pool: Rows, train: Train, extend: Extend, seed: int) -> list[tuple[int, Ints]]:
    """Return sizes with the programs chosen so far; the last has the whole pool if it is short of it."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(pool))[: SIZES[0]]
    steps = [(SIZES[0], chosen)]
    for size in SIZES[1:]:
        if len(chosen) < len(pool):
            chosen = extend(pool, chosen, min(size, len(pool)), train, rng)
            steps.append((size, chosen))
    return steps


def _randomly(pool: Rows, chosen: Ints, size: int, train: Train, rng: np.random.Generator) -> Ints:
    others = np.setdiff1d(np.arange(len(pool)), chosen)
    return np.concatenate([chosen, rng.permutation(others)[: size - len(chosen)]])


def _actively(pool: Rows, chosen: Ints, size: int, train: Train, rng: np.random.Generator) -> Ints:
    """Add the programs whose predictions by models of half of the data differ most, in logarithms."""
    logs = []
    for seed in range(COMMITTEE):
        half = rng.permutation(chosen)[: len(chosen) // 2]
        logs.append(np.log(train(pool.first(half), seed=seed)(pool)))
    doubt = np.std(logs, axis=0)
    doubt[chosen] = -1.0
    return np.concatenate([chosen, np.argsort(-doubt, kind="stable")[: size - len(chosen)]])
