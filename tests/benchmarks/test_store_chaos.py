"""Writers that are killed at random lose and double nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.store_chaos import Chaos, ChaosResult


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "server"])
def test_killed_writers_lose_and_double_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "a.db") if kind == "file" else request.getfixturevalue("server_url")
    chaos = Chaos(writers=4, batches=12, size=20, kills=6, seed=1)
    result = chaos.run(place, random.Random(chaos.seed))
    assert result == ChaosResult(result.killed, lost=0, doubled=0, problems=0)
