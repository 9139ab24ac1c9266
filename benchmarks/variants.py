"""The figures of `make bench-variants`: for each kernel variant and choice of a schedule, where it wins and
where it loses, in emulated cycles, which are exact.

Every form runs by the fastest schedule found for it (`variant_forms.py`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.table import Table
from benchmarks.variant_cases import CONTESTS, Contest
from benchmarks.variant_forms import ENUMERATED, EXECUTED

LEGEND = (
    "Emulated cycles, exact and the same on every machine. Every form has the fastest of the "
    f"{EXECUTED} schedules of the least estimate among {ENUMERATED} enumerated; *ratio* is the loser's "
    "cycles over the winner's. Images are batch × channels, image → output channels, kernel, all with "
    "bias and ReLU. A *dense* depthwise convolution is one by a weight that is mostly zeros; a *pruned* "
    "product has a weight of which exactly three of four blocks, drawn at random, are zero, and its *dense* "
    "form multiplies them; *materialised* attention runs its products and its softmax as three groups, "
    "*online* cuts the rows of scores; *keeps left* and *right* say which operand's tile stays while the "
    "innermost loop walks over the other's. Every form wins somewhere, but for two that are yardsticks: the "
    "dense depthwise convolution and attention in three groups. A test holds every winner."
)

Times = Mapping[str, int]
"""Cycles by form."""


def measured(contest: Contest) -> Times:
    """Cycles of every form that fits the machine."""
    spec = contest.spec()
    found = {form.name: form.cycles(spec) for form in contest.forms()}
    return {name: cycles for name, cycles in found.items() if cycles is not None}


def ranked(times: Times) -> list[tuple[str, int]]:
    """The fastest form first."""
    return sorted(times.items(), key=lambda item: item[1])


def variants_table(rows: Sequence[tuple[Contest, Times]]) -> Table:
    """A line per contest."""
    lines = []
    for contest, times in rows:
        (first, least), (second, next_least), *_ = ranked(times)
        lines.append(
            (
                contest.choice,
                contest.case,
                contest.target,
                first,
                f"{least:,}",
                second,
                f"{next_least:,}",
                f"{next_least / least:.2f}",
            )
        )
    columns = ("choice", "of", "machine", "wins", "cycles", "next best", "cycles", "ratio")
    return Table("Kernel variants", columns, tuple(lines))


def markdown(table: Table) -> str:
    """The page."""
    return f"# Where each variant wins\n\nWritten by `make bench-variants`. {LEGEND}\n\n{table.markdown()}\n"


def main() -> None:
    """Run all contests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [(contest, measured(contest)) for contest in CONTESTS]
    table = variants_table(rows)
    print(table.text())
    if options.markdown is not None:
        options.markdown.write_text(markdown(table), encoding="utf-8")
    if options.json is not None:
        plain = [
            {"choice": c.choice, "case": c.case, "machine": c.target, "cycles": dict(times)}
            for c, times in rows
        ]
        options.json.write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
