"""This machine is measured by one process at a time, which may crash without harm."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest

from autotune.fusion.analysis import analyse
from autotune.fusion.nest import Rejection
from autotune.measure.measurement import Failed, Measured
from autotune.measure.pool import Pool
from autotune.measure.runner import MANY_ALONE, Runner
from autotune.schedule.candidate import Candidate
from autotune.schedule.heuristic import default_schedule
from autotune.targets.native.cpu.host import available
from autotune.targets.native.running.target import NativeTarget
from tests.measure import measure_case as case
from tests.measure.crashing_target import Crashing, write_to
from tests.measure.hanging_target import Hanging
from tests.measure.timestamping_target import Timestamping

pytestmark = [
    pytest.mark.slow,  # starts worker processes
    pytest.mark.skipif(not available(), reason="llvmlite is not installed"),
]

ENOUGH = MANY_ALONE + 8
"""Candidates that more than one worker is worth starting for."""


def test_the_code_that_crashes_below_writes_where_it_is_told() -> None:
    place = np.zeros(1, np.float32)
    write_to(place.ctypes.data)
    assert place[0] == 1.0


@pytest.mark.parametrize("visit", [0, 1, 2])
@pytest.mark.parametrize("workers", [1, 2])
def test_generated_code_that_crashes_fails_its_candidate_alone(workers: int, visit: int) -> None:
    """Of two workers the other one prepares meanwhile, or waits for its turn."""
    with Pool(2) as pool:
        runner = Runner(Crashing(visit), workers, case.number, pool=pool)
        results = list(runner.measure(map(case.candidate, range(ENOUGH))))
    failed = {i: r.reason for i, r in enumerate(results) if isinstance(r, Failed)}
    assert list(failed) == [Crashing.CRASHES]
    assert failed[Crashing.CRASHES].endswith("died: SIGSEGV")
    done = [r.execution for r in results if isinstance(r, Measured)]
    assert [e.cycles for e in done] == [i for i in range(ENOUGH) if i != Crashing.CRASHES]
    by_worker = {execution.counters["pid"] for execution in done}
    assert os.getpid() not in by_worker
    assert workers <= len(by_worker) <= workers + 1, "another one behind the crash"


@pytest.mark.parametrize(
    "seconds",
    [(60.0, 0.0), (0.0, 60.0), (0.0, 0.0, 60.0), (0.5, *[0.1] * 20)],
    ids=["prepares", "first visit", "second visit", "all visits together"],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_candidate_that_takes_too_long_fails_alone(
    workers: int, seconds: tuple[float, ...]
) -> None:
    with Pool(2) as pool:
        runner = Runner(Hanging(seconds), workers, case.number, time_limit_seconds=1.5, pool=pool)
        results = list(runner.measure(map(case.candidate, range(ENOUGH))))
    failed = [r for r in results if isinstance(r, Failed)]
    assert failed == [Failed(case.candidate(Hanging.HANGS), "took longer than 1.5 s")]
    done = [r.execution for r in results if isinstance(r, Measured)]
    assert [e.cycles for e in done] == [i for i in range(ENOUGH) if i != Hanging.HANGS]
    assert workers <= len({e.counters["pid"] for e in done}) <= workers + 1


Span = tuple[int, int, int]
"""Process, begin and end of something."""


@dataclass(frozen=True)
class Seen:
    """Spans in which candidates were prepared and visited, and when the tuner drew one or used a
    result."""

    prepared: list[Span]
    visited: list[list[Span]]
    busy: list[int]

    @property
    def visits(self) -> list[Span]:
        """Of all candidates."""
        return [span for spans in self.visited for span in spans]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """Of many candidates over two workers."""
    found = Seen([], [], [])

    def moment(value: int) -> int:
        found.busy.append(time.monotonic_ns())
        return value

    with Pool(2) as pool:
        runner = Runner(Timestamping(), None, case.number, pool=pool)
        drawn = (case.candidate(moment(index)) for index in range(100))
        for index, result in enumerate(runner.measure(drawn)):
            assert isinstance(result, Measured) and result.execution.cycles == index
            at = result.execution.counters
            first, *others = ((at["pid"], at[f"begin{i}"], at[f"end{i}"]) for i in range(3))
            found.prepared.append(first)
            found.visited.append(others)
            moment(0)
    assert len(found.prepared) == 100
    return found


def meet(one: Span, other: Span) -> bool:
    return one[1] < other[2] and other[1] < one[2]


def test_the_tuner_rests_while_a_candidate_is_timed(seen: Seen) -> None:
    for _, begin, end in seen.visits:
        assert not [at for at in seen.busy if begin <= at <= end]


def test_nothing_is_prepared_or_timed_while_a_candidate_is_timed(seen: Seen) -> None:
    visits = seen.visits
    for number, one in enumerate(visits):
        assert not [other for other in (*visits[:number], *seen.prepared) if meet(one, other)]


def test_two_workers_prepare_side_by_side(seen: Seen) -> None:
    assert len({pid for pid, _, _ in seen.prepared}) == 2
    assert [
        one
        for number, one in enumerate(seen.prepared)
        if any(other[0] != one[0] and meet(one, other) for other in seen.prepared[:number])
    ]


def test_other_candidates_are_timed_between_the_visits_of_one(seen: Seen) -> None:
    visits = seen.visits
    for first, second in seen.visited:
        assert [other for other in visits if first[2] <= other[1] and other[2] <= second[1]]


def test_a_candidate_is_lowered_compiled_and_timed_in_the_worker() -> None:
    nests = analyse(case.GROUP)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, case.SPEC.capacity, 1)
    assert schedule is not None
    with Pool(1) as pool:
        wanted = Candidate(case.GROUP, schedule, "net")
        (result,) = Runner(NativeTarget(case.SPEC), pool=pool).measure([wanted])
    assert isinstance(result, Measured), result
    assert result.execution.counters["repeats"] >= 8
