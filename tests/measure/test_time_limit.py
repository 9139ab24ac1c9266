"""Time limits: by size, and in this process where no worker can load the target."""

from __future__ import annotations

import threading
import time

import pytest

from autotune.errors import InputError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.measure.deadline import within
from autotune.measure.measurement import Failed, Measured
from autotune.measure.runner import Runner
from autotune.measure.time_limit import BASE_SECONDS, default_seconds
from autotune.operators.op import OpKind
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.targets.protocol import Execution
from tests.measure import measure_case as case


def product(size: int) -> Candidate:
    b = GraphBuilder("product")
    graph = b.build([b.add(OpKind.MATMUL, b.input("x", (size, size)), b.input("y", (size, size)))])
    return Candidate(Group.from_graph(graph, [graph.ops[0].name]), Schedule(()), "net")


def test_a_limit_grows_with_tensors_and_operations() -> None:
    small, large = default_seconds(product(8)), default_seconds(product(2048))
    assert BASE_SECONDS < small < BASE_SECONDS + 0.01
    assert large == pytest.approx(BASE_SECONDS + 3 * 2048**2 * 4 / 2e7 + 2 * 2048**3 / 5e7)


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan")])
def test_a_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="give seconds above 0"):
        Runner(case.Counting(), time_limit_seconds=seconds)


def test_work_within_its_deadline_returns_or_raises() -> None:
    assert within(60, lambda: 3) == 3
    with pytest.raises(KeyError, match="gone"):
        within(60, lambda: {}["gone"])


def test_work_beyond_its_deadline_is_left_behind() -> None:
    release = threading.Event()
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.01, lambda: release.wait(60))
    release.set()
    assert time.monotonic() - begin < 50


class Waiting(case.Locked):
    """No worker can load it; it waits for ever over candidate 1."""

    def time(self, program: int) -> Execution:
        if program == 1:
            threading.Event().wait(600)
        return super().time(program)


def test_a_target_that_hangs_in_this_process_fails_its_candidate() -> None:
    runner = Runner(Waiting(), lower=case.number, time_limit_seconds=1.0)
    first, hung, last = runner.measure(map(case.candidate, range(3)))
    assert isinstance(first, Measured) and isinstance(last, Measured)
    assert hung == Failed(case.candidate(1), "took longer than 1 s")
