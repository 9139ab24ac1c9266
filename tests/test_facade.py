"""The library's front door: names are found when used, and ``autotune.search`` is a function."""

from __future__ import annotations

import inspect
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
        "import autotune",
        "import autotune.tuner.plan, autotune",
        "from autotune import search; import autotune; from autotune.tuner.plan import Plan",
        "import autotune; autotune.search; import autotune.tuner.plan",
    ],
)
def test_search_is_a_plain_function_whatever_was_imported(code: str) -> None:
    assert fresh(f"{code}; print(type(autotune.search).__name__)") == "function"


def test_editors_see_the_arguments_of_search_and_session() -> None:
    from autotune.runtime.session.request import open_request

    search = inspect.signature(autotune.search)
    assert list(search.parameters)[:3] == ["model", "target", "trials"]
    session = inspect.signature(autotune.Session)
    assert list(session.parameters)[:3] == ["source", "target", "store"]
    made = inspect.signature(autotune.Session.__init__).replace(return_annotation=session.empty)
    drawn = [p for name, p in made.parameters.items() if name != "self"]
    assert list(session.parameters.values()) == drawn
    assert [*inspect.signature(open_request).parameters.values()] == drawn


@pytest.mark.parametrize("name", [name for name in autotune.__all__ if name != "search"])
def test_every_public_name_exists(name: str) -> None:
    assert getattr(autotune, name) is not None
    assert name in dir(autotune)


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        autotune.serch  # type: ignore[attr-defined]  # noqa: B018
