"""Warm starts: counts of measurements by curves, and the table of a few of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.search_runs import GRID
from benchmarks.warm_search import CHANGES, NEVER, Start, against_cold, measure, table_of


def start(kind: str, curve: tuple[float, ...], seed: int = 0) -> Start:
    return Start("net", CHANGES[0], 0.2, kind, seed, 150, curve)


def test_measurements_count_until_a_plan_is_near_enough() -> None:
    one = start("cold", (150.0, 120.0, 103.0, 101.0))
    assert one.until(150.0) == GRID[0] == 0
    assert one.until(102.0) == GRID[3]
    assert one.until(100.0) == math.inf


def test_the_best_of_all_searches_is_what_regret_is_measured_from() -> None:
    rows = [
        start("cold", (150.0, 120.0, 110.0)),
        start("nearest", (150.0, 101.0, 100.0)),
        start("same", (100.0, 100.0, 100.0)),
    ]
    row = table_of(rows).rows[0]
    assert row[3] == "50.0%"
    assert row[4].startswith(NEVER)
    assert row[5].startswith(str(GRID[1])) and row[6].startswith("0 ")
    assert row[7] == "10.0% / 0.0% / 0.0%"
    assert table_of(rows).rows[-1][4:7] == (NEVER, str(GRID[1]), "0")


def test_a_store_that_misleads_is_told() -> None:
    curves = {"cold": (150.0, 110.0), "nearest": (150.0, 121.0)}
    rows = [start(kind, curve) for kind, curve in curves.items()]
    rows += [start("cold", (150.0, 100.0), seed=1), start("nearest", (150.0, 98.0), seed=1)]
    told = against_cold(rows, "nearest")
    assert "1 of 2 searches end with a worse plan" in told and "(by 10.0% at most)" in told
    assert "1 with a better one (by 2.0% at most)" in told


@pytest.mark.slow
def test_a_store_of_an_equal_machine_gives_a_plan_as_good_no_later(tmp_path: Path) -> None:
    kept = tmp_path / "rows.json"
    rows = measure(["bert_small"], 1, kept)
    assert [one.start for one in rows[:3]] == ["cold", "nearest", "same"]
    same, cold = rows[2], rows[0]
    near = 1.02 * min(cold.curve)
    assert near < cold.heuristic
    assert same.until(near) <= cold.until(near)
    assert same.curve[-1] <= cold.curve[-1]
    assert measure(["bert_small"], 1, kept) == rows, "what is kept is not measured again"
