"""The importer refuses or understands whatever it is given: fuzzed with changed ONNX files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.models import applied, changes, corpus, fuzz, judge

FAST = 1000
CASES = 5000


def test_models_of_the_corpus_are_imported_and_compute_what_onnx_says(tmp_path: Path) -> None:
    for content in corpus():
        assert judge(content, tmp_path / "model.onnx") == "same as ONNX"


def test_a_changed_model_is_the_same_in_every_run() -> None:
    for number in range(50):
        assert applied(*changes(3, number)) == applied(*changes(3, number))


def test_changed_models_are_imported_right_or_refused(capfd: pytest.CaptureFixture[str]) -> None:
    cases = FAST if os.environ.get("AUTOTUNE_TESTS") == "fast" else CASES
    outcomes, failures = fuzz(cases, seed=0)
    assert not failures, capfd.readouterr().out
    assert outcomes["refused"]
    assert outcomes["same as ONNX"] > cases / 20
