"""Curves of strategies on this CPU: tables, the picture, and runs that are not repeated."""

from dataclasses import asdict
from json import dumps
from pathlib import Path

import pytest

from benchmarks.search_in_place import GRID, Case, Run, lines, main, run, tables


def found(strategy: str, seed: int, best: float, *, prunes: bool = True) -> Run:
    """A run whose plan is ``best`` over the heuristic one's time after 64 candidates."""
    curve = tuple(best if n >= 64 else 1.0 for n in GRID)
    return Run(Case("unet", "cpu:1", strategy, seed, prunes), 3.0, 70, 9, 4, curve)


RUNS = (
    found("model", 0, 0.8),
    found("model", 1, 0.9),
    found("random", 0, 1.0),
    found("random", 1, 1.0),
    found("random", 0, 0.9, prunes=False),
)


def test_cells_are_means_and_worst_over_seeds() -> None:
    total, unet = tables(RUNS)
    assert [row[0] for row in total.rows] == ["model", "random", "random, nothing pruned"]
    assert total.rows[0][1:4] == ("1.000", "1.000", "0.850")
    assert unet.rows[0][3] == "0.850 (0.900)"
    assert unet.rows[0][-4:] == ("70", "9", "4", "3.0")


def test_lines_are_over_the_best_known() -> None:
    drawn = dict(lines(RUNS))
    assert drawn["model"][-1] == pytest.approx(0.85 / 0.8)
    assert drawn["random"][0] == pytest.approx(1.0 / 0.8)


def test_runs_that_were_kept_are_not_repeated(tmp_path: Path) -> None:
    kept, page = tmp_path / "runs.json", tmp_path / "page.md"
    kept.write_text(dumps([asdict(one) for one in RUNS]))
    wanted = ["--networks", "unet", "--strategies", "model", "random", "--seeds", "2"]
    main([*wanted, "--json", str(kept), "--markdown", str(page)])
    assert "0.850 (0.900)" in page.read_text()
    assert (tmp_path / "images" / "search-curves-cpu.svg").exists()
    assert str(tmp_path) not in page.read_text()


@pytest.mark.slow
def test_a_search_is_judged_by_fresh_runs() -> None:
    one = run(Case("unet", "cpu:1", "random", 0), 5.0, 32)
    assert len(one.curve) == len(GRID) and one.curve[0] == 1.0
    assert one.candidates > 0 and one.plans >= one.pruned
