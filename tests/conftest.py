"""Shared test set-up: makes the oracles importable and Hypothesis reproducible."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
# oracles and cases that test modules share are plain modules beside them
sys.path[:0] = [
    str(TESTS),
    *(str(path) for path in sorted(TESTS.rglob("*")) if path.is_dir() and path.name[0] not in "._"),
]

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", settings.get_profile("default"), max_examples=15)
settings.load_profile(os.environ.get("AUTOTUNE_TESTS", "default"))
