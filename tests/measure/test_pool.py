"""A pool keeps workers of different priorities apart."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from autotune.measure.pool import Pool
from autotune.runtime.online.thread_priority import yield_to_runs

pytestmark = pytest.mark.slow  # starts worker processes


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_a_search_gets_no_worker_of_the_learner() -> None:
    niceness: list[int] = []

    def learn() -> None:
        yield_to_runs()
        workers = pool.lend(1)
        niceness.extend(os.getpriority(os.PRIO_PROCESS, worker.pid) for worker in workers)
        pool.give_back(workers)

    with Pool(2) as pool:
        learner = threading.Thread(target=learn)
        learner.start()
        learner.join()
        assert niceness == [19]
        (worker,) = pool.lend(1)
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) < 19
        pool.give_back([worker])
        assert pool.lend(2)[0] is worker
