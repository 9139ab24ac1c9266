"""Curves of search strategies: best plans by the first measurements, tables, and runs that are not repeated."""

import math
from dataclasses import asdict, replace
from itertools import pairwise
from json import dumps
from pathlib import Path

import pytest

from benchmarks.fleet import HELD_OUT
from benchmarks.search import main
from benchmarks.search_runs import GRID, NETWORKS, Case, Run, run
from benchmarks.search_tables import contests, curve_table, totals_table


def falling(strategy: str, seed: int, arrives: int) -> Run:
    """A run from 200 to 100 cycles after ``arrives`` measurements."""
    found = tuple(100.0 if n >= arrives else 200.0 for n in GRID)
    return Run(Case("unet", "edge", strategy, seed), 3.0, 200, 300, found)


RUNS = tuple(
    falling(strategy, seed, arrives + 4 * seed)
    for strategy, arrives in (("model", 4), ("random", 48), ("tpe", 10**6))
    for seed in range(3)
)


def test_networks_are_held_out() -> None:
    assert set(NETWORKS) <= set(HELD_OUT)


def test_cells_are_means_and_worst_over_seeds() -> None:
    rows = {row[0]: row[1:] for row in curve_table(contests(RUNS)[0]).rows}
    assert rows["unfused plan"][0] == "3.000"
    assert rows["heuristic plan"][0] == "2.000"
    assert rows["model"][:2] == ("1.333 (2.000)", "1.000 (1.000)")
    assert rows["model"][-3:] == ("8", "3 of 3", "3")
    assert rows["tpe"][-3:-1] == ("–", "0 of 3")


def test_factors_count_measurements_and_never_is_a_lower_bound() -> None:
    (row, mean) = totals_table(contests(RUNS)).rows
    assert row == ("unet on edge", "8", "6.5×", "≥ 20.0×")
    assert mean == ("geometric mean", "", "6.5× (of 1)", "≥ 20.0× (of 1)")


def test_no_factor_where_the_heuristic_plan_is_near() -> None:
    near = tuple(replace(r, curve=(100.0,) * len(GRID)) for r in RUNS)
    assert totals_table(contests(near)).rows[-1][-1] == "–"


def test_runs_that_were_kept_are_not_repeated(tmp_path: Path) -> None:
    kept, page = tmp_path / "runs.json", tmp_path / "page.md"
    strategies = ("model", "exact", "greedy", "random", "tpe", "gp")
    runs = [falling(strategy, seed, 8) for strategy in strategies for seed in range(2)]
    kept.write_text(dumps([asdict(r) for r in runs]))
    wanted = ["--networks", "unet", "--targets", "edge", "--seeds", "2"]
    main([*wanted, "--json", str(kept), "--markdown", str(page)])
    assert f"python -m benchmarks.search {' '.join(wanted)}" in page.read_text()
    assert "<svg" in (tmp_path / "images" / "search-curves.svg").read_text()


def test_a_network_of_the_training_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--networks", "transformer_block"])
    assert "bert_small" in capsys.readouterr().err


@pytest.mark.slow
def test_a_curve_falls_from_the_heuristic_plan_and_repeats() -> None:
    case = Case("mobilenet_v2", "edge", "greedy", 0)
    first = run(case, measure=24)
    assert first.curve[0] == first.heuristic
    assert all(a >= b for a, b in pairwise(first.curve))
    assert math.isfinite(first.until(first.curve[-1]))
    assert run(case, measure=24).curve == first.curve
