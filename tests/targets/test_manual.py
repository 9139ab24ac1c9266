"""The page on machines is what specs and tables say."""

from __future__ import annotations

from pathlib import Path

from autotune.targets.derived import FIGURES
from autotune.targets.manual import manual
from autotune.targets.opening import spec_names
from autotune.targets.plausibility import CHECKS

PAGE = Path(__file__).parents[2] / "docs" / "targets.md"


def test_the_page_in_docs_is_the_generated_one() -> None:
    hint = "renew it: python -m autotune.targets.manual > docs/targets.md"
    assert PAGE.read_text(encoding="utf-8") == manual(), hint


def test_every_machine_figure_and_check_is_on_the_page() -> None:
    page = manual()
    assert all(f"| `{name}` |" in page for name in (*spec_names(), *FIGURES))
    assert all(check.doc in page for check in CHECKS)
