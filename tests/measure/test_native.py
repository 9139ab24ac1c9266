"""This machine is measured by one process at a time, which may crash without harm."""

from __future__ import annotations

import os
import time

import measure_case as case
import numpy as np
import pytest
from crashing_target import Crashing, write_to
from timestamping_target import Timestamping

from autotune.fusion.analysis import analyse
from autotune.fusion.nest import Rejection
from autotune.measure.measurement import Failed, Measured
from autotune.measure.pool import Pool
from autotune.measure.runner import Runner
from autotune.schedule.candidate import Candidate
from autotune.schedule.rule import default_schedule
from autotune.targets.native.host import available
from autotune.targets.native.target import NativeTarget

pytestmark = [
    pytest.mark.slow,  # starts worker processes
    pytest.mark.skipif(not available(), reason="llvmlite is not installed"),
]


def test_the_code_that_crashes_below_writes_where_it_is_told() -> None:
    place = np.zeros(1, np.float32)
    write_to(place.ctypes.data)
    assert place[0] == 1.0


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("workers", [None, 1, 2])
def test_generated_code_that_crashes_fails_its_candidate_alone(
    workers: int | None, early: bool
) -> None:
    with Pool(2) as pool:
        runner = Runner(Crashing(early), workers, case.number, pool=pool)
        results = list(runner.measure(map(case.candidate, range(8))))
    failed = {i: r.reason for i, r in enumerate(results) if isinstance(r, Failed)}
    assert list(failed) == [Crashing.CRASHES]
    assert failed[Crashing.CRASHES].endswith("died: SIGSEGV")
    done = [r.execution for r in results if isinstance(r, Measured)]
    assert [execution.cycles for execution in done] == [0, 1, 2, 4, 5, 6, 7]
    by_worker = [execution.counters["pid"] for execution in done]
    assert os.getpid() not in by_worker
    assert len(set(by_worker)) <= 2, "one worker until the crash, one behind it"


@pytest.fixture(scope="module")
def timestamps() -> tuple[list[dict[str, int]], list[int]]:
    """When each of many candidates was prepared and timed by two workers, and when the tuner drew
    one or used a result."""
    busy: list[int] = []

    def moment(value: int) -> int:
        busy.append(time.monotonic_ns())
        return value

    with Pool(2) as pool:
        runner = Runner(Timestamping(), None, case.number, pool=pool)
        drawn = (case.candidate(moment(index)) for index in range(100))
        found = []
        for index, result in enumerate(runner.measure(drawn)):
            assert isinstance(result, Measured) and result.execution.cycles == index
            found.append(dict(result.execution.counters))
            moment(0)
    assert len(found) == 100
    return found, busy


def test_the_tuner_rests_while_a_candidate_is_timed(
    timestamps: tuple[list[dict[str, int]], list[int]],
) -> None:
    found, busy = timestamps
    for one in found:
        assert not [at for at in busy if one["begin"] <= at <= one["end"]]


def test_two_workers_prepare_side_by_side_and_neither_does_anything_while_one_times(
    timestamps: tuple[list[dict[str, int]], list[int]],
) -> None:
    found, _ = timestamps
    assert len({one["pid"] for one in found}) == 2
    for one in found:
        others = [x for x in found if x is not one]
        assert not [x for x in others if x["begin"] < one["end"] and one["begin"] < x["end"]]
        assert not [
            x for x in others if x["prepare_begin"] < one["end"] and one["begin"] < x["prepare_end"]
        ]
    beside = [
        one
        for one in found
        if any(
            x["pid"] != one["pid"]
            and x["prepare_begin"] < one["prepare_end"]
            and one["prepare_begin"] < x["prepare_end"]
            for x in found
        )
    ]
    assert beside


def test_a_candidate_is_lowered_compiled_and_timed_in_the_worker() -> None:
    nests = analyse(case.GROUP)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, case.SPEC.scratchpad_elements, 1)
    assert schedule is not None
    with Pool(1) as pool:
        wanted = Candidate(case.GROUP, schedule, "net")
        (result,) = Runner(NativeTarget(case.SPEC), pool=pool).measure([wanted])
    assert isinstance(result, Measured), result
    assert result.execution.counters["repeats"] >= 5
