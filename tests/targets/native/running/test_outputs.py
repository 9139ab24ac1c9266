"""Output memory: used again when no one holds it, never while someone does."""

from __future__ import annotations

import numpy as np

from autotune.targets.native.running.outputs import LARGE_BYTES, SPARE, OutputMemory

SHAPE = (4, LARGE_BYTES // 16)


def test_memory_that_the_caller_let_go_of_is_used_again() -> None:
    memory = OutputMemory(SHAPE)
    first = memory.array()
    address = first.ctypes.data
    del first
    assert memory.array().ctypes.data == address


def test_memory_that_a_view_still_shows_is_not_used_again() -> None:
    memory = OutputMemory(SHAPE)
    first = memory.array()
    first[:] = 1
    row = first[1:2].T.reshape(-1)[:8]
    del first
    for _ in range(3):
        memory.array()[:] = 2
    assert np.all(row == 1)


def test_arrays_held_at_the_same_time_share_no_memory() -> None:
    memory = OutputMemory(SHAPE)
    held = [memory.array() for _ in range(4)]
    assert not any(np.may_share_memory(a, b) for i, a in enumerate(held) for b in held[:i])


def test_no_more_than_a_few_spare_blocks_are_kept() -> None:
    memory = OutputMemory(SHAPE)
    held = [memory.array() for _ in range(SPARE + 3)]
    addresses = {array.ctypes.data for array in held}
    assert len(addresses) == SPARE + 3
    held.clear()
    assert memory._spare is not None
    assert len(memory._spare) == SPARE


def test_arrays_are_writable_contiguous_and_of_the_shape_and_large_ones_aligned() -> None:
    for shape in ((), (3, 5), SHAPE):
        array = OutputMemory(shape).array()
        array[...] = 1
        assert array.shape == shape
        assert array.dtype == np.float32
        assert array.flags.c_contiguous and array.flags.writeable
    assert OutputMemory(SHAPE).array().ctypes.data % 64 == 0
