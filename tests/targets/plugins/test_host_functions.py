"""Functions that run on this CPU: timed while it is calm, at its usual clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.errors import InputError
from autotune.targets.native.running.sampling import Reading
from autotune.targets.plugins import model_target
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.plugins.timing import PATIENCE_SECONDS
from tests.targets.plugins.test_model_target import exported


class Crowded:
    """A machine whose clock is 1.5 times the usual one, and that another guest crowds at every second reading pair."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.readings = 0

    def read(self) -> Reading:
        self.readings += 1
        return Reading(1.5, 2.0 if self.readings % 4 in (1, 2) else 1.0)

    def await_calm(self, seconds: float) -> float:
        self.waited.append(seconds)
        return 0.1


def timed(model: bytes) -> Callable[[], float]:
    return lambda: 1e-3


def test_visits_to_a_crowded_machine_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_state, asked = Crowded(), []

    def reference(threads: int) -> Crowded:
        asked.append(threads)
        return machine_state

    monkeypatch.setattr(model_target, "host_reference", reference)
    monkeypatch.setattr(timed, "cpu_threads", 2, raising=False)
    cost = ModelTarget("mine", timed).time(exported())
    assert asked == [2]
    assert cost.cycles == 1_500_000, "a millisecond at the usual clock"
    assert cost.counters["crowding_ppm"] == 1_000_000
    assert machine_state.waited[0] == PATIENCE_SECONDS
    assert machine_state.waited == sorted(machine_state.waited, reverse=True)
    assert all(seconds > 0 for seconds in machine_state.waited), "patience ends"


def test_functions_that_do_not_say_so_are_timed_as_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_target, "host_reference", lambda threads: pytest.fail("it was read"))
    assert ModelTarget("mine", timed).time(exported()).cycles == 1_000_000


@pytest.mark.parametrize("threads", ["two", -1, True, 1.5])
def test_threads_are_a_number(monkeypatch: pytest.MonkeyPatch, threads: object) -> None:
    monkeypatch.setattr(timed, "cpu_threads", threads, raising=False)
    with pytest.raises(InputError, match="cpu_threads is a number of threads"):
        ModelTarget("mine", timed)
