"""A session that learns and has nothing on trial looks at one request in many; the others run as without learning."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import Session
from autotune.runtime.online import live_tuning
from autotune.runtime.online.pace import HERE
from autotune.runtime.online.watching import LOOK_SECONDS, MOST_APART, SHARE, requests_apart
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
    for _ in range(10 * MOST_APART):
        for name, made in network.run(inputs).items():
            np.testing.assert_allclose(made, wanted[name], rtol=1e-4, atol=1e-4)
    tuner.looks.take_in()
    assert len(window._rows) - before == 10 * window._row_bytes
    assert 0 <= runs + 10 * MOST_APART - tuner._serving.runs < MOST_APART, "all are counted"


def test_every_request_is_counted_where_one_in_many_is_looked_at(
    resting: tuple[GraphSession, Arrays],
) -> None:
    network, inputs = resting
    trainer = network._learners.trainer
    assert trainer is not None
    before = trainer._finished
    for _ in range(10 * MOST_APART):
        network.run(inputs)
    tuner: Any = network._learners.tuner
    tuner.looks.take_in()
    assert 0 <= before + 10 * MOST_APART - trainer._finished < MOST_APART


@given(st.floats(1e-6, 10.0))
def test_looks_take_a_small_share_of_all_requests(run_seconds: float) -> None:
    apart = requests_apart(run_seconds)
    assert 1 <= apart <= MOST_APART
    assert apart == MOST_APART or SHARE * apart * run_seconds * (1 + 1e-9) >= LOOK_SECONDS
    assert apart == 1 or SHARE * (apart - 1) * run_seconds < LOOK_SECONDS


def test_long_requests_are_all_watched(resting: tuple[GraphSession, Arrays]) -> None:
    network, inputs = resting
    tuner: Any = network._learners.tuner
    window = tuner._serving._window
    assert tuner._serving.seconds() is not None
    assert tuner._serving.watched == MOST_APART, "this network takes microseconds"
    tuner._serving.watched = requests_apart(0.1)
    for _ in range(MOST_APART):
        network.run(inputs)
    tuner.looks.take_in()
    before = len(window._rows)
    for _ in range(10):
        network.run(inputs)
    tuner.looks.take_in()
    assert len(window._rows) - before == 10 * window._row_bytes


def test_a_trial_sees_the_requests_of_its_window(resting: tuple[GraphSession, Arrays]) -> None:
    network, inputs = resting
    tuner: Any = network._learners.tuner
    first = tuner._serving.runs + 2 * MOST_APART
    trial = _Noting((first, first + 10))
    noted = trial.taken
    tuner._serving.begin_trial(trial, [])
    for _ in range(5 * MOST_APART):
        network.run(inputs)
    others = [one for one in noted if not first <= one < first + 10]
    assert set(range(first, first + 10)) <= set(noted)
    assert len(others) <= 6, "one in so many is watched anyway"
    tuner._serving.end_trial()
    network.run(inputs)
    tuner.looks.take_in()
    noted.clear()
    for _ in range(20):
        network.run(inputs)
    assert not noted


def test_callers_at_once_are_all_seen_in_the_window_of_a_trial(
    resting: tuple[GraphSession, Arrays],
) -> None:
    network, inputs = resting
    tuner: Any = network._learners.tuner
    first = tuner._serving.runs + 4 * MOST_APART
    trial = _Noting((first, first + 400))

    def call() -> None:
        while tuner._serving.runs < first + 400:
            network.run(inputs)

    tuner._serving.begin_trial(trial, [])
    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(call) for _ in range(4)]:
            one.result()
    seen = set(trial.taken) & set(range(first, first + 400))
    assert len(seen) >= 390, "some were under way when it began"


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


class _Noting:
    """A trial that keeps the numbers of the requests it is asked about, and takes none."""

    def __init__(self, window: tuple[int, int]) -> None:
        self.window = window
        self.taken: list[int] = []

    def take(self, request: int) -> None:
        self.taken.append(request)

    def note(self, *_: object) -> None:
        assert self.taken


class _EveryRequest:
    """A trial that takes each request, of those on watch."""

    window = 0, 1 << 40

    def take(self, request: int) -> tuple[int, int]:
        return request, 0

    def note(self, *_: object) -> None:
        pass
