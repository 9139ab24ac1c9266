"""The page on operators says how ONNX's backend suite ends: a sample here, all of it when slow."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from autotune.backend.conformance import Case, counts, run_suite
from autotune.backend.manual import Row, rows_of

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
SAMPLE = {
    "Relu": "^test_(relu|ReLU|single_relu_model)_cpu$",
    "CumSum": "^test_cumsum_",
    "MatMulInteger": "^test_matmulinteger",
    "StringSplit": "^test_string_split_",
    "Trilu": "^test_tri[lu]",
}
"""Operator to the cases that are its own."""
HINT = "renew it: make operators"


def rows() -> dict[str, str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


def recorded(outcome: str) -> int:
    found = re.search(rf"^\| {outcome}[^|]* \| (\d+) \|$", PAGE.read_text("utf-8"), re.M)
    assert found is not None
    return int(found[1])


@pytest.fixture(scope="module")
def sample() -> dict[str, Row]:
    cases = run_suite("|".join(SAMPLE.values()))
    return {row.operator: row for row in rows_of(cases)}


@pytest.mark.parametrize("operator", SAMPLE)
def test_the_page_agrees_with_a_run(operator: str, sample: dict[str, Row]) -> None:
    assert rows()[operator] == str(sample[operator]), HINT


def test_the_page_has_no_failures() -> None:
    assert recorded("failed") == 0


@pytest.mark.slow
def test_no_case_of_the_suite_fails_and_as_many_pass_as_the_page_says() -> None:
    cases: tuple[Case, ...] = run_suite(jobs=os.cpu_count() or 1)
    found = counts(cases)
    wrong = {case.name: case.reason for case in cases if case.outcome == "failed"}
    assert not wrong
    assert found["passed"] >= recorded("passed"), HINT
