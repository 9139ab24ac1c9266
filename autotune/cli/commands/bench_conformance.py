"""``autotune bench conformance``: ONNX's own backend suite against the emulator."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.options import JsonOption
from autotune.cli.progress import progress
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.backend.conformance import Case

SHOWN_REASONS = 40


def conformance(
    pattern: Annotated[
        str, typer.Option("--filter", help="Regular expression on the suite's names of cases.")
    ] = "",
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; default: one per core.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run ONNX's backend test suite on the emulator. Exit 1 when a case failed."""
    from autotune.backend.conformance import counts, run_suite

    try:
        re.compile(pattern)
    except re.error as error:
        raise InputError(f"--filter {pattern!r} is no regular expression: {error}") from None
    with progress("conformance") as report:
        cases = run_suite(
            pattern,
            jobs or os.cpu_count() or 1,
            lambda done, total: report("cases", done, total),
        )
    by_outcome = counts(cases)
    if json:
        print_json(
            {
                **by_outcome,
                "known": sum(case.known for case in cases),
                "cases": [asdict(case) for case in cases],
            }
        )
    else:
        _print_cases(cases)
        print_facts({**by_outcome, "passed, known at import": sum(case.known for case in cases)})
    if by_outcome["failed"]:
        raise typer.Exit(1)


def refusals(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return causes of refusals with their numbers of cases, the most frequent first."""
    reasons = Counter(_cause(case.reason) for case in cases if case.outcome == "refused")
    return [(reason, str(number)) for reason, number in reasons.most_common(SHOWN_REASONS)]


def _print_cases(cases: Sequence[Case]) -> None:
    rows = refusals(cases)
    if rows:
        print_table("refused, by reason", ("reason", "cases"), rows)
    for case in cases:
        if case.outcome == "failed":
            say(f"{case.name}: {' '.join(case.reason.split())[:300]}")


def _cause(reason: str) -> str:
    """Return a refusal without the names and numbers that differ between cases."""
    from autotune.backend.conformance import cause

    return re.sub(r"\d+", "#", cause(reason))[:110]
