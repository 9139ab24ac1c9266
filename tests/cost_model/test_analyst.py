"""Questions about one nest: the same answers before and after its analysis is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model import analyst
from autotune.cost_model.analyst import Analyst
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.schedule.space import enumerate_on
from tests.cost_model.measured import SPEC, drawn, observations


@pytest.fixture(scope="module")
def model() -> CostModel:
    return fit(list(observations(2, 60)), SPEC, seed=0)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_the_same_before_and_after_recording(model: CostModel, seed: int) -> None:
    """One by one and in a table, bit for bit."""
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_on(nests[0], SPEC, 12, rng)
    asked = Analyst(model, nests[0])
    first = asked.forecast(table.take([0]))
    assert asked._recording is None
    rows = [asked.forecast(table.take([row])).cycles[0] for row in range(len(table))] * 2
    together = asked.forecast(table.take(np.arange(len(table)).repeat(100)))
    assert asked._recording is not None
    np.testing.assert_array_equal(together.cycles[::100], rows[: len(table)])
    np.testing.assert_array_equal(together.x[0], first.x[0])
    np.testing.assert_array_equal(model.forecast(nests[0], table).cycles, rows[: len(table)])


def test_the_oldest_recordings_go(model: CostModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyst, "_KEPT", 2)
    rng = np.random.default_rng(0)
    _, nests, _ = drawn(rng)
    table = enumerate_on(nests[0], SPEC, 8, rng).take(np.zeros(800, dtype=np.int64))
    asked = [Analyst(model, nests[0]) for _ in range(3)]
    for one in asked:
        one.forecast(table)
    assert [one._recording is None for one in asked] == [True, False, False]
