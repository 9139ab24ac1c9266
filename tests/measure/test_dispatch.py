"""A run goes on whenever its workers die, and times one's batch while all others have started and wait."""

from __future__ import annotations

import threading

import pytest

from autotune.measure.batching import tensor_bytes
from autotune.measure.dispatch import Dispatch
from autotune.measure.measurement import Failed, Measured, Measurement
from tests.measure import measure_case as case
from tests.measure.scripted_worker import Alone, Fate, ScriptedPool

GUARD_SECONDS = 30
"""Against a hang; a busy machine may take its time."""


def measured(pool: ScriptedPool, count: int, workers: int) -> list[Measurement]:
    """What comes of so many candidates; fails when it takes for ever."""
    found: list[Measurement] = []
    candidates = map(case.candidate, range(count))
    dispatch = Dispatch(Alone(), candidates, case.number, pool, workers, lambda _: GUARD_SECONDS)
    thread = threading.Thread(target=lambda: found.extend(dispatch.run()), daemon=True)
    thread.start()
    thread.join(GUARD_SECONDS)
    assert not thread.is_alive(), "it hangs"
    return found


def cycles(results: list[Measurement]) -> list[int | None]:
    return [r.execution.cycles if isinstance(r, Measured) else None for r in results]


@pytest.mark.parametrize("behind", [[], [Fate.WORKS], [Fate.WARM], [Fate.DEAF, Fate.WARM]])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_died_when_it_is_to_time_leaves_its_batch_to_others(
    workers: int, behind: list[Fate]
) -> None:
    pool = ScriptedPool([Fate.DEAF] * workers + behind)
    assert cycles(measured(pool, 20, workers)) == list(range(20))


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_workers_that_die_at_the_same_time_leave_the_work_to_this_process(
    monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    monkeypatch.setattr("autotune.measure.dispatch.LOSSES", losses)
    pool = ScriptedPool([Fate.ENDED] * 9)
    assert cycles(measured(pool, 40, 3)) == list(range(40))


def test_nobody_times_while_a_worker_starts_in_place_of_one_that_died() -> None:
    pool = ScriptedPool([Fate.WORKS, Fate.CRASHES, Fate.LATE])
    results = measured(pool, 12, 2)
    assert [r.candidate for r in results if isinstance(r, Failed)] == [case.candidate(0)]
    assert cycles(results)[1:] == list(range(1, 12))
    told = [event for event in pool.log if event[0] in ("go", "ready")]
    assert told[:5] == [("ready", 0), ("ready", 1), ("go", 1), ("ready", 2), ("go", 0)]


def test_a_worker_that_cannot_start_in_place_of_one_that_died_is_not_waited_for() -> None:
    pool = ScriptedPool([Fate.WORKS, Fate.CRASHES, Fate.BROKEN])
    assert cycles(measured(pool, 12, 2)) == [None, *range(1, 12)]
    assert not pool.fates, "the one in place was asked for"


def test_a_round_prepares_no_more_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.measure.batching.BATCH_ALONE_BYTES", 3 * tensor_bytes(case.GROUP))
    pool = ScriptedPool([Fate.WORKS] * 2)
    assert cycles(measured(pool, 20, 2)) == list(range(20))
    sizes = [int(what.split()[-1]) for what, _ in pool.log if what.startswith("batch")]
    assert sum(sizes) == 20 and max(sizes) == 3
