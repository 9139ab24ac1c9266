"""Failures on the terminal: counts with an example, and defects with the way to report them."""

from __future__ import annotations

import pytest
import typer

from autotune.cli.failures import exit_on_defects, failure_document, say_failures
from autotune.measure.measurement import FailureKind
from autotune.tuner.failures import FailureCount

DEFECT = FailureCount(FailureKind.DEFECT, 1, "defect in lowering: KeyError: 3")
OVERDUE = FailureCount(FailureKind.OVERDUE, 12, "took longer than 60 s")


def test_every_kind_is_told_with_its_count_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    say_failures([FailureCount(kind, 2, f"because {kind}") for kind in FailureKind])
    out, err = capsys.readouterr()
    assert not out and all(f"such as: because {kind}" in err for kind in FailureKind)


def test_only_defects_ask_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    say_failures([OVERDUE])
    assert "report" not in capsys.readouterr().err
    say_failures([OVERDUE, DEFECT])
    err = capsys.readouterr().err
    assert "1 candidate met a defect" in err and "Please report it" in err
    assert "12 candidates took too long (--time-limit)" in err


def test_json_has_kind_count_and_reason() -> None:
    assert failure_document([OVERDUE]) == [
        {"kind": "over its time limit", "count": 12, "reason": "took longer than 60 s"}
    ]


def test_a_defect_ends_a_command_with_an_error() -> None:
    exit_on_defects([OVERDUE])
    with pytest.raises(typer.Exit) as ended:
        exit_on_defects([OVERDUE, DEFECT])
    assert ended.value.exit_code == 1
