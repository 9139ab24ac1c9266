"""Progress on stderr: the first line within a second, one fraction of the whole, time left, best cost."""

from __future__ import annotations

import io
import time
from functools import partial

import pytest
from rich.console import Console

from autotune.cli import progress as module
from autotune.cli.commands.search_result import cost_text
from autotune.cli.progress import Lines, progress, time_left, working
from autotune.targets.opening import load_spec
from autotune.tuner.objective import Objective
from autotune.tuner.progress import CALIBRATION_STAGES, GRAPHS, SEARCH_STAGES, Whole


def await_message(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Wait until another thread has printed a text. Reading loses what is printed meanwhile, so reads are rare."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        time.sleep(0.3)
        if text in capsys.readouterr().err:
            return
    raise AssertionError(f"nothing said {text!r}")


@pytest.mark.parametrize("stages", [SEARCH_STAGES, CALIBRATION_STAGES])
def test_stages_make_one_whole_that_never_falls(stages: dict[str, float]) -> None:
    whole = Whole(stages)
    found = [whole.reached(phase, done, 4) for phase in stages for done in range(5)]
    assert found == sorted(found) and found[-1] == pytest.approx(1)
    assert whole.reached(next(iter(stages)), 0, 4) == found[-1]


def test_stages_follow_for_every_graph_and_an_unknown_phase_is_the_whole() -> None:
    whole = Whole(SEARCH_STAGES)
    whole.reached(GRAPHS, 0, 2)
    assert whole.reached("measure", 3, 3) == pytest.approx(0.5)
    whole.reached(GRAPHS, 1, 2)
    assert whole.reached("prepare", 3, 3) == pytest.approx(0.5 + 0.5 * SEARCH_STAGES["prepare"])
    assert Whole({}).reached("cases", 3, 4) == 0.75


def test_time_left_is_told_when_it_says_something() -> None:
    assert time_left(0.25, 60) == "03:00 left"
    assert time_left(0.5, 7200) == "2:00:00 left"
    assert time_left(0.001, 60) == time_left(0.5, 1) == ""


def test_the_first_line_comes_within_a_second_and_tells_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)
    with progress("search net", SEARCH_STAGES) as heard:
        assert isinstance(heard, Lines)
        await_message(capsys, "search net: 0%, starting")
        heard.title = "search net on edge"
        heard.cost_text = partial(cost_text, load_spec("edge"), Objective.LATENCY)
        heard("fuse", 8, 16, 28899132.0)
        assert "search net on edge: 29%, fuse 8/16, best predicted 28,899,132 cycles" in (
            capsys.readouterr().err
        )
        heard("measure", 1, 200)
        assert "measure 1/200, best predicted 28,899,132 cycles" in capsys.readouterr().err


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("search net"), working("open net"):
        pass
    assert capsys.readouterr().err == ""


def test_slow_work_says_what_it_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    with working("open net"):
        await_message(capsys, "open net …")


def test_a_terminal_has_one_bar_with_the_best_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Console(force_terminal=True, width=160, file=io.StringIO())
    monkeypatch.setattr(module, "MESSAGES", shown)
    with progress("search net", SEARCH_STAGES) as heard, working("open net"):
        heard.cost_text = partial(cost_text, load_spec("cpu"), Objective.LATENCY)
        heard("measure", 1, 2, load_spec("cpu").clock_hz / 1e3)
        assert heard.fraction == pytest.approx(0.88)
        assert heard.state == "measure 1/2, best predicted 1.000 ms"


def test_costs_have_the_units_of_the_machine_and_the_objective() -> None:
    edge, cpu = load_spec("edge"), load_spec("cpu")
    assert cost_text(edge, Objective.ENERGY, 2.5e9) == "2.5 µJ"
    assert cost_text(edge, Objective.LATENCY, 1234.0) == "1,234 cycles"
    assert cost_text(cpu, Objective.LATENCY, cpu.clock_hz) == "1,000.000 ms"
