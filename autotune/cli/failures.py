"""Failures of measurements, told on the terminal: counts of all, and defects loudly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from autotune.cli.console import say
from autotune.cli.ending import MISMATCH

if TYPE_CHECKING:
    from autotune.tuner.failures import FailureCount


def failure_document(failures: Sequence[FailureCount]) -> list[dict[str, str | int]]:
    """Return failures as JSON has them."""
    return [{"kind": f.kind.value, "count": f.count, "reason": f.reason} for f in failures]


def exit_on_defects(failures: Sequence[FailureCount]) -> None:
    """End the command with exit code 1 if a candidate met a defect: that is our error, not the candidate's.

    Call it when all results are written. Raises ``typer.Exit``.
    """
    from autotune.measure.measurement import FailureKind

    if any(failure.kind is FailureKind.DEFECT for failure in failures):
        raise typer.Exit(MISMATCH)


def say_failures(failures: Sequence[FailureCount]) -> None:
    """Print the count of each kind with a reason, and after defects how to report them."""
    from autotune.measure.measurement import FailureKind

    verbs = {
        FailureKind.REFUSED: "failed",
        FailureKind.OVERDUE: "took too long (--time-limit)",
        FailureKind.DIED: "ended the process that ran them",
        FailureKind.DEFECT: "met a defect",
    }
    for failure in failures:
        noun = "candidate" if failure.count == 1 else "candidates"
        say(f"{failure.count} {noun} {verbs[failure.kind]}, such as: {failure.reason}")
    if any(failure.kind is FailureKind.DEFECT for failure in failures):
        say(
            "DEFECT: this is an error of autotune, or of a target of yours. All other measurements "
            "are kept. Please report it: the traceback above, and what `autotune doctor` prints"
        )
