"""The collector rests while a network is opened, and is afterwards as it was."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from autotune.errors import PlanError
from autotune.runtime.execution import collector_pause
from autotune.runtime.execution.collector_pause import pause_collector
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_rests_until_the_last_has_ended() -> None:
    with pause_collector():
        with pause_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    with pytest.raises(PlanError), pause_collector():
        raise PlanError("no")
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    with pause_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_it_works_again_when_several_threads_have_ended_in_any_order() -> None:
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            with pause_collector():
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.own = self


@pytest.mark.parametrize("is_on", [True, False])
def test_long_work_lets_it_find_garbage_now_and_then(
    is_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_pause, "BREATH_SECONDS", 0.0)
    if not is_on:
        gc.disable()
    with pause_collector() as breathe:
        ring = weakref.ref(Ring())
        assert ring() is not None
        breathe()
        assert (ring() is None) == is_on, "a collector that a user switched off stays off"
        assert not gc.isenabled()


def test_short_work_is_not_stopped() -> None:
    with pause_collector() as breathe:
        ring = weakref.ref(Ring())
        breathe()
        assert ring() is not None


def test_a_session_leaves_it_on() -> None:
    with Session(case.network(), target="cpu", threads=1) as session:
        assert gc.isenabled()
        session.run(case.inputs(session.graph))


def test_what_a_learning_session_made_is_looked_through_before_its_first_request_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The collector looks at all objects once a quarter more have become old: never beside requests because of us."""
    looks: list[int] = []
    collect = gc.collect

    def look(generation: int = 2) -> int:
        looks.append(generation)
        return collect(generation)

    network = case.network()
    with Session(network, target="cpu", threads=1, online=True):
        pass  # what it imports the first time may have the collector look
    monkeypatch.setattr(gc, "collect", look)
    for most_new, times in ((-1.0, 1), (10.0, 0)):
        looks.clear()
        monkeypatch.setattr(collector_pause, "MOST_NEW", most_new)
        with Session(network, target="cpu", threads=1):
            assert not looks, "it only runs"
        with Session(network, target="cpu", threads=1, online=True):
            assert looks == times * [2]
    looks.clear()
    gc.disable()
    monkeypatch.setattr(collector_pause, "MOST_NEW", -1.0)
    with Session(network, target="cpu", threads=1, online=True):
        assert not looks, "it is off"


def test_it_looks_at_what_was_made_since_it_last_did(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [[x] for x in range(len(gc.get_objects()))]
    looks: list[int] = []
    with collector_pause.collect_before_requests():
        made += [[x] for x in range(len(made))]
        gc.collect()
        monkeypatch.setattr(gc, "collect", lambda: looks.append(2))
    assert not looks, "it has just looked"
    with collector_pause.collect_before_requests(), pause_collector():
        made += [[x] for x in range(len(made))]
    assert looks == [2]
