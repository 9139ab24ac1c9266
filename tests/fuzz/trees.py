"""``python -m tests.fuzz.trees``: checks that flat trees predict XGBoost's bits on hostile rows.

Boosters of every kind of ``tests.cost_model.boosted``, each drawn anew, take the rows in turns; rows are
numbers, thresholds, their neighbours, NaN, infinities, denormals. The first row that differs is printed.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from autotune.cost_model.forest import Forest
from tests.cost_model.boosted import KINDS, hostile_rows, train_booster

PORTION = 50_000
"""Rows of one drawn booster."""


def differing_rows(kind: str, seed: int, rows: int) -> str | None:
    """Train one booster and compare ``rows`` predictions; the first difference in words, or None."""
    booster = train_booster(KINDS[kind], seed)
    forest = Forest.of(booster)
    x = hostile_rows(forest, rows, np.random.default_rng(seed))
    ours, theirs = forest.predict(x).astype(np.float32), booster.inplace_predict(x)
    differing = np.flatnonzero(ours.view(np.int32) != theirs.view(np.int32))
    if not len(differing):
        return None
    at = differing[0]
    return (
        f"{kind}, seed {seed}, row {at}: {ours[at]!r} instead of {theirs[at]!r} at {x[at].tolist()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done, kinds = 0, list(KINDS)
    for turn in range(-(-options.rows // PORTION)):
        rows = min(PORTION, options.rows - done)
        difference = differing_rows(kinds[turn % len(kinds)], options.seed + turn, rows)
        if difference is not None:
            sys.exit(difference)
        done += rows
        print(f"{done:,} rows equal", file=sys.stderr)


if __name__ == "__main__":
    main()
