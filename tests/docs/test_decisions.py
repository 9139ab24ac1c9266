"""Decisions: a page each with number, date and status; the index lists them all."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"
PAGES = sorted(DECISIONS.glob("0*.md"))
MOST_LINES = 40
STATUS = re.compile(
    r"Date: (\d{4}-\d\d-\d\d)\. "
    r"Status: ((?:accepted|superseded by \[\d+\]\(\d{4}-[\w-]+\.md\))(?:[,;] .+)?)\."
)


def head(page: Path) -> tuple[str, str, str, str]:
    """Number, title, date and status of a page; the test fails where one is missing."""
    lines = page.read_text("utf-8").splitlines()
    title, state = re.fullmatch(r"# (\d+)\. (.+)", lines[0]), STATUS.fullmatch(lines[2])
    assert title is not None, lines[0]
    assert state is not None, f"{page.name} needs 'Date: YYYY-MM-DD. Status: accepted.': {lines[2]}"
    return title[1], title[2], state[1], state[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_number_date_and_status_on_one_page(page: Path) -> None:
    number, _, day, _ = head(page)
    assert int(number) == int(page.name[:4])
    assert date.fromisoformat(day) >= date(2026, 11, 21)
    assert len(page.read_text("utf-8").splitlines()) <= MOST_LINES, "move tables to experiments"


def test_the_index_lists_every_decision_with_date_and_status() -> None:
    listed = re.findall(r"^\| \[.*$", (DECISIONS / "index.md").read_text("utf-8"), re.MULTILINE)
    rows = [
        f"| [{number}]({page.name}) | {title} | {day} | {status} |"
        for page in PAGES
        for number, title, day, status in [head(page)]
    ]
    assert listed == rows


def test_every_notebook_of_tries_names_its_decision() -> None:
    notebooks = [x for x in (DECISIONS.parent / "experiments").glob("*.md") if x.stem != "index"]
    assert notebooks
    for notebook in notebooks:
        named = re.search(r"\.\./decisions/(\d{4}-[\w-]+\.md)", notebook.read_text("utf-8"))
        assert named is not None, notebook.name
        assert f"../experiments/{notebook.name}" in (DECISIONS / named[1]).read_text("utf-8")
