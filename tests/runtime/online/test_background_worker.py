"""A lane works off what it is given in order, keeps its bound, and does not hide a failure."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from autotune.errors import AutotuneError
from autotune.runtime.online.background_worker import BackgroundWorker


def test_everything_is_worked_off_in_order_in_batches() -> None:
    seen: list[int] = []
    lane = BackgroundWorker[int]("test", seen.extend, 1000, lambda error: None)
    for i in range(500):
        lane.put(i)
    lane.wait(10)
    assert seen == list(range(500))
    lane.put(500)
    lane.close()
    assert seen[-1] == 500
    lane.put(501)
    assert seen[-1] == 500


def test_a_full_queue_loses_the_oldest_and_counts_them() -> None:
    gate, started, seen = threading.Event(), threading.Event(), []

    def work(batch: list[int]) -> None:
        started.set()
        assert gate.wait(10)
        seen.extend(batch)

    lane = BackgroundWorker[int]("test", work, 4, lambda error: None)
    lane.put(0)
    assert started.wait(10)
    for i in range(1, 11):
        lane.put(i)
    assert lane.take_dropped() == 6
    assert lane.take_dropped() == 0
    gate.set()
    lane.close()
    assert seen == [0, 7, 8, 9, 10]


def test_a_failure_is_told_and_raised_and_nothing_more_is_taken() -> None:
    told: list[BaseException] = []

    def work(batch: list[int]) -> None:
        raise ValueError("no")

    lane = BackgroundWorker[int]("test", work, 4, told.append)
    lane.put(1)
    with pytest.raises(AutotuneError, match="online test stopped: no"):
        lane.wait(10)
    lane.put(2)
    with pytest.raises(AutotuneError, match="online test stopped: no"):
        lane.close()
    assert [str(error) for error in told] == ["no"]


def test_waiting_for_work_that_takes_longer_is_an_error() -> None:
    gate = threading.Event()

    def work(batch: list[int]) -> None:
        assert gate.wait(10)

    lane = BackgroundWorker[int]("test", work, 4, lambda error: None)
    lane.put(1)
    with pytest.raises(AutotuneError, match=r"still busy after 0\.01 s"):
        lane.wait(0.01)
    gate.set()
    lane.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_work_in_the_background_yields_to_everything_else() -> None:
    priorities: list[int] = []

    def work(batch: list[int]) -> None:
        priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    lane = BackgroundWorker[int]("test", work, 4, lambda error: None, in_background=True)
    lane.put(1)
    lane.close()
    assert priorities == [19]
    assert os.getpriority(os.PRIO_PROCESS, 0) < 19
