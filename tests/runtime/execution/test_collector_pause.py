"""The collector rests while a network is opened, and is afterwards as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from autotune.errors import PlanError
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


def test_a_session_leaves_it_on() -> None:
    with Session(case.network(), target="cpu", threads=1) as session:
        assert gc.isenabled()
        session.run(case.inputs(session.graph))
