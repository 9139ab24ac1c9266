"""Measuring gives one result per candidate in order, over any number of processes, come what may."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest

from autotune.datasets.workloads import random_graphs
from autotune.errors import InputError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.measure import attempt as attempts
from autotune.measure.measurement import Failed, Measured, Measurement
from autotune.measure.pool import Pool
from autotune.measure.process import WorkerProcess
from autotune.measure.runner import MANY, Runner, measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target
from tests.measure import measure_case as case

pytestmark = pytest.mark.slow  # starts worker processes


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(2) as pool:
        yield pool


def run(target: Target, indices: range, pool: Pool, workers: int | None = 2) -> list[Measurement]:
    runner = Runner(target, workers, case.number, pool=pool)
    return list(runner.measure(map(case.candidate, indices)))


def cycles(results: list[Measurement]) -> list[int]:
    assert all(isinstance(result, Measured) for result in results), results
    return [r.execution.cycles for r in results if isinstance(r, Measured)]


def pids(results: list[Measurement]) -> set[int]:
    return {r.execution.counters["pid"] for r in results if isinstance(r, Measured)}


def is_gone(pid: int) -> bool:
    """Whether no process has the id: it has ended and was reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def real_candidates(count: int) -> list[Candidate]:
    """Generated groups by their default schedules, and one illegal candidate in the middle."""
    out = []
    for graph in random_graphs(np.random.default_rng(3), 3 * count):
        group = Group.from_graph(graph, [op.name for op in graph.ops])
        nests = analyse(group)
        if isinstance(nests, Rejection):
            continue
        schedule = default_schedule(nests, case.SPEC.capacity, case.SPEC.cores)
        if schedule is not None:
            out.append(Candidate(group, schedule, graph.name))
    out = out[:count]
    wrong = Schedule((NestSchedule((1,), (0,), ()),) * 9)
    out.insert(count // 2, Candidate(out[0].group, wrong, "net"))
    return out


def test_workers_measure_what_this_process_measures(pool: Pool) -> None:
    candidates = real_candidates(20)
    target = EmulatorTarget(case.SPEC)
    here = list(measure(target, candidates, workers=1))
    there = list(Runner(target, 2, pool=pool).measure(candidates))
    assert here == there
    assert [r.candidate for r in here] == candidates
    failed = [r for r in here if isinstance(r, Failed)]
    assert [r.candidate for r in failed] == [candidates[10]]
    assert "9 nests" in failed[0].reason


def test_a_derated_emulator_is_measured_as_it_is_at_the_time(pool: Pool) -> None:
    candidates = real_candidates(6)
    target = EmulatorTarget(case.SPEC)
    runner = Runner(target, 2, pool=pool)
    before = list(runner.measure(candidates))
    target.derate(dram_bandwidth=0.3)
    after = list(runner.measure(candidates))
    assert after == list(measure(target, candidates, workers=1)) != before
    target.derate(dram_bandwidth=1.0)
    assert list(runner.measure(candidates)) == before


@pytest.mark.parametrize("length", [0, 1, 31, 500])
def test_results_come_in_order(pool: Pool, length: int) -> None:
    results = run(case.Counting(), range(length), pool)
    assert cycles(results) == list(range(length))
    assert [r.candidate for r in results] == [case.candidate(i) for i in range(length)]


def test_slow_candidates_do_not_change_the_order(pool: Pool) -> None:
    target = case.Counting({0: 0.3, 7: 0.1})
    assert cycles(run(target, range(100), pool)) == list(range(100))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_illegal_candidate_or_a_defect_fails_alone(pool: Pool, workers: int) -> None:
    runner = Runner(case.Counting(), workers, case.refusing, pool=pool)
    for i, result in enumerate(runner.measure(map(case.candidate, range(40)))):
        match result:
            case Failed(reason=reason) if i % 3 == 0:
                assert reason == f"candidate {i} is not legal"
            case Failed(reason=reason):
                assert i % 5 == 0 and reason.startswith("defect in lowering: IndexError")
            case Measured():
                assert i % 3 and i % 5


@pytest.mark.parametrize("workers", [1, 2])
def test_a_defect_is_reported_once_by_each_process_with_its_traceback(
    workers: int,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "_REPORTED", set())
    with Pool(2) as pool:
        runner = Runner(case.Counting(), workers, case.refusing, pool=pool)
        assert len(list(runner.measure(map(case.candidate, range(40))))) == 40
    printed = capfd.readouterr().err + caplog.text  # of the worker, and of this process
    assert 1 <= printed.count("Traceback (most recent call last)") <= workers
    assert "IndexError: list index out of range" in printed and "in refusing" in printed


def test_a_worker_that_dies_fails_its_candidate_and_the_rest_goes_on(pool: Pool) -> None:
    target = case.Counting({3: signal.SIGSEGV, 40: signal.SIGKILL, 41: "7"})
    results = run(target, range(80), pool)
    failed = {i: r.reason for i, r in enumerate(results) if isinstance(r, Failed)}
    assert list(failed) == [3, 40, 41]
    assert failed[3].endswith("died: SIGSEGV")
    assert failed[40].endswith("died: SIGKILL (out of memory?)")
    assert failed[41].endswith("died: exit code 7")
    assert cycles([r for r in results if isinstance(r, Measured)]) == [
        i for i in range(80) if i not in failed
    ]


def test_results_that_wait_for_a_slow_candidate_are_bounded_and_the_rest_is_not_run_here(
    pool: Pool,
) -> None:
    target = case.Counting({0: 1.0, 1: signal.SIGSEGV, 2: signal.SIGSEGV})
    results = run(target, range(3000), pool)
    assert [i for i, r in enumerate(results) if isinstance(r, Failed)] == [1, 2]
    assert os.getpid() not in pids(results)


def test_a_candidate_that_takes_too_long_fails(pool: Pool) -> None:
    target = case.Counting({2: 60.0})
    runner = Runner(target, 2, case.number, time_limit_seconds=0.5, pool=pool)
    results = list(runner.measure(map(case.candidate, range(9))))
    assert [i for i, r in enumerate(results) if isinstance(r, Failed)] == [2]
    assert results[2] == Failed(case.candidate(2), "took longer than 0.5 s")


def test_workers_are_kept_from_run_to_run_and_end_with_the_pool() -> None:
    with Pool(2) as pool:
        first = pids(run(case.Counting(), range(200), pool))
        assert pids(run(case.Counting(), range(200), pool)) <= first
        assert os.getpid() not in first and pool.warm
    assert all(map(is_gone, first)) and not pool.warm


def test_a_worker_that_died_while_idle_is_replaced() -> None:
    with Pool(2) as pool:
        for pid in pids(run(case.Counting(), range(100), pool)):
            os.kill(pid, signal.SIGKILL)
        assert cycles(run(case.Counting(), range(100), pool)) == list(range(100))


def test_few_candidates_of_an_emulator_stay_in_this_process_and_many_do_not() -> None:
    machine = case.Emulating()
    with Pool(2) as pool:
        few = run(machine, range(MANY - 1), pool, None)
        assert pids(few) == {os.getpid()} and not pool.warm
        assert os.getpid() not in pids(run(machine, range(MANY), pool, None))


def test_few_candidates_of_an_emulator_that_take_long_go_to_workers(pool: Pool) -> None:
    machine = case.Emulating(dict.fromkeys(range(6), 0.3))
    assert len(pids(run(machine, range(6), pool, None))) >= 2
    assert cycles(run(machine, range(6), pool, None)) == list(range(6))


def test_a_target_that_may_hang_or_crash_never_runs_in_this_process(pool: Pool) -> None:
    assert os.getpid() not in pids(run(case.Counting(), range(2), pool, None))


@pytest.mark.parametrize("target", [case.Locked(), types.SimpleNamespace()])
def test_a_target_that_workers_cannot_load_is_measured_here(pool: Pool, target: object) -> None:
    if not isinstance(target, case.Locked):
        module = types.ModuleType("not_on_any_path")
        hidden = type("Hidden", (case.Counting,), {"__module__": "not_on_any_path"})
        vars(module)["Hidden"] = hidden
        sys.modules["not_on_any_path"] = module
        target = hidden()
    results = run(target, range(90), pool)
    assert cycles(results) == list(range(90)) and pids(results) == {os.getpid()}


def test_without_processes_to_be_had_measuring_goes_on_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> WorkerProcess:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(WorkerProcess, "start", refuse)
    with Pool(2) as pool:
        assert pids(run(case.Counting(), range(90), pool)) == {os.getpid()}


def test_workers_that_cannot_start_leave_the_work_to_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autotune.measure.process._PROGRAM", "raise SystemExit(3)")
    with Pool(2) as pool:
        results = run(case.Counting(), range(90), pool)
    assert cycles(results) == list(range(90)) and pids(results) == {os.getpid()}


def test_an_endless_stream_is_drawn_only_a_little_ahead(pool: Pool) -> None:
    drawn = count()
    runner = Runner(case.Counting(), 2, case.number, pool=pool)
    results = runner.measure(case.candidate(next(drawn)) for _ in count())
    assert cycles(list(islice(results, 300))) == list(range(300))
    results.close()  # type: ignore[attr-defined]
    assert next(drawn) < 300 + 2000


def test_closing_early_ends_what_is_being_measured() -> None:
    with Pool(2) as pool:
        target = case.Counting(dict.fromkeys(range(40, 90), 60.0))
        results = Runner(target, 2, case.number, pool=pool).measure(map(case.candidate, range(90)))
        busy = pids([next(results)])
        results.close()  # type: ignore[attr-defined]
        assert not pool._lent
        assert all(is_gone(pid) for pid in busy - {worker.pid for worker in pool._idle})
        assert cycles(run(case.Counting(), range(50), pool)) == list(range(50))


def test_what_the_stream_raises_reaches_the_caller_after_nothing_is_left_running() -> None:
    def broken() -> Iterator[Candidate]:
        yield from map(case.candidate, range(400))
        raise LookupError("no more")

    with Pool(2) as pool:
        results = Runner(case.Counting(), 2, case.number, pool=pool).measure(broken())
        with pytest.raises(LookupError):
            list(results)
        assert not pool._lent


def test_two_threads_measure_at_once(pool: Pool) -> None:
    seen: dict[int, list[int]] = {}

    def work(factor: int) -> None:
        target = case.Counting()
        target.factor = factor
        seen[factor] = cycles(run(target, range(150), pool))

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {factor: [factor * i for i in range(150)] for factor in (2, 3)}
    assert len(pool._idle) <= 2 and not pool._lent


def test_a_worker_count_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="workers = 0"):
        measure(case.Counting(), [], workers=0)
