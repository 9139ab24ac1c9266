"""Memory of the native engine: aligned, all there, its holder's alone."""

from __future__ import annotations

import gc
import mmap
import sys
from collections.abc import Callable

import numpy as np
import pytest

from autotune.targets.native.compiling import memory
from autotune.targets.native.compiling.memory import (
    ALIGNMENT_BYTES,
    PAGE_BYTES,
    POPULATED_BYTES,
    Floats,
    aligned_floats,
    populated_floats,
)

LARGE = POPULATED_BYTES // 4
COUNTS = [1, 17, LARGE - 1, LARGE, LARGE + 3, 2 * PAGE_BYTES // 4, 2 * PAGE_BYTES // 4 + 1]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("made", [aligned_floats, populated_floats])
def test_floats_are_as_many_as_asked_for_and_begin_on_a_cache_line(
    made: Callable[[int], Floats], count: int
) -> None:
    floats = made(count)
    assert floats.shape == (count,) and floats.dtype == np.float32
    assert floats.ctypes.data % ALIGNMENT_BYTES == 0
    floats[:] = np.arange(count)
    assert np.array_equal(floats, np.arange(count, dtype=np.float32))


def test_blocks_held_at_the_same_time_share_no_memory() -> None:
    held = [populated_floats(count) for count in COUNTS for _ in range(2)]
    for i, block in enumerate(held):
        block[:] = i
    assert all(np.all(block == i) for i, block in enumerate(held))


def test_a_part_keeps_its_block() -> None:
    part = populated_floats(PAGE_BYTES)[-8:]
    part[:] = 7
    gc.collect()
    others = [populated_floats(PAGE_BYTES) for _ in range(3)]
    for other in others:
        other[:] = 1
    assert np.all(part == 7)


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does")
@pytest.mark.parametrize("known", [True, False], ids=["populated", "touched"])
def test_no_page_of_a_large_block_is_missing(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    import resource

    if not known:  # as before Linux 5.14
        monkeypatch.setattr(memory, "_POPULATE_WRITE", 1 << 20)
    floats = populated_floats(4 * PAGE_BYTES)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    floats[:: mmap.PAGESIZE // 4] = 1
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < len(floats) // 8192


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are Linux's")
def test_large_pages_end_where_the_system_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    advice: list[int] = []
    advise = memory._advise

    def heard(floats: Floats, one: int) -> bool:
        advice.append(one)
        return advise(floats, one)

    monkeypatch.setattr(memory, "_advise", heard)
    monkeypatch.setattr(memory, "_STEP", PAGE_BYTES // 4)
    populated_floats(3 * PAGE_BYTES // 4)
    quick = list(advice)
    advice.clear()
    monkeypatch.setattr(memory, "_SLOW", 0.0)
    populated_floats(3 * PAGE_BYTES // 4)
    assert advice.count(mmap.MADV_NOHUGEPAGE) == 1
    assert advice.index(mmap.MADV_NOHUGEPAGE) == 2
    assert quick[0] == mmap.MADV_HUGEPAGE
