"""Figures of learning while serving: shares, scenarios, turns that are kept, and pictures that are XML."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from autotune.targets.physical import Drift
from benchmarks.online import load
from benchmarks.online_cpu import (
    COUNTED,
    KINDS,
    PHASES,
    Served,
    _Worker,
    by_load,
    keep,
    kept,
    over,
    table,
    told,
)
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


def test_turns_in_which_no_request_counts_are_left_out() -> None:
    ours, others = [[2.0], [], [3.0], [4.0]], [[1.0], [1.0], [], [2.0]]
    assert over(ours, others, 0.5) == over([[2.0], [4.0]], [[1.0], [2.0]], 0.5)
    phases = tuple(((1.0,), ()) if place else ((), ()) for place in range(len(PHASES)))
    counts = tuple((0,) * len(COUNTED) for _ in PHASES)
    shown = table([Served("mlp", 2, kind, phases, (), counts) for kind in KINDS])
    rate = shown.columns.index("rate")
    assert [row[rate] for row in shown.rows[: len(KINDS)]] == ["", "—", "—"]
    assert shown.rows[len(KINDS) + 1][rate].startswith("+0.0%")


def test_loads_are_told_apart_by_network_and_callers() -> None:
    counts = tuple((0,) * len(COUNTED) for _ in PHASES)
    served = [
        Served(network, callers, kind, (), (), counts)
        for network, callers in (("mlp", 1), ("mlp", 2), ("gru_layer", 1))
        for kind in KINDS
    ]
    assert by_load(served) == [served[:3], served[3:6], served[6:]]


def test_a_load_is_read_from_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("mlp:2") == ("mlp", 2)
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", nargs="+", type=load)
    for wrong in ("mlp", "mlp:", ":2", "mlp:x", "mlp:0"):
        with pytest.raises(SystemExit):
            parser.parse_args(["--networks", wrong])
        assert "is no network:callers" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="reads proc(5)")
def test_a_worker_that_is_killed_leaves_no_stopped_child() -> None:
    program = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1); print(p.pid, flush=True); p.wait()"
    worker = object.__new__(_Worker)
    worker._process = subprocess.Popen(
        [sys.executable, "-c", program], text=True, stdout=subprocess.PIPE
    )
    assert worker._process.stdout is not None
    child = int(worker._process.stdout.readline())
    worker._signal(signal.SIGSTOP)
    worker.kill()
    worker.kill()
    end = time.monotonic() + 30
    while _runs(child):
        assert time.monotonic() < end
        time.sleep(0.01)


def _runs(process: int) -> bool:
    """True unless a process has ended, reaped or not."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX"


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
