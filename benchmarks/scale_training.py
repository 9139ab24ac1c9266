"""Trees on many rows: XGBoost over Dask's workers beside plain XGBoost, on resampled features of a machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.dataset import dataset
from autotune.store.records import Record
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float32]

PARTS = 8
"""Parts of the rows: each is drawn by the worker that holds it."""
ROUNDS = 20
HELD_OUT = 50_000
JITTER = 0.01
"""Relative spread of resampled features, and of resampled ratios."""
PARAMETERS = {"tree_method": "hist", "max_depth": 6, "learning_rate": 0.15, "nthread": 1}


@dataclass(frozen=True, slots=True)
class Training:
    """Seconds and held-out error of both ways, and by how much their predictions differ."""

    rows: int
    features: int
    plain_seconds: float
    dask_seconds: float
    plain_error: float
    dask_error: float
    mean_difference: float
    worst_difference: float


def base_rows(records: Sequence[Record], spec: HardwareSpec) -> tuple[Floats, Floats]:
    """Return features [n, f] of the main nest of every measurement, and logarithms of measured over analytic
    cycles [n]."""
    data = dataset(records, spec)
    ratio = data.cycles / data.summed(data.estimate)
    return data.x[data.main].astype(np.float32), np.log(ratio).astype(np.float32)


def resampled(x: Floats, y: Floats, rows: int, seed: int) -> tuple[Floats, Floats]:
    """Draw rows with replacement, each a little moved."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(x), size=rows)
    moved = x[chosen] * rng.normal(1.0, JITTER, (rows, x.shape[1])).astype(np.float32)
    return moved, y[chosen] + rng.normal(0.0, JITTER, rows).astype(np.float32)


def train_both(client: Any, x: Floats, y: Floats, rows: int) -> Training:
    """Train on the same ``rows`` here, with a thread for each worker, and over the workers of a client."""
    import dask
    import dask.array as arrays
    import xgboost
    from xgboost import dask as distributed

    size = rows // PARTS
    parts = [dask.delayed(resampled, nout=2, pure=False)(x, y, size, seed) for seed in range(PARTS)]
    xs = [arrays.from_delayed(p[0], (size, x.shape[1]), np.float32) for p in parts]
    ys = [arrays.from_delayed(p[1], (size,), np.float32) for p in parts]
    start = time.perf_counter()
    with client.as_current():
        matrix = distributed.DaskDMatrix(client, arrays.concatenate(xs), arrays.concatenate(ys))
        there = distributed.train(client, PARAMETERS, matrix, num_boost_round=ROUNDS)["booster"]
    dask_seconds = time.perf_counter() - start
    del matrix
    start = time.perf_counter()
    here_parts = [resampled(x, y, size, seed) for seed in range(PARTS)]
    whole = xgboost.DMatrix(
        np.concatenate([p[0] for p in here_parts]), np.concatenate([p[1] for p in here_parts])
    )
    threads = {"nthread": len(client.scheduler_info()["workers"])}
    here = xgboost.train(PARAMETERS | threads, whole, num_boost_round=ROUNDS)
    plain_seconds = time.perf_counter() - start
    held_x, held_y = resampled(x, y, HELD_OUT, PARTS)
    a, b = (booster.predict(xgboost.DMatrix(held_x)) for booster in (here, there))
    return Training(
        rows,
        x.shape[1],
        plain_seconds,
        dask_seconds,
        float(np.sqrt(np.mean((a - held_y) ** 2))),
        float(np.sqrt(np.mean((b - held_y) ** 2))),
        float(np.abs(a - b).mean()),
        float(np.abs(a - b).max()),
    )
