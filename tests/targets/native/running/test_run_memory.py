"""Blocks for runs that go on at once: as many as there is room for, each with one run at a time."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from autotune.targets.native.running import run_memory
from autotune.targets.native.running.run_memory import RunMemory

FIRST = np.zeros(8, np.float32)


def test_a_caller_alone_has_the_same_block_each_time() -> None:
    memory = RunMemory(FIRST, 4)
    for _ in range(3):
        block = memory.take()
        assert block is FIRST
        memory.give(block)


def test_callers_at_once_have_blocks_of_their_own_up_to_the_most() -> None:
    memory = RunMemory(FIRST, 2)
    blocks = [memory.take(), memory.take()]
    assert len({block.ctypes.data for block in blocks}) == 2
    assert [len(block) for block in blocks] == [8, 8]
    found: list[np.ndarray] = []
    third = threading.Thread(target=lambda: found.append(memory.take()))
    third.start()
    third.join(0.05)
    assert third.is_alive() and not found, "it waits"
    memory.give(blocks[1])
    third.join(10)
    assert found[0] is blocks[1]


def test_a_caller_that_is_due_comes_before_one_that_has_just_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_memory, "OVERDUE_SECONDS", 0.0)
    memory, order = RunMemory(FIRST, 1), []
    mine = memory.take()

    def wait() -> None:
        block = memory.take()
        order.append("waited")
        memory.give(block)

    other = threading.Thread(target=wait)
    other.start()
    while not memory._waits_since:
        pass
    memory.give(mine)
    mine = memory.take()
    order.append("again")
    memory.give(mine)
    other.join()
    assert order == ["waited", "again"]


def test_without_memory_for_another_block_callers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(elements: int) -> np.ndarray:
        raise MemoryError

    monkeypatch.setattr(run_memory, "populated_floats", none)
    memory = RunMemory(FIRST, 2)
    mine, found = memory.take(), []
    other = threading.Thread(target=lambda: found.append(memory.take()))
    other.start()
    other.join(0.05)
    assert not found
    memory.give(mine)
    other.join(10)
    assert len(found) == 1 and found[0] is mine
