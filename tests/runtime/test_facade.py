"""The library's front door: names are found when used, and ``autotune.search`` is both things."""

from __future__ import annotations

import subprocess
import sys

import pytest

import autotune


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_autotune_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'onnx', 'xgboost', 'optuna', 'sqlalchemy', 'networkx', 'sklearn'}"
    assert fresh(f"import sys, autotune; print(sorted({heavy} & set(sys.modules)))") == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "import autotune; print(callable(autotune.search))",
        "import autotune.search.plan as plan, autotune; print(callable(autotune.search))",
        "from autotune import search; import autotune.search.plan; print(callable(search))",
        "import autotune; autotune.search; import autotune.search.plan; "
        "print(autotune.search.plan.Plan is not None and callable(autotune.search))",
    ],
)
def test_search_is_a_package_and_can_be_called(code: str) -> None:
    assert fresh(code) == "True"


def test_calling_search_reaches_the_library_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune import api

    monkeypatch.setattr(api, "search", lambda model, **options: (model, options))
    assert autotune.search("net.onnx", trials=3) == ("net.onnx", {"trials": 3})  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("name", [name for name in autotune.__all__ if name != "search"])
def test_every_public_name_exists(name: str) -> None:
    assert getattr(autotune, name) is not None
    assert name in dir(autotune)


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        autotune.serch  # type: ignore[attr-defined]  # noqa: B018
