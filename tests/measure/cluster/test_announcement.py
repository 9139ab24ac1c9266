"""What workers announce, what targets need, and why a job fits nowhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from autotune.errors import TargetError
from autotune.measure.cluster import announcement
from autotune.measure.cluster.announcement import (
    MISSING,
    SEAT,
    announce,
    needs,
    resources,
    this_code,
    timed,
)
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.cluster.place import Place
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.detection import detect
from autotune.targets.opening import load_spec, target
from autotune.targets.plugins.model_target import ModelTarget

EDGE = EmulatorTarget(load_spec("edge"))
OTHER = "autotune 0.0.9-12345678"


class Client:
    """Stands in for Dask's: workers with resources."""

    def __init__(self, *workers: dict[str, float]) -> None:
        self.workers = {f"tcp://w{i}:1": {"resources": has} for i, has in enumerate(workers)}
        self.scheduler = self
        self.address = "tcp://s:1"

    def scheduler_info(self) -> dict[str, Any]:
        """What Dask tells of its workers."""
        return {"workers": self.workers}


def cluster(*workers: dict[str, float]) -> Cluster:
    return Cluster(Client(*workers), Place.parse("tcp://s:1"))


@pytest.fixture
def seat(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    free = [True]
    monkeypatch.setattr(SEAT, "take", lambda: free[0])
    return free


def test_an_emulated_machine_needs_the_code_and_a_timed_one_its_profile(seat: list[bool]) -> None:
    cpu = target("cpu:1")
    assert needs(EDGE) == {this_code(): 1}
    assert needs(cpu) == {this_code(): 1, timed(cpu.spec.profile_id): 1}
    function = ModelTarget("mine", lambda model: 1.0)
    every_core = detect.profile_of(detect.default_threads())
    assert needs(function) == {this_code(): 1, timed(every_core): 1}
    assert all(needs(one).items() <= resources().items() for one in (EDGE, cpu, function))
    seat[0] = False
    assert resources() == {this_code(): 1}


def test_profiles_are_those_of_the_measured_machine() -> None:
    for threads in range(1, detect.default_threads() + 1):
        assert detect.profile_of(threads) == load_spec(f"cpu:{threads}").profile_id


def test_a_worker_without_the_seat_takes_it_when_it_is_left(
    seat: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcement, "SEAT_SECONDS", 0.01)
    told: list[dict[str, float]] = []
    heard = asyncio.Event()

    class Worker:
        periodic_callbacks: dict[str, Any] = {}  # noqa: RUF012

        async def set_resources(self, **has: float) -> None:
            """Take in what the worker announces."""
            told.append(has)
            if len(told) == 2:
                heard.set()

    async def join() -> None:
        seat[0] = False
        await announce(Worker())
        seat[0] = True
        await asyncio.wait_for(heard.wait(), 60)

    asyncio.run(join())
    assert told[0] == {this_code(): 1} and told[1] == resources() != told[0]


@pytest.mark.parametrize(
    ("workers", "machine", "says"),
    [
        ([{MISSING: 1}], "edge", "1 cannot import autotune"),
        ([{OTHER: 1}, {OTHER: 1, f"{OTHER} times ab": 1}], "edge", f"2 run {OTHER}, this is"),
        ([{OTHER: 1}], "edge", "install the same autotune everywhere"),
        ([{"x": 1, this_code(): 1}], "cpu:1", "1 have no CPU of hardware profile"),
        (
            [{this_code(): 1, timed("feed"): 1}, {MISSING: 1}],
            "cpu:1",
            "1 cannot import autotune; 1",
        ),
    ],
)
def test_a_target_that_no_worker_can_measure_is_told_in_one_line(
    workers: list[dict[str, float]], machine: str, says: str
) -> None:
    with pytest.raises(TargetError) as refusal:
        cluster(*workers).require(target(machine))
    assert says in str(refusal.value) and "\n" not in str(refusal.value)
    assert str(refusal.value).startswith(f"tcp://s:1: none of its {len(workers)} workers")


def test_jobs_go_where_they_fit() -> None:
    cpu = target("cpu:1")
    able = {this_code(): 1, timed(cpu.spec.profile_id): 1}
    there = cluster({OTHER: 1}, {this_code(): 1}, able, {}, {this_code(): 1})
    assert there.fitting(needs(cpu)) == ("tcp://w2:1",)
    assert len(there.require(EDGE)) == there.size == 3


def test_workers_that_have_not_announced_yet_are_waited_for() -> None:
    there = cluster({}, {})
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            there.client.workers["tcp://w1:1"]["resources"][this_code()] = 1

    assert there.require(EDGE, nap) == ("tcp://w1:1",) and len(naps) == 3


def test_nobody_is_waited_for_without_end() -> None:
    with pytest.raises(
        TargetError, match="no worker has come in 60 s; start one with 'dask worker"
    ):
        cluster({}).require(EDGE, lambda _: None)
