"""Blocks for runs that go on at once: as many as there is room for, each with one run at a time."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from autotune.kernels.native.executor import OVERDUE_SECONDS, RunMemory
from autotune.targets.native.running.run_memory import memory_of

Maker = Callable[[], np.ndarray]


def block() -> np.ndarray:
    return np.zeros(8, np.float32)


def taking(memory: RunMemory) -> tuple[threading.Thread, list[np.ndarray]]:
    """A thread that takes a block, and where it puts it."""
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(memory.take()))
    thread.start()
    return thread, found


def test_a_caller_alone_has_the_same_block_each_time() -> None:
    memory = RunMemory(block, 4)
    addresses = set()
    for _ in range(3):
        mine = memory.take()
        addresses.add(mine.ctypes.data)
        memory.give(mine)
    assert len(addresses) == memory.made == 1


def test_callers_at_once_have_blocks_of_their_own_up_to_the_most() -> None:
    memory = RunMemory(block, 2)
    blocks = [memory.take(), memory.take()]
    assert len({one.ctypes.data for one in blocks}) == memory.made == 2
    third, found = taking(memory)
    third.join(0.05)
    assert third.is_alive() and not found, "it waits"
    memory.give(blocks[1])
    third.join(10)
    assert found[0] is blocks[1]


def test_a_caller_that_is_due_comes_before_one_that_has_just_run() -> None:
    memory, order = RunMemory(block, 1), []
    mine = memory.take()

    def wait() -> None:
        theirs = memory.take()
        order.append("waited")
        memory.give(theirs)

    other = threading.Thread(target=wait)
    other.start()
    other.join(0.05 + OVERDUE_SECONDS)
    memory.give(mine)
    mine = memory.take()
    order.append("again")
    memory.give(mine)
    other.join()
    assert order == ["waited", "again"]


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "cannot allocate memory")])
def test_without_memory_for_another_block_callers_wait(error: Exception) -> None:
    made = itertools.count()

    def first() -> np.ndarray:
        if next(made):
            raise error
        return block()

    memory = RunMemory(first, 2)
    mine = memory.take()
    other, found = taking(memory)
    other.join(0.05)
    assert not found
    memory.give(mine)
    other.join(10)
    assert len(found) == 1 and found[0] is mine and memory.made == 1


def test_an_interrupt_while_a_block_is_made_loses_no_room() -> None:
    made = itertools.count()

    def second() -> np.ndarray:
        if next(made) == 1:
            raise KeyboardInterrupt
        return block()

    memory = RunMemory(second, 2)
    memory.take()
    with pytest.raises(KeyboardInterrupt):
        memory.take()
    assert memory.made == 1 and memory.take().shape == (8,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_runs_of_other_threads() -> None:
    memory = memory_of(8, 2)
    assert isinstance(memory, RunMemory)
    lent = memory.take(), memory.take()
    waiter, found = taking(memory)
    waiter.join(0.05)
    child = os.fork()
    if not child:
        mine = memory.take()
        memory.give(mine)
        os._exit(0 if memory.made == 1 else 1)
    code = None
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    memory.give(lent[0])
    waiter.join(10)
    assert code == 0 and found[0] is lent[0]


def test_one_run_at_a_time_has_one_block() -> None:
    memory = memory_of(8, 1)
    assert memory.take() is memory.take()
