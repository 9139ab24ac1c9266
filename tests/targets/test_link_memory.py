"""Measured links: the line through hand-overs, what is kept of them, and the links that a session gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import StoreError
from autotune.targets.link_memory import (
    FILE_NAME,
    fitted,
    recall_link,
    remember_link,
    with_measured,
)
from autotune.targets.link_spec import LinkSpec, read_links

SIZES = [1 << power for power in range(12, 25, 2)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    return tmp_path


@given(st.floats(1e8, 1e11), st.floats(1e-7, 1e-3))
def test_exact_hand_overs_give_their_link_back(bandwidth: float, latency: float) -> None:
    truth = LinkSpec(bandwidth, latency)
    found = fitted((size, truth.seconds(size)) for size in SIZES)
    assert found.link.bandwidth_bytes_per_second == pytest.approx(bandwidth, rel=1e-6)
    assert found.link.latency_seconds == pytest.approx(latency, rel=1e-4, abs=1e-9)
    assert found.worst_error < 1e-6


def test_noisy_hand_overs_give_the_least_squares_of_relative_errors() -> None:
    rng = np.random.default_rng(0)
    times = [(2e-5 + size / 1e10) * rng.uniform(0.8, 1.2) for size in SIZES]
    found = fitted(zip(SIZES, times, strict=True))
    rows = np.array([[1 / t, size / t] for size, t in zip(SIZES, times, strict=True)])
    (latency, slope), *_ = np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)
    assert found.link.latency_seconds == pytest.approx(latency)
    assert 1 / found.link.bandwidth_bytes_per_second == pytest.approx(slope)


def test_a_line_with_negative_latency_has_none() -> None:
    found = fitted([(1_000, 1e-8), (1_000_000, 1e-3)])
    assert found.link.latency_seconds == 0
    assert found.worst_error > 0.1


def test_a_remembered_link_comes_back_for_its_machine_alone() -> None:
    found = fitted((size, 1e-5 + size / 1e9) for size in SIZES)
    remember_link("a", found)
    remember_link("b", fitted([(1_000, 1e-3), (2_000, 2e-3)]))
    assert recall_link("a") == found
    assert recall_link("c") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not remembered links"),
        ('{"schema": 9, "machines": {}}', "links of schema 9, this version reads 1"),
        ('{"schema": 1, "machines": {"a": {"samples": [[1, 1]]}}}', "fewer than two sizes"),
        ('{"schema": 1, "machines": {"a": {"samples": [[1, 1], [2, -1]]}}}', "that is no time"),
        ('{"schema": 1, "machines": {"a": 3}}', "not a remembered link"),
    ],
)
def test_a_damaged_file_is_told_in_one_line(home: Path, text: str, message: str) -> None:
    (home / FILE_NAME).write_text(text)
    with pytest.raises(StoreError, match=message) as caught:
        recall_link("a")
    assert "\n" not in str(caught.value)
    assert "delete the file" in str(caught.value) or "schema" in str(caught.value)


def test_this_cpu_is_joined_by_the_measured_link_and_emulated_devices_by_the_file() -> None:
    measured, shipped = fitted((size, 1e-5 + size / 1e9) for size in SIZES), read_links()
    links = with_measured(shipped, measured, ["edge", "cpu:2", "edge#2"])
    assert links.between("edge", "cpu") == links.between("cpu:2", "edge#2") == measured.link
    assert links.between("edge", "edge#2") == shipped.default
    assert "measured on this machine" in links.description
    assert shipped.description in links.description
    assert shipped.description not in with_measured(shipped, measured, ["edge"]).description
    assert json.dumps(links.document())  # a plan file has it
