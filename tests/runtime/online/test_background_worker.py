"""A worker works off what it is given in order, keeps its bound, tells of failures, and begins anew."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest

from autotune.errors import AutotuneError, InputError
from autotune.runtime.online import thread_priority
from autotune.runtime.online.background_worker import BackgroundWorker, Failure, Life, Restart, Work
from autotune.runtime.online.thread_priority import LOW, LOW_FOR_GOOD

AT_ONCE = Restart(first_seconds=1e-4, most_seconds=1e-3)


def worker(
    work: Work[int],
    limit: int = 1000,
    told: list[Failure] | None = None,
    **options: object,
) -> BackgroundWorker[int]:
    told = [] if told is None else told
    made: Callable[..., BackgroundWorker[int]] = BackgroundWorker[int]
    return made("test", lambda life: work, limit, told.append, **{"restart": AT_ONCE} | options)


def test_everything_is_worked_off_in_order_in_batches() -> None:
    seen: list[int] = []
    lane = worker(seen.extend)
    for i in range(500):
        lane.put(i)
    lane.wait(10)
    assert seen == list(range(500))
    lane.put(500)
    lane.close()
    assert seen[-1] == 500
    lane.put(501)
    assert seen[-1] == 500


@pytest.mark.parametrize("together", [1, 2, 10])
def test_a_full_queue_loses_the_oldest_and_counts_them(together: int) -> None:
    gate, started, seen = threading.Event(), threading.Event(), []

    def work(batch: list[int]) -> None:
        started.set()
        assert gate.wait(10)
        seen.extend(batch)

    lane = worker(work, 4)
    lane.put(0)
    assert started.wait(10)
    for i in range(1, 11, together):
        lane.put_all(range(i, i + together))
    assert lane.take_dropped() == 6
    assert lane.take_dropped() == 0
    gate.set()
    lane.close()
    assert seen == [0, 7, 8, 9, 10]


@pytest.mark.parametrize("kind", [ValueError, MemoryError, SystemExit, KeyboardInterrupt])
def test_work_goes_on_after_any_failure(kind: type[BaseException]) -> None:
    told: list[Failure] = []
    seen: list[int] = []
    recovered = threading.Event()

    def work(batch: list[int]) -> None:
        if 1 in batch:
            raise kind("no")
        seen.extend(batch)

    lane = worker(work, told=told, recovered=recovered.set)
    lane.put(1)
    with pytest.raises(AutotuneError, match="online test stopped: no; it goes on by itself"):
        lane.wait(10)
    lane.put(2)
    assert recovered.wait(10)
    lane.wait(10)
    lane.close()
    assert seen == [2]
    assert [failure.reason for failure in told] == ["no"]


def test_pauses_double_up_to_the_longest() -> None:
    restart = Restart(first_seconds=2.0, most_seconds=50.0)
    assert [restart.pause_seconds(n) for n in (1, 2, 3, 6, 10_000)] == [2, 4, 8, 50, 50]
    with pytest.raises(InputError, match="first_seconds"):
        Restart(first_seconds=0)


def test_items_of_a_failed_call_are_put_back() -> None:
    seen: list[int] = []
    fails = iter([True, True])
    recovered = threading.Event()

    def work(batch: list[int]) -> None:
        if next(fails, False):
            raise OSError("the store is gone")
        seen.extend(batch)

    lane = worker(work, 4, keeps=True, recovered=recovered.set)
    for i in range(3):
        lane.put(i)
    assert recovered.wait(10)
    lane.close()
    assert seen == [0, 1, 2]


def test_closing_after_a_failure_tries_once_more_and_then_raises() -> None:
    told: list[Failure] = []

    def work(batch: list[int]) -> None:
        raise ValueError("no")

    slow = Restart(first_seconds=1000.0, most_seconds=1000.0)
    lane = worker(work, told=told, restart=slow)
    lane.put(1)
    with pytest.raises(AutotuneError, match="stopped: no"):
        lane.wait(10)
    lane.put(2)
    with pytest.raises(AutotuneError, match="stopped: no"):
        lane.close()
    assert [failure.pause_seconds for failure in told] == [1000, 1000]


def test_work_that_hangs_is_left_behind_and_told() -> None:
    gate, hangs, now = threading.Event(), threading.Event(), [0.0]
    lives: list[Life] = []
    told: list[Failure] = []
    seen: list[int] = []

    def begin(life: Life) -> Work[int]:
        lives.append(life)

        def work(batch: list[int]) -> None:
            if 1 in batch:
                hangs.set()
                assert gate.wait(10)
            seen.extend(batch)

        return work

    lane = BackgroundWorker[int](
        "test", begin, 10, told.append, restart=AT_ONCE, clock=lambda: now[0]
    )
    lane.put(1)
    assert hangs.wait(10)
    now[0] = AT_ONCE.hang_seconds + 1
    lane.put(2)
    lane.close()
    assert seen == [2]
    assert [life.is_over for life in lives] == [True, False]
    assert [failure.reason for failure in told] == ["no end after 1800 s"]
    gate.set()


def test_waiting_for_work_that_takes_longer_is_an_error() -> None:
    gate = threading.Event()

    def work(batch: list[int]) -> None:
        assert gate.wait(10)

    lane = worker(work, restart=Restart(close_seconds=0.01))
    lane.put(1)
    with pytest.raises(AutotuneError, match=r"still busy after 0\.01 s"):
        lane.wait(0.01)
    with pytest.raises(AutotuneError, match=r"still busy after 0\.01 s"):
        lane.close()
    gate.set()


def _niceness(thread: int = 0) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread or threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_work_in_the_background_has_a_low_priority_until_somebody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = _niceness()
    asked: list[tuple[int, int]] = []
    started, awaited = threading.Event(), threading.Event()
    system = os.setpriority

    def noted(which: int, thread: int, niceness: int) -> None:
        asked.append((thread, niceness))
        system(which, thread, niceness)
        if started.is_set():
            awaited.set()

    monkeypatch.setattr(os, "setpriority", noted)
    workers: list[int] = []

    def work(batch: list[int]) -> None:
        workers.append(threading.get_native_id())
        started.set()
        assert awaited.wait(10)

    lane = worker(work, in_background=True)
    lane.put(1)
    assert started.wait(10)
    assert max(ours, LOW_FOR_GOOD) <= _niceness(workers[0]) <= max(ours, LOW)
    lane.wait(10)
    assert [niceness for thread, niceness in asked if thread == workers[0]][1] == ours
    lane.close()
    assert _niceness() == ours


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_what_cannot_be_raised_again_is_lowered_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_priority, "_can_raise", lambda: False)
    seen: list[int] = []

    def begin() -> None:
        thread_priority.ThreadPriority().begin(is_urgent=False)
        seen.append(_niceness())

    one = threading.Thread(target=begin)
    one.start()
    one.join()
    assert seen == [max(_niceness(), LOW_FOR_GOOD)]
