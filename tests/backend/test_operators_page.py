"""The page on operators says how ONNX's backend suite ends: a sample here, all of it when slow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.backend.conformance import run_suite
from autotune.backend.manual import Row, page, rows_of

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


@pytest.fixture(scope="module")
def sample() -> dict[str, Row]:
    cases = run_suite("|".join(SAMPLE.values()))
    return {row.operator: row for row in rows_of(cases)}


@pytest.mark.parametrize("operator", SAMPLE)
def test_the_page_agrees_with_a_run(operator: str, sample: dict[str, Row]) -> None:
    assert rows()[operator] == str(sample[operator]), HINT


def test_the_page_has_no_failures() -> None:
    assert "\n| failed | 0 |\n" in PAGE.read_text("utf-8")


@pytest.mark.slow
def test_no_case_of_the_suite_fails_and_the_page_is_of_a_run() -> None:
    cases = run_suite(jobs=os.cpu_count() or 1)
    assert not {case.name: case.reason for case in cases if case.outcome == "failed"}
    assert page(cases) == PAGE.read_text("utf-8"), HINT
