"""The page on counters is what the table says, and the table is what runs have."""

from __future__ import annotations

import re
from pathlib import Path

from autotune.targets.emulator.counters import COUNTERS, FAMILIES, PART_COUNTERS
from autotune.targets.emulator.counters_manual import manual
from autotune.targets.emulator.target import EmulatorTarget
from tests.targets.machine_case import PLAIN, fill, program

PAGE = Path(__file__).parents[3] / "docs" / "counters.md"


def test_the_page_in_docs_is_the_generated_one() -> None:
    hint = "renew it: python -m autotune.targets.emulator.counters_manual > docs/counters.md"
    assert PAGE.read_text(encoding="utf-8") == manual(), hint


def test_every_counter_of_a_run_has_one_row_with_its_unit_and_scope() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \| (.+) \| (program|part) \|$", manual(), re.M)
    found = EmulatorTarget(PLAIN).time(program(fill())).counters
    assert [name for name, *_ in rows] == list(COUNTERS) == list(found)
    assert {name for name, *_, scope in rows if scope == "part"} == set(PART_COUNTERS)


def test_there_are_120_counters_and_more_each_of_one_family() -> None:
    assert len(COUNTERS) == sum(map(len, FAMILIES.values())) >= 120
    assert all("|" not in row.doc and row.doc for row in COUNTERS.values())
