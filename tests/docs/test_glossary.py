"""The glossary: sorted terms, each once, each with a module that exists; the front doors link to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| `(.+?)` \|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)


def test_every_row_of_the_table_is_read() -> None:
    lines = [x for x in GLOSSARY.read_text("utf-8").splitlines() if x.startswith("| ")]
    assert len(ROWS) == len(lines) - 1 > 40


@pytest.mark.parametrize(("term", "module"), [(term, module) for term, _, module in ROWS])
def test_the_module_of_a_term_exists(term: str, module: str) -> None:
    assert (ROOT / module).exists(), f"{term}: {module}"


def test_terms_stand_once_and_in_order() -> None:
    terms = [term for term, _, _ in ROWS]
    assert terms == sorted(set(terms))


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("docs/index.md", "\nglossary\n"),
        ("README.md", "(docs/glossary.md)"),
        ("CONTRIBUTING.md", "(docs/glossary.md)"),
    ],
)
def test_a_newcomer_finds_the_glossary(page: str, link: str) -> None:
    assert link in (ROOT / page).read_text("utf-8")
