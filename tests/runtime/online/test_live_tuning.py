"""Tuning survives whatever its steps raise, and looks ever more rarely while there is nothing to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from autotune.errors import AutotuneError
from autotune.runtime.execution.event import EventKind
from autotune.runtime.online import live_tuning
from autotune.runtime.online.live_tuning import LiveTuning
from autotune.runtime.online.looks import Looks
from autotune.runtime.online.pace import HERE


class Nothing:
    """Stands in for what serves and for what proposes."""

    pace = HERE
    closed = 0

    def __init__(self) -> None:
        self.looks = Looks()

    def end_trial(self) -> None:
        """No trial is under way."""

    def close(self) -> None:
        """Count the workers that another one follows."""
        self.closed += 1

    def give_up(self) -> None:
        """Nothing runs."""


class Tuner:
    """Raises what the test says, one step after another; sets ``done`` after the last one."""

    def __init__(self, *raised: Callable[[], BaseException]) -> None:
        self._left = [make() for make in raised]
        self.told: list[tuple[EventKind, str, dict[str, float]]] = []
        self.dropped = 0
        self.done = threading.Event()

    is_trying = False
    is_closed = False

    def close(self) -> None:
        """Note it."""
        self.is_closed = True

    def step(self) -> bool:
        """Fail, or have nothing to do."""
        if self._left:
            raise self._left.pop(0)
        if self.told and self.told[-1][0] is EventKind.RESTARTED:
            self.done.set()
        return False

    def drop_trial(self) -> None:
        """Count."""
        self.dropped += 1

    def tell(self, kind: EventKind, text: str, **figures: float) -> None:
        """Remember."""
        self.told.append((kind, text, figures))


@pytest.mark.parametrize("kind", [AutotuneError, ValueError, MemoryError, SystemExit])
def test_tuning_goes_on_after_any_failure(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "POLL_SECONDS", 1e-3)
    monkeypatch.setattr(live_tuning, "MOST_POLL_SECONDS", 1e-2)
    monkeypatch.setattr(live_tuning, "PAUSE_SECONDS", 1e-3)
    monkeypatch.setattr(live_tuning, "MOST_PAUSE_SECONDS", 5e-3)
    tuner, nothing = Tuner(*[lambda: kind("no")] * 6), Nothing()
    given: list[Any] = [nothing, tuner, nothing]
    tuning = LiveTuning(*given)
    assert tuner.done.wait(30)
    tuning.close()
    kinds = [kind for kind, _, _ in tuner.told]
    assert kinds == [EventKind.FAILED] * 6 + [EventKind.RESTARTED]
    assert tuner.dropped == nothing.closed == 6
    pauses = [figures["pause_seconds"] for _, _, figures in tuner.told[:-1]]
    assert pauses == [1e-3, 2e-3, 4e-3, 5e-3, 5e-3, 5e-3]
    assert "no; it begins anew in 0.001 s" in tuner.told[0][1]


class Waits(threading.Event):
    """Keeps how long it was waited for, waits for nothing, and is set after ``LIMIT`` waits."""

    LIMIT = 12
    seconds: list[float]

    def __init__(self) -> None:
        super().__init__()
        self.seconds = []

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        self.seconds.append(timeout or 0.0)
        return len(self.seconds) >= self.LIMIT or self.is_set()


class Idle(Tuner):
    """Has nothing to do, but in its fourth step, and tries something after its eighth."""

    steps = 0

    def step(self) -> bool:
        """Count."""
        self.steps += 1
        self.is_trying = self.steps > 8
        return self.steps == 4


def test_looks_become_rare_while_there_is_nothing_to_do() -> None:
    tuner, nothing = Idle(), Nothing()
    given: list[Any] = [nothing, tuner, nothing]
    tuning = LiveTuning(*given, stopping=(waits := Waits()))
    tuning.close()
    assert tuner.is_closed
    assert waits.seconds == [0.05, 0.1, 0.2, 0.4, 0.05, 0.1, 0.2, 0.4, 0.05, 0.05, 0.05, 0.05]
