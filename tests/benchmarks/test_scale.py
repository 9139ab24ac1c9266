"""The simulation of many workers: its limits are known, and Dask's state machine is driven as it is."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.measure.batching import BATCH
from benchmarks.scale import store_limit
from benchmarks.scale_simulation import Costs, simulate

FREE = Costs(0, 0, 0, 0, 0, 0)
SECOND = np.array([1.0])
JOBS = 640


def run(workers: int, costs: Costs):
    return simulate(workers, JOBS * BATCH, SECOND, costs, np.random.default_rng(0))


@pytest.mark.parametrize("workers", [1, 8, 64])
def test_without_costs_every_worker_is_busy(workers: int) -> None:
    found = run(workers, FREE)
    assert found.seconds == pytest.approx(JOBS * BATCH / workers)
    assert found.workers_share == pytest.approx(1.0) and found.bottleneck == "measuring"


def test_one_worker_waits_for_little() -> None:
    costs = Costs(0.01, 0.001, 0.001, 0.001, 0.001, 0.001)
    assert 1.0 < run(1, costs).seconds / run(1, FREE).seconds < 1.01


def test_the_part_that_bounds_many_workers_is_named() -> None:
    drawing = run(64, Costs(0.1, 0, 0, 0, 0, 0))
    assert drawing.bottleneck == "drawing candidates"
    assert drawing.seconds == pytest.approx(JOBS * BATCH * 0.1, rel=0.02)
    assert run(64, Costs(0, 0, 0, 0.1, 0, 0)).bottleneck == "store"
    scheduling = run(64, Costs(0, 0, 0, 0, 0, 4.0))
    assert scheduling.bottleneck == "scheduler" and scheduling.scheduler_share > 0.9


def test_dask_schedules_jobs_for_workers_that_exist_in_its_state_only() -> None:
    pytest.importorskip("distributed")
    from benchmarks.scale_costs import scheduler_seconds

    assert scheduler_seconds(3) > 0 < scheduler_seconds(3, is_named=False)


def test_the_rate_at_which_the_store_is_within_its_share() -> None:
    """20 µs a row: 50,000 a second, 2,500 within 5 %, so 5 workers of 2 ms or a thousand of 400 ms."""
    told = store_limit(0.002, 20e-6)
    assert (
        "takes 50,000 measurements a second; 1,000 workers" in told and "deliver 500,000 of" in told
    )
    assert (
        "up to 2,500 a second: those of 5 workers, or of 1,000 whose measurements take 400 ms"
        in told
    )
