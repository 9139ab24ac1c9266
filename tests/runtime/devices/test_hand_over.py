"""Measuring hand-overs: what the clock says of each size, and the thread that copies."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from autotune.runtime.devices.hand_over import SIZES, hand_over_seconds, known_link, measure_link
from autotune.targets.link_memory import recall_link


def test_each_size_gets_the_median_of_its_own_hand_overs() -> None:
    now = [0.0]

    def clock() -> float:
        """Each hand-over takes as long as there were calls: later ones longer."""
        now[0] += 1.0
        return now[0] ** 2

    found = hand_over_seconds([4096, 8192], rounds=3, clock=clock)
    spans = [
        (2 * n) ** 2 - (2 * n - 1) ** 2 for n in range(3, 9)
    ]  # the first turn counts for nothing
    assert all(seconds in spans for seconds in found)
    assert len(set(found)) == 2


def test_a_link_is_measured_once_and_then_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    before = threading.active_count()
    found = known_link("here")
    assert [size for size, _ in found.samples] == list(SIZES)
    assert found.samples[-1][1] > found.samples[0][1]  # 16 MiB take longer than 4 KiB
    assert known_link("here") == recall_link("here") == found
    again = measure_link("here")
    assert recall_link("here") == again
    assert again.link.bandwidth_bytes_per_second == pytest.approx(
        found.link.bandwidth_bytes_per_second, rel=9
    )
    assert threading.active_count() <= before + 2  # the threads end
