"""A short soak, and proof that its judge sees what a soak looks for."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from autotune.graph.accuracy import Accuracy
from autotune.runtime.execution.event import Event, EventKind
from tests.soak.callers import Caller, Tally
from tests.soak.faults import FAULTS, drawn_faults
from tests.soak.latency import LEAST_RUNS, Latencies
from tests.soak.resources import Sample, Watch, grown
from tests.soak.soak import unanswered
from tests.soak.workloads import WORKLOADS, Case

SECONDS = 75
"""Of a soak inside the tests: the faults take a second each, so that all strike several times. Two minutes would leave the
whole of the tests no room within what continuous integration may take."""


def soak(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start a soak in a process of its own: faults strike all of it."""
    command = [sys.executable, "-m", "tests.soak", "--short", *more]
    env = {**os.environ, "TMPDIR": str(folder)}
    root = Path(__file__).parents[2]
    out, kept = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(command, cwd=root, env=env, stdout=out, stderr=kept, text=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="faults strike by way of /proc")
def test_requests_are_right_and_learning_goes_on_whatever_strikes(tmp_path: Path) -> None:
    process = soak(tmp_path, "--minutes", str(SECONDS / 60), "--fault-seconds", "0.5")
    said, _ = process.communicate(timeout=600)
    print(said)  # shown where this fails: the seed, and how to repeat it
    assert process.returncode == 0, said[-4000:]
    struck = next(line for line in said.splitlines() if line.startswith("faults: "))
    assert sum(name in struck for name in FAULTS) >= len(FAULTS) // 2, struck  # all, if not busy


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="faults strike by way of /proc")
def test_ctrl_c_ends_a_soak_with_its_report(tmp_path: Path) -> None:
    process = soak(tmp_path, "--minutes", "60")
    assert process.stdout is not None
    next(line for line in process.stdout if " requests, " in line or ": " in line)
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    assert process.wait(300) == 0, said
    assert "all was well" in said


def test_every_fault_is_drawn_before_any_is_drawn_again() -> None:
    drawn = drawn_faults(np.random.default_rng(3))
    once = [next(drawn) for _ in FAULTS]
    assert sorted(once) == sorted(FAULTS)
    again = drawn_faults(np.random.default_rng(3))
    assert [next(again) for _ in FAULTS] == once


CASE = Case({"x": np.zeros(3, np.float32)}, {"y": np.array([1.0, 2.0, 5.0], np.float32)})


@pytest.mark.parametrize(
    ("outputs", "complaint"),
    [
        ({"y": [1.0, 2.0, 5.0]}, None),
        ({"y": [1.0, 2.0001, 5.0]}, None),
        ({"y": [1.0, 2.0004, 5.0]}, "off by"),
        ({"y": [1.0, np.nan, 5.0]}, "off by"),
        ({"y": [1.0, 2.0]}, "wanted float32"),
        ({"z": [1.0, 2.0, 5.0]}, "wanted"),
    ],
)
def test_wrong_answers_are_told(outputs: dict[str, list[float]], complaint: str | None) -> None:
    made = {name: np.array(values, np.float32) for name, values in outputs.items()}
    said = CASE.complaint(made, Accuracy.EXACT)
    assert said is None if complaint is None else said is not None and complaint in said


class Answering:
    """A service whose session the test writes."""

    def __init__(self, *answers: object) -> None:
        self.workload = replace(WORKLOADS[0], name="stand-in")
        self.cases = (CASE,)
        self.answers = list(answers)
        self.over = threading.Event()
        self.is_closed = False

    @property
    def session(self) -> Answering:
        """It is its own session."""
        return self

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Give the next answer, or raise it; the last one ends the soak."""
        answer = self.answers.pop(0)
        if not self.answers:
            self.over.set()
        if isinstance(answer, Exception):
            raise answer
        return {"y": np.array(answer, np.float32)}


def asked(service: Answering) -> Tally:
    tally = Tally()
    given: list[object] = [0, [service], tally, Latencies(), service.over, 0, 0.0]
    Caller(*given).run()
    return tally


def test_callers_tell_of_wrong_answers_and_failed_requests() -> None:
    tally = asked(Answering([1, 2, 5], [1, 2, 6], ValueError("no"), [1, 2, 5]))
    assert (tally.failed, sum(tally.requests.values())) == (1, 3)
    assert tally.wrong >= 1
    assert any("wrong answer of stand-in case 0: y is off by" in text for text in tally.told)
    assert any("failed: ValueError: no" in text for text in tally.told)


def test_callers_see_answers_that_change_afterwards() -> None:
    shared = np.array([1.0, 2.0, 5.0], np.float32)

    class Reusing(Answering):
        def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            super().run(inputs)
            shared[0] += 0.5 * (
                len(self.answers) == 1
            )  # the third run writes into what the first gave
            return {"y": shared if len(self.answers) == 3 else shared.copy() * 0 + [1, 2, 5]}

    tally = asked(Reusing([0], [0], [0], [0]))
    assert any("some requests later" in text for text in tally.told), tally.told


def test_growth_is_judged_after_warm_up_and_without_outliers() -> None:
    assert grown([1, 2, 3, 9, 9, 9, 9, 9, 9, 50, 9, 9]) == 0
    assert grown(list(range(100))) == 50

    def watched(slope: int) -> Watch:
        return Watch([Sample(i, i * slope, 9, 9, 1, 0) for i in range(100)])

    assert watched(2**20).complaints() == []
    assert "rss_bytes grew" in watched(2 * 2**20).complaints()[0]


def test_slow_requests_are_counted_with_their_cause() -> None:
    latencies = Latencies()
    for _ in range(LEAST_RUNS):
        with latencies.watched(("quick", 0)):
            pass
    with latencies.watched(("quick", 0)):
        while not latencies._open[threading.get_ident()].seen:
            latencies.look()
    said = latencies.lines()
    assert said[0].startswith("1 of 1 requests")
    assert said[1].startswith("  1 × ")


def test_frames_are_read_while_nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 collects while it makes another thread's frame: finalizers run, the thread goes on, the frame is gone."""
    latencies, frames_of = Latencies(), sys._current_frames
    collects: list[bool] = []

    def read() -> dict[int, FrameType]:
        collects.append(gc.isenabled())
        return frames_of()

    monkeypatch.setattr(sys, "_current_frames", read)
    for _ in range(LEAST_RUNS):
        with latencies.watched(("quick", 0)):
            pass
    with latencies.watched(("quick", 0)):
        while not collects:
            latencies.look()
    assert collects == [False]
    assert gc.isenabled()


def test_learning_that_failed_and_does_not_go_on_is_told() -> None:
    def event(kind: EventKind, text: str) -> Event:
        return Event(kind, 0, time.time(), text, {})

    failed, other = (
        event(EventKind.FAILED, "online learning stopped: no"),
        "online recording goes on",
    )
    assert unanswered((failed, event(EventKind.RESTARTED, other))) is failed
    assert unanswered((failed, event(EventKind.RESTARTED, "online learning goes on"))) is None
