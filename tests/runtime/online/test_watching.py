"""A session that learns and has nothing on trial looks at one request in eight; the others run as without learning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune import Session
from autotune.runtime.online import live_tuning
from autotune.runtime.online.pace import HERE
from autotune.runtime.online.watching import WATCHED
from autotune.runtime.profile.graph_profile import GraphProfile
from autotune.runtime.session.graph_session import GraphSession
from tests.tuner.search_case import chain

Arrays = dict[str, np.ndarray]


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[GraphSession, Arrays]]:
    """A session whose tuner never wakes, and inputs, after as many requests as the tuner wants to know."""
    monkeypatch.setattr(live_tuning, "POLL_SECONDS", 3600.0)
    with Session(chain(), "cpu:1", online=True) as session:
        network = session._network
        assert isinstance(network, GraphSession)
        inputs = session.draw_inputs(np.random.default_rng(0))
        for _ in range(HERE.window_runs):
            session.run(inputs)
        yield network, inputs


def test_one_request_in_many_is_watched(resting: tuple[GraphSession, Arrays]) -> None:
    network, inputs = resting
    tuner: Any = network._learners.tuner
    window = tuner._serving._window
    before, runs = len(window._rows), tuner._serving.runs
    wanted = network.reference_outputs(inputs)
    for _ in range(10 * WATCHED):
        for name, made in network.run(inputs).items():
            np.testing.assert_allclose(made, wanted[name], rtol=1e-4, atol=1e-4)
    assert len(window._rows) - before == 10 * window._row_bytes
    assert 0 <= runs + 10 * WATCHED - tuner._serving.runs < WATCHED, "all are counted"


def test_a_trial_sees_the_requests_of_its_window(resting: tuple[GraphSession, Arrays]) -> None:
    network, inputs = resting
    noted: list[int] = []
    tuner: Any = network._learners.tuner
    first = tuner._serving.runs + 2 * WATCHED

    class Trial:
        window = first, first + 10

        def take(self, request: int) -> None:
            noted.append(request)

        def note(self, *_: object) -> None:
            assert noted

    tuner._serving.begin_trial(Trial(), [])
    for _ in range(5 * WATCHED):
        network.run(inputs)
    others = [one for one in noted if not first <= one < first + 10]
    assert set(range(first, first + 10)) <= set(noted)
    assert len(others) <= 6, "one in so many is watched anyway"
    tuner._serving.end_trial()
    network.run(inputs)
    noted.clear()
    for _ in range(20):
        network.run(inputs)
    assert not noted


def test_requests_are_profiled_whether_watched_or_not(
    resting: tuple[GraphSession, Arrays],
) -> None:
    network, inputs = resting
    for _ in range(40):
        network.run(inputs)
    assert {row.executions for row in network.profile()} == {HERE.window_runs + 40}


def test_the_first_request_on_a_version_opens_no_history(
    resting: tuple[GraphSession, Arrays], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, inputs = resting
    tuner: Any = network._learners.tuner
    on_trial, published = replace(network.table), replace(network.table)
    tuner._serving.begin_trial(_EveryRequest(), [on_trial])
    with monkeypatch.context() as requests:
        requests.setattr(GraphProfile, "_open", None)  # nobody can open one
        network.run(inputs)
        assert network.last_run.layout is on_trial.layout
    tuner._serving.end_trial()
    network._current.swap(published)
    with monkeypatch.context() as requests:
        requests.setattr(GraphProfile, "_open", None)
        network.run(inputs)
        assert network.last_run.layout is network.table.layout


class _EveryRequest:
    """A trial that takes each request, of those on watch."""

    window = 0, 1 << 40

    def take(self, request: int) -> tuple[int, int]:
        return request, 0

    def note(self, *_: object) -> None:
        pass
