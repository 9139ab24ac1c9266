"""The benchmark of black-box search: peers try each configuration once, and random draws score nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.targets.recorded_space import RecordedSpace
from benchmarks import replay

SPACE = RecordedSpace.read(
    Path(__file__).parents[1] / "targets" / "recorded" / "convolution_A100.json.gz"
)


@pytest.mark.parametrize("search", (replay.ours, replay.tpe, replay.xgboost_loop))
def test_peers_try_each_configuration_once(
    search: replay.Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "EVALUATIONS", 16)
    times = search(SPACE, 0)
    valid = times[np.isfinite(times)].tolist()
    assert len(times) == 16 and len(set(valid)) == len(valid)
    assert set(valid) <= set(SPACE.times.tolist())
    np.testing.assert_array_equal(times, search(SPACE, 0))


def test_random_draws_score_nothing_and_the_optimum_at_once_scores_one() -> None:
    rng = np.random.default_rng(0)
    draws = [SPACE.times[rng.permutation(len(SPACE))[:100]] for _ in range(2000)]
    assert replay.score(SPACE, draws) == pytest.approx(0, abs=0.05)
    known = np.sort(SPACE.times)[:100]
    assert replay.score(SPACE, [known]) == pytest.approx(1)
