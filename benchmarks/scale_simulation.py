"""Simulates a calibration over many workers from recorded durations: coordinator, scheduler and workers."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.measure.batching import BATCH
from autotune.measure.cluster.distribution import DEPTH

SUMS = 4096
"""Durations of jobs that are drawn: each the sum of ``BATCH`` recorded ones."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that each thing takes. Of a candidate: to ``draw``, to ``pack``, to make a ``record`` of its
    result, to ``store`` it. Of a job: to ``submit`` it, and what the ``scheduler`` spends on it."""

    draw: float
    pack: float
    record: float
    store: float
    submit: float
    scheduler: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation tells: its seconds, and the shares of that time in which each part works."""

    seconds: float
    workers_share: float
    coordinator_share: float
    draw_share: float
    scheduler_share: float
    store_share: float

    @property
    def bottleneck(self) -> str:
        """The part that is busy the most; workers are where that is as it should be."""
        rest = self.coordinator_share - self.draw_share - self.store_share
        parts = {
            "measuring": self.workers_share,
            "drawing candidates": self.draw_share,
            "records and packing": rest,
            "scheduler": self.scheduler_share,
            "store": self.store_share,
        }
        return max(parts, key=lambda name: parts[name])


def simulate(
    workers: int,
    measurements: int,
    durations: npt.NDArray[np.float64],
    costs: Costs,
    rng: np.random.Generator,
) -> Outcome:
    """Run jobs of ``BATCH`` candidates over ``workers``, ``DEPTH`` for each at a time, as ``Distribution`` does.

    ``durations`` [n] are seconds of recorded measurements. The coordinator is one thread that draws, sends
    and takes in; the scheduler is one thread that handles every job twice. Networks take no time.
    """
    sums = rng.choice(durations, (SUMS, BATCH)).sum(axis=1)
    jobs = measurements // BATCH
    lengths = rng.choice(sums, jobs)
    send_seconds = BATCH * (costs.draw + costs.pack) + costs.submit
    take_seconds = BATCH * (costs.record + costs.store)
    half = costs.scheduler / 2
    coordinator = scheduler = 0.0
    free = [0.0] * workers
    running: list[float] = []
    sent = 0
    while sent < jobs or running:
        may_send = sent < jobs and len(running) < DEPTH * workers
        if running and (not may_send or running[0] + half <= coordinator):
            scheduler = max(scheduler, heapq.heappop(running)) + half
            coordinator = max(coordinator, scheduler) + take_seconds
            continue
        coordinator += send_seconds
        scheduler = max(scheduler, coordinator) + half
        end = max(scheduler, heapq.heappop(free)) + float(lengths[sent])
        heapq.heappush(free, end)
        heapq.heappush(running, end)
        sent += 1
    done = jobs * BATCH
    return Outcome(
        coordinator,
        float(lengths.sum()) / (coordinator * workers),
        jobs * (send_seconds + take_seconds) / coordinator,
        done * costs.draw / coordinator,
        jobs * costs.scheduler / coordinator,
        done * costs.store / coordinator,
    )
