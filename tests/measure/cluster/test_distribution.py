"""One result per candidate whatever becomes of workers: a scripted cluster, no processes, no waiting."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from autotune.errors import TargetError
from autotune.measure.batching import BATCH
from autotune.measure.cluster import distribution
from autotune.measure.cluster.distribution import Distribution
from autotune.measure.measurement import Failed, FailureKind, Measured, Measurement
from autotune.measure.runner import Runner
from tests.measure import measure_case as case

pytest.importorskip("distributed")
from tests.measure.cluster.stand_in import KILLED, LOST, REMAINS, StandIn


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "LOOK_SECONDS", 0.0)


def over(cluster: object, count: int) -> Generator[tuple[int, Measurement], None, None]:
    ticks = itertools.count()
    yield from Distribution(
        cluster,
        case.Emulating(),
        map(case.candidate, range(count)),
        case.number,
        lambda _: 60.0,
        clock=lambda: float(next(ticks)),  # every look at it is a second later
    ).run()


def costs(results: Iterator[tuple[int, Measurement]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for place, result in results:
        assert place not in found and isinstance(result, Measured)
        found[place] = result.execution.cycles
    return found


@pytest.mark.parametrize("count", [0, 1, 31, 500])
def test_every_candidate_has_its_own_result(count: int) -> None:
    assert costs(over(StandIn(), count)) == {place: place for place in range(count)}


def test_jobs_are_full_while_candidates_come_and_small_at_the_end() -> None:
    cluster = StandIn(names=("a", "b", "c", "d"))
    costs(over(cluster, 400))
    sizes = [len(run.job.limits_seconds) for run in cluster.runs]
    assert max(sizes) == sizes[0] == BATCH and sizes[-1] == 1


def test_at_most_a_few_jobs_per_worker_are_under_way() -> None:
    cluster = StandIn(dict.fromkeys(range(3), REMAINS))
    results = over(cluster, 500)
    next(results)
    assert len(cluster.runs) == 4 == distribution.DEPTH * len(cluster.names)


def test_a_job_that_never_ends_holds_nobody_and_its_copy_counts_once() -> None:
    cluster = StandIn({1: REMAINS})
    assert costs(over(cluster, 300)) == {place: place for place in range(300)}
    straggler = cluster.runs[1]
    copies = [run for run in cluster.runs if run.job == straggler.job and run is not straggler]
    assert [copy.worker for copy in copies] == [{"a": "b", "b": "a"}[straggler.worker]]
    assert cluster.cancelled == [straggler]


def test_the_first_of_two_runs_counts_and_the_other_is_not_taken() -> None:
    cluster = StandIn({1: REMAINS})
    found: dict[int, int] = {}
    for place, result in over(cluster, 300):
        assert place not in found and isinstance(result, Measured)
        found[place] = result.execution.cycles
        straggler = cluster.runs[1]
        if cluster.runs[-1].job == straggler.job and straggler.status == "pending":
            straggler.end("finished")  # it comes back as well
    assert len(found) == 300


def test_jobs_of_a_worker_that_is_lost_run_elsewhere() -> None:
    cluster = StandIn({0: REMAINS, 2: REMAINS})
    results = over(cluster, 300)
    found = dict([next(results)])
    lost = cluster.runs[0].worker
    cluster.names.remove(lost)
    found |= dict(results)
    assert len(found) == 300
    assert {run.worker for run in cluster.runs[4:]} == {"b" if lost == "a" else "a"}


def test_results_that_a_worker_does_not_give_are_asked_for_again() -> None:
    cluster = StandIn()
    results = over(cluster, 300)
    found = dict([next(results)])
    for run in cluster.runs[1:]:
        run.unfetched = 2
    assert len(found | dict(results)) == 300


def test_a_new_worker_gets_jobs() -> None:
    cluster = StandIn(names=("a",))
    results = over(cluster, 400)
    found = dict([next(results)])
    cluster.names.append("late")
    found |= dict(results)
    assert len(found) == 400 and "late" in {run.worker for run in cluster.runs}


def test_a_job_that_several_workers_are_lost_with_goes_on_one_by_one() -> None:
    # the first job goes to the head of the queue again, and is lost whenever it runs
    cluster = Deadly(0)
    results = dict(over(cluster, 256))
    failed = {place: one for place, one in results.items() if isinstance(one, Failed)}
    assert len(results) == 256 and list(failed) == [0]
    assert failed[0].kind is FailureKind.DIED and "4 workers were lost" in failed[0].reason
    assert cluster.deaths == 2 * (distribution.LIVES + 1)


class Deadly(StandIn):
    """Workers are lost with every job that holds a candidate."""

    def __init__(self, candidate: int) -> None:
        super().__init__()
        self.candidate = case.candidate(candidate)
        self.deaths = 0

    def submit(
        self, work: Any, job: Any, key: str, wanted: Any, worker: str | None, priority: int = 0
    ) -> Any:
        """Take a job; it dies with the candidate."""
        if self.candidate in pickle.loads(job.batch.work)[1]:
            self.fates[len(self.runs)] = KILLED
            self.deaths += 1
        return super().submit(work, job, key, wanted, worker)


def test_a_scheduler_that_is_gone_ends_the_run_in_one_line() -> None:
    results = over(StandIn({2: LOST}), 500)
    with pytest.raises(TargetError, match="is stored: start them and run the command again"):
        list(results)


def test_a_run_without_workers_ends_after_a_while() -> None:
    cluster = StandIn(dict.fromkeys(range(9), REMAINS))
    results = over(cluster, 100)
    cluster.fitting = lambda wanted: ()
    with pytest.raises(TargetError, match="no worker that fits is left for 60 s"):
        list(results)
    assert len(cluster.cancelled) == len(cluster.runs)


def test_closing_a_run_gives_up_what_is_under_way() -> None:
    cluster = StandIn({1: REMAINS})
    results = over(cluster, 300)
    next(results)
    results.close()
    assert cluster.runs[1] in cluster.cancelled


def test_a_runner_gives_results_in_order_or_as_they_come() -> None:
    candidates = [case.candidate(i) for i in range(200)]

    def runner() -> Runner:
        ticks = itertools.count()
        cluster = StandIn({0: REMAINS})
        clock = lambda: float(next(ticks))  # noqa: E731
        return Runner(case.Emulating(), cluster, case.number, clock=clock)

    assert [one.candidate for one in runner().measure(candidates)] == candidates
    arrived = [place for place, _ in runner().arrivals(candidates)]
    assert sorted(arrived) == list(range(200)) != arrived


def test_a_target_that_cannot_travel_is_measured_here() -> None:
    cluster = StandIn()
    runner = Runner(case.Locked(), cluster, case.number)
    assert len(list(runner.measure(map(case.candidate, range(9))))) == 9
    assert not cluster.runs
