"""What parts told stays when they go, once and not without end. Background work gives way to runs by numpy."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from autotune.errors import AutotuneError
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.session import part
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.part import EVENTS_KEPT, Runs, SessionPart
from autotune.runtime.session.session import Session
from tests.runtime.session.test_dynamic import LAYERS, saved


def event(number: int) -> Event:
    return Event(EventKind.RETRAINED, number, float(number), "learned", {})


class Told:
    """A session that only tells."""

    def __init__(self, *events: Event, failure: AutotuneError | None = None) -> None:
        self.events, self.failure = events, failure

    def close(self) -> None:
        if self.failure is not None:
            raise self.failure


def test_parts_without_end_leave_the_newest_of_their_events() -> None:
    runs = Runs()
    for i in range(0, 3 * EVENTS_KEPT, 2):
        SessionPart(Told(event(i), event(i + 1)), runs).close()
    assert [one.run for one in runs.told] == list(range(2 * EVENTS_KEPT, 3 * EVENTS_KEPT))


def test_a_part_whose_learning_failed_is_told_of_too() -> None:
    runs = Runs()
    with pytest.raises(AutotuneError, match="no room"):
        SessionPart(Told(event(1), failure=AutotuneError("no room")), runs).close()
    assert runs.told == (event(1),)


def test_an_event_of_a_part_that_is_just_going_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(saved(tmp_path, LAYERS), "cpu:1") as session:
        network = session._network
        assert isinstance(network, DynamicSession)
        runs = network._runs

        class Going:
            """Goes right after it was asked."""

            @property
            def events(self) -> tuple[Event, ...]:
                runs.tell([event(1)])
                return (event(1),)

        monkeypatch.setattr(DynamicSession, "_parts", lambda self, wait: {"going": Going()})
        assert session.events == (event(1),)


def waiter(runs: Runs) -> tuple[threading.Thread, threading.Event]:
    """Background work that gives way once, and says when it goes on."""
    goes_on = threading.Event()

    def work() -> None:
        runs.give_way()
        goes_on.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, goes_on


def test_background_work_waits_for_the_run_under_way_and_not_for_the_next() -> None:
    runs = Runs()
    runs.give_way()  # nothing runs
    with runs.by_numpy():
        thread, goes_on = waiter(runs)
        assert not goes_on.wait(0.05)
        with runs.by_numpy():  # another thread's, which ends first
            pass
        assert goes_on.wait(30)
    thread.join()


def test_a_failed_run_counts_as_ended_and_no_run_holds_the_work_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs()
    with pytest.raises(ValueError, match="no"), runs.by_numpy():
        raise ValueError("no")
    runs.give_way()
    monkeypatch.setattr(part, "GIVE_WAY_SECONDS", 1e-3)
    with runs.by_numpy():
        runs.give_way()
