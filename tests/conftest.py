"""Shared test set-up: makes Hypothesis reproducible."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", settings.get_profile("default"), max_examples=15)
settings.load_profile(os.environ.get("AUTOTUNE_TESTS", "default"))
