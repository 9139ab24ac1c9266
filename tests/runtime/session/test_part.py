"""Background work gives way to runs by numpy: it waits for the one under way, and for no other."""

from __future__ import annotations

import threading

import pytest

from autotune.runtime.session import part
from autotune.runtime.session.part import Runs


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
