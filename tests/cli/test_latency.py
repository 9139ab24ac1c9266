"""``autotune run`` on this machine: latency in milliseconds over timed runs, warm-up apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.latency import LEAST_RUNS, WARM_UP_RUNS, Latency, measure_latency
from autotune.cli.main import main
from tests.cli.plan_case import write_plan


class Clock:
    """Seconds that pass when a run takes them."""

    def __init__(self, *runs: float) -> None:
        self.now, self.runs, self.done = 0.0, list(runs), 0

    def __call__(self) -> float:
        return self.now

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        self.now += self.runs[min(self.done, len(self.runs) - 1)]
        self.done += 1
        return {"run": self.done}


def test_the_warm_up_is_apart_and_the_first_outputs_are_kept() -> None:
    clock = Clock(9.0, 0.25, 0.5, 0.75)
    outputs, found = measure_latency(clock.run, {}, 3, clock)
    assert outputs == {"run": 1}
    assert found == Latency((0.25, 0.5, 0.75), 1)  # nine seconds are warm-up enough


def test_without_a_number_runs_take_about_a_second() -> None:
    quick, slow = Clock(0.125), Clock(4.0)
    assert len(measure_latency(quick.run, {}, None, quick)[1].seconds) == 8
    assert len(measure_latency(slow.run, {}, None, slow)[1].seconds) == LEAST_RUNS


def test_statistics_are_those_of_the_runs() -> None:
    found = Latency(tuple(range(200, 0, -1)), WARM_UP_RUNS)
    assert (found.minimum_seconds, found.median_seconds, found.p99_seconds) == (1, 100.5, 198)
    assert found.inferences_per_second == pytest.approx(200 / 20100)
    assert Latency((1.0, 3.0), 0).p99_seconds == 3.0
    with pytest.raises(ValueError, match="at least one"):
        Latency((), 1)


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(["run", *map(str, arguments)])
    captured = capsys.readouterr()
    assert exit_info.value.code == 0, captured.err
    return captured.out


def test_a_run_on_this_machine_tells_milliseconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tmp_path)
    network = tmp_path / "net.onnx"
    told = ran(capsys, network, "--threads", 1, "--repeat", 4)
    assert "minimum" in told and " ms" in told and "4 runs after" in told and "cycles" not in told
    found = json.loads(ran(capsys, network, "--threads", 1, "--repeat", 4, "--json"))
    latency = found["latency"]
    assert found["target"] == "cpu:1" and latency["runs"] == 4
    assert latency["minimum_seconds"] <= latency["median_seconds"] <= latency["p99_seconds"]
    assert latency["inferences_per_second"] > 0


def test_the_profile_adds_up_to_the_run_that_it_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tmp_path)
    told = ran(capsys, tmp_path / "net.onnx", "--threads", 1, "--repeat", 1, "--profile")
    lines = dict(line.split("  ", 1) for line in told.splitlines() if "  " in line)
    named = ("groups", "overhead", "waiting", "run")
    *parts, run = (float(lines[name].split()[0]) for name in named if name in lines)
    assert sum(parts) == pytest.approx(run, abs=0.002)


def test_a_run_on_an_emulated_machine_tells_cycles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    assert "cycles" in ran(capsys, plan)
    assert "latency" not in json.loads(ran(capsys, plan, "--repeat", 2, "--json"))
