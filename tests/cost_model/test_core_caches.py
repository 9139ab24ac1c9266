"""The caches that counts go by are those that the system tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autotune.cost_model.cached import core_caches as module
from autotune.targets.native.cpu import topology


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    module.core_caches.cache_clear()
    yield
    module.core_caches.cache_clear()


@pytest.mark.parametrize(
    ("told", "caches"),
    [
        ({1: 48 << 10, 2: 2 << 20}, (48 << 10, 2 << 20)),
        ({}, (module.DEFAULT_L1_BYTES, module.DEFAULT_L2_BYTES)),
    ],
)
def test_sizes_are_the_machines_own(
    told: dict[int, int], caches: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "cache_bytes", told.get)
    assert module.core_caches() == caches
