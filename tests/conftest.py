"""Shared test set-up: Hypothesis reproducible, and golden texts with one flag that updates them."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.store.server_case import server, server_store, server_url  # noqa: F401  # fixtures

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", settings.get_profile("default"), max_examples=15)
settings.load_profile(os.environ.get("AUTOTUNE_TESTS", "default"))

Golden = Callable[[str, str], None]
"""``golden(name, text)`` compares a text with the file of that name in ``golden/`` beside the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden texts")


@pytest.fixture(autouse=True)
def own_programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test lowers its programs itself: a process shares them, and so does the disk."""
    module = sys.modules.get("autotune.runtime.caches.program_files")
    if module is not None:
        module.shared_programs.cache_clear()
        folder = functools.cache(lambda: tmp_path_factory.mktemp("programs"))
        monkeypatch.setattr(module, "programs_folder", folder)


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into a store that the environment names."""
    monkeypatch.delenv("AUTOTUNE_STORE", raising=False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares texts with golden files, or writes them under ``--update-golden``."""

    def compare(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: write it by pytest --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare
