"""Figures of learning while serving: shares, scenarios, turns that are kept, and pictures that are XML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from autotune.targets.physical import Drift
from benchmarks.online_cpu import COUNTED, KINDS, PHASES, Served, keep, kept, over, table, told
from benchmarks.online_pictures import LINES, runs_picture
from benchmarks.online_runs import Costs
from benchmarks.online_scenarios import CHANGE, RUNS, SCENARIOS

PAID = Costs(never=(100, 100), tuned_once=(90, 100), ours=(100, 80), oracle=(80, 80))


def test_a_share_is_of_the_saving_of_the_oracle() -> None:
    assert PAID.share("oracle") == 1.0
    assert PAID.share("never") == 0.0
    assert PAID.share("ours") == pytest.approx(20 / 40)
    assert PAID.share("tuned_once") == pytest.approx(10 / 40)


def test_machines_change_where_scenarios_say_and_end_in_a_known_condition() -> None:
    for scenario in SCENARIOS:
        drifts = [scenario.drift(run) for run in range(RUNS)]
        assert len(set(drifts[:CHANGE])) == 1
        assert Drift() in scenario.quiet_conditions()
        assert all(drift.noise is None for drift in scenario.quiet_conditions())
        assert {scenario.network(run) for run in range(RUNS)} <= {0, 1}


def test_what_was_served_is_kept_and_gives_the_same_table(tmp_path: Path) -> None:
    phases = tuple(((1.0, 2.0), (float(place),)) for place in range(1, len(PHASES) + 1))
    counts = tuple((place, *[0] * (len(COUNTED) - 1)) for place in range(len(PHASES)))
    served = [Served("mlp", 2, kind, phases, ((1, 0.5, "swapped: x"),), counts) for kind in KINDS]
    path = tmp_path / "turns.json"
    assert kept(path) == []
    keep(path, served)
    assert kept(path) == served
    shown = table(kept(path))
    assert shown == table(served)
    assert len(shown.rows) == len(PHASES) * len(KINDS)
    drifts = shown.columns.index("drifts")
    assert [row[drifts] for row in shown.rows[:: len(KINDS)]] == [str(n) for n in range(5)]
    assert "0.5 s  swapped: x" in told(served)


def test_a_quantile_over_that_of_others_has_an_interval_that_holds_the_truth() -> None:
    rng = np.random.default_rng(0)
    others, again = (rng.gamma(9.0, 1.0, (20, 400)).tolist() for _ in range(2))
    slower = [[1.1 * one for one in turn] for turn in again]
    for quantile in (0.5, 0.99):
        ratio, low, high = over(others, others, quantile)
        assert ratio == low == high == 1.0
        ratio, low, high = over(slower, others, quantile)
        assert low <= 1.1 <= high and low > 1.0
        assert ratio == pytest.approx(1.1, rel=0.03)


def test_a_picture_has_a_line_for_every_policy() -> None:
    drawn = ElementTree.fromstring(runs_picture("a < b", PAID))
    text = "".join(drawn.itertext())
    assert all(label in text for label in LINES.values())
    classes = [one.get("class") for one in drawn.iter() if one.tag.endswith(("path", "polyline"))]
    assert set(LINES) <= set(classes)
