"""Measuring over a real scheduler and four worker processes on loopback, which are killed at random."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autotune.measure.cluster.cluster import Cluster
from autotune.measure.measurement import Failed, Measured
from autotune.measure.runner import Runner, Workers
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, target
from autotune.tuner import bulk
from autotune.tuner.bulk import MANY, rank_all
from autotune.tuner.calibrate import CalibrationResult, calibrate
from autotune.tuner.machines.search_point import model_of
from autotune.tuner.objective import Objective
from autotune.tuner.progress import Progress
from autotune.tuner.ranking import QUICK, Ranking
from tests.measure import measure_case as case
from tests.measure.test_runner import real_candidates

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow  # starts a scheduler and worker processes

EDGE = EmulatorTarget(load_spec("edge"))
BUDGET = 240
WORKERS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four workers whose leases are not those of other clusters of this machine."""
    folder = str(tmp_path_factory.mktemp("leases"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr("tempfile.tempdir", folder)
        with Cluster.open(WORKERS) as cluster:
            yield cluster


def pids(cluster: Cluster) -> list[int]:
    return sorted(cluster.client.run(os.getpid, on_error="ignore").values())


def calibrated(
    path: Path, workers: Workers, progress: Progress | None = None
) -> tuple[CalibrationResult, Store]:
    store = Store.open(path)
    result = calibrate(EDGE, budget=BUDGET, seed=5, store=store, workers=workers, progress=progress)
    return result, store


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[tuple[str, str], int]]:
    """The model of a single process, and its cycles by candidate."""
    result, store = calibrated(tmp_path_factory.mktemp("alone") / "autotune.db", 1)
    with store:
        return result.model.to_bytes(), cycles(store)


def cycles(store: Store) -> dict[tuple[str, str], int]:
    records = store.records(EDGE.spec.profile_id)
    found = {(one.group_key, one.schedule_json): one.cycles for one in records}
    assert len(found) == len(records), "a measurement is stored twice"
    return found


def test_workers_killed_at_random_lose_and_double_nothing(
    cluster: Cluster, tmp_path: Path, alone: tuple[bytes, dict[tuple[str, str], int]]
) -> None:
    rng = np.random.default_rng(7)
    deaths = {int(at) for at in rng.choice(BUDGET - 40, 3, replace=False)}

    def strike(stage: str, done: int, total: int) -> None:
        if stage == "measure" and done in deaths:
            deaths.discard(done)
            os.kill(int(rng.choice(pids(cluster))), signal.SIGKILL)

    result, store = calibrated(tmp_path / "autotune.db", cluster, strike)
    with store:
        assert not deaths and result.measured == BUDGET and result.failed == 0
        assert cycles(store) == alone[1]
        assert result.model.to_bytes() == alone[0]


def test_an_interrupted_run_goes_on_from_the_store(
    cluster: Cluster, tmp_path: Path, alone: tuple[bytes, dict[tuple[str, str], int]]
) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "measure" and done == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrated(tmp_path / "autotune.db", cluster, interrupt)
    result, store = calibrated(tmp_path / "autotune.db", cluster)
    with store:
        assert (result.known_before, result.measured) == (100, BUDGET - 100)
        assert cycles(store) == alone[1] and result.model.to_bytes() == alone[0]


def test_a_second_coordinator_shares_the_scheduler_by_its_address(cluster: Cluster) -> None:
    candidates = real_candidates(20)
    here = list(Runner(EDGE, 1).measure(candidates))
    with Cluster.open(cluster.client.scheduler.address) as second:
        assert list(Runner(EDGE, second).measure(candidates)) == here
        assert any(isinstance(one, Failed) for one in here)  # the illegal one, with its reason


def test_workers_rank_schedules_as_this_process_does(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PORTION", MANY)  # few workers load the model, which takes long
    ranking = Ranking(model_of(EDGE.spec), EDGE.spec, Objective.LATENCY, 0)
    groups = {one.group.key: one.group for one in real_candidates(8)}.values()
    jobs = [(group, QUICK, None) for group in groups] * (MANY // len(groups) + 1)
    here, there = rank_all(ranking, jobs, 1), rank_all(ranking, jobs, cluster)
    assert [r.schedules for r in here] == [r.schedules for r in there]


def test_a_crash_costs_one_candidate_and_no_worker(cluster: Cluster) -> None:
    machine = case.Counting({3: signal.SIGSEGV, 40: "7"})
    before = pids(cluster)
    runner = Runner(machine, cluster, case.number)
    results = list(runner.measure(map(case.candidate, range(80))))
    failed = {i: one.reason for i, one in enumerate(results) if isinstance(one, Failed)}
    assert list(failed) == [3, 40]
    assert failed[3].endswith("died: SIGSEGV") and failed[40].endswith("died: exit code 7")
    assert pids(cluster) == before


def test_a_worker_that_stands_still_holds_nobody(cluster: Cluster) -> None:
    cluster.client.wait_for_workers(WORKERS, timeout=60)  # those killed before come again
    stopped = pids(cluster)[0]
    runner = Runner(EDGE, cluster, clock=lambda: 20.0 * time.monotonic())  # late in a second
    candidates = real_candidates(60)
    os.kill(stopped, signal.SIGSTOP)
    try:
        results = list(runner.measure(candidates))
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert [one.candidate for one in results] == candidates


def test_a_timed_machine_is_measured_by_one_worker_of_this_one(cluster: Cluster) -> None:
    cpu = target("cpu:1")
    results = list(Runner(cpu, cluster).measure(real_candidates(3)))
    assert sum(isinstance(one, Measured) for one in results) >= 1
    assert len(cluster.require(cpu)) == 1
