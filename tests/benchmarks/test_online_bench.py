"""Figures of learning while serving: shares, scenarios, turns that are kept, and pictures that are XML."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autotune.targets.physical import Drift
from benchmarks.online_cpu import COUNTED, PHASES, Turn, kept, table
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


def test_kept_turns_give_the_same_table(tmp_path: Path) -> None:
    phases = ((1.0, 2.0), *((float(place),) for place in range(3, len(PHASES) + 2)))
    counts = tuple((place, *[0] * (len(COUNTED) - 1)) for place in range(len(PHASES)))
    turns = [Turn(online, phases, ((0.5, "x"),), counts) for online in (False, True)]
    path = tmp_path / "turns.json"
    path.write_text(json.dumps([[t.is_online, t.milliseconds, t.events, t.counts] for t in turns]))
    assert kept(path) == turns
    assert table("mlp", kept(path)) == table("mlp", turns)
    assert [row[7] for row in table("mlp", turns).rows[1::2]] == [
        str(n) for n in range(len(PHASES))
    ]


def test_a_picture_has_a_line_for_every_policy() -> None:
    drawn = ElementTree.fromstring(runs_picture("a < b", PAID))
    text = "".join(drawn.itertext())
    assert all(label in text for label in LINES.values())
    classes = [one.get("class") for one in drawn.iter() if one.tag.endswith(("path", "polyline"))]
    assert set(LINES) <= set(classes)
