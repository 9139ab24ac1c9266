"""Records: how much training trusts a time."""

from __future__ import annotations

import pytest

from autotune.store.records import HALF_TRUST_ERROR, NOISY_TRUST
from tests.store.store_case import record


@pytest.mark.parametrize(
    ("counters", "trust"),
    [
        ({}, 1.0),
        ({"error_ppm": 0}, 1.0),
        ({"error_ppm": round(1e6 * HALF_TRUST_ERROR)}, 0.5),
        ({"error_ppm": round(3e6 * HALF_TRUST_ERROR), "noisy": 1}, 0.1),
        ({"noisy": 1}, NOISY_TRUST),
        ({"noisy": 0, "spread_ppm": 900_000}, 1.0),
    ],
)
def test_trust_falls_with_the_error_and_older_records_tell_noise_alone(
    counters: dict[str, int], trust: float
) -> None:
    assert record(1, counters=counters).trust == pytest.approx(trust)
