"""Ranks the schedules of many groups at once, over the cores of this machine or the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from joblib import Parallel, delayed, parallel_config

from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.measure.cluster.announcement import this_code
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.orphan import end_with_parent
from autotune.measure.runner import Workers
from autotune.targets.spec import HardwareSpec
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import Effort, Ranked, Ranking

MANY = 24
"""Groups that are worth worker processes: each takes 20 to 50 ms, starting workers two seconds."""
_PORTION = 8
"""Groups per message: the model goes with each, near 1 MB."""

Job = tuple[Group, Effort, Ranked | None]
"""Arguments of ``Ranking.rank``."""


def rank_all(ranking: Ranking, jobs: Sequence[Job], workers: Workers = None) -> list[Ranked]:
    """Return ``ranking.rank(*job)`` of every job, in order.

    ``workers`` is a cluster or the number of processes (None: one per core for many jobs, else none); 1
    stays in this process. When workers are lost, this process does the work.
    """
    count = (os.cpu_count() or 1) if workers is None else workers
    if count == 1 or len(jobs) < MANY:
        return [ranking.rank(*job) for job in jobs]
    blob = ranking.model.to_bytes()
    portions = [jobs[at : at + _PORTION] for at in range(0, len(jobs), _PORTION)]
    losses = count.losses if isinstance(count, Cluster) else (BrokenExecutor,)
    try:
        with _backend(count, blob):
            results: list[list[Ranked]] = Parallel()(
                delayed(_rank)(blob, ranking.spec, ranking.objective, ranking.seed, portion)
                for portion in portions
            )
    except losses:  # a worker was killed, for memory most likely
        return [ranking.rank(*job) for job in jobs]
    return [ranked for portion in results for ranked in portion]


def _backend(workers: int | Cluster, blob: bytes) -> AbstractContextManager[Any]:
    """Return joblib's setting: processes of this machine, or Dask's workers, which get the model once.
    There each works on one portion at a time, as when it measures."""
    if isinstance(workers, Cluster):
        return _setting("dask", client=workers.client, scatter=[blob], resources={this_code(): 1})
    watch = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    return _setting("loky", n_jobs=workers, **watch)


def _setting(backend: str, **options: Any) -> AbstractContextManager[Any]:
    found: AbstractContextManager[Any] = parallel_config(backend, **options)
    return found


def _rank(
    blob: bytes, spec: HardwareSpec, objective: Objective, seed: int, jobs: Sequence[Job]
) -> list[Ranked]:
    ranking = Ranking(_model(blob, spec), spec, objective, seed)
    return [ranking.rank(*job) for job in jobs]


@lru_cache(maxsize=2)
def _model(blob: bytes, spec: HardwareSpec) -> CostModel:
    """Return the model of a message, read once per worker."""
    return CostModel.from_bytes(blob, spec)
