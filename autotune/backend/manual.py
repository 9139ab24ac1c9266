"""Writes the page on operators from a run of ONNX's backend suite (docs/operators.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.backend.conformance import Case, Outcome, cause, counts, run_suite

HEAD = """# Operators

Written by `make operators`: ONNX's own backend suite (onnx {version}), every case imported, simplified, fused by rule, lowered to
programs, verified, and run on the emulator of `{target}`, compared by the suite with its own tolerances.
`autotune bench conformance [--filter PATTERN]` runs it.

| | cases |
|---|---|
| passed | {passed} |
| refused, with the node, the operator and the way out | {refused} |
| failed | {failed} |

{known} of those that passed compute nothing at run time: their outputs are known at import, because they depend on shapes
alone or on inputs whose values decide shapes.

Programs hold tensors as float32. Booleans are 0 and 1; integers are exact up to ±2^24, which an interval analysis proves for
the inputs at hand. Where the proof fails, numpy computes the operators on integers and booleans on the host, exactly over their
types, and programs the rest; a run is refused only where numpy has no such operator. Sums of int8 products of any length are
exact in programs up to one rounding to float32, which is that of a cast. An index outside of its axis is refused where it is
a constant, an input of the network or computed by numpy; one that a program computes is clamped. Narrower floats are
computed as float32 and rounded where they leave; float64 is computed as float32 too, with its seven digits (comparisons see
no more of them, and what is then cast to integers lies between ±2^24 or is refused), and numbers beyond its range are
refused, as are constants other than 0 that it takes for 0. Inputs whose values decide shapes (a Reshape's target, axes, indices of Gather) are bound:
other values make other programs. Operators that ONNX defines by others are replaced by those.

Cases of one operator each, by operator. Cases of several operators (networks, and functions written out): {several}.

| operator | passed | refused | most frequent reason |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """How the cases of one operator ended."""

    operator: str
    passed: int
    refused: int
    reason: str

    def __str__(self) -> str:
        return f"| {self.operator} | {self.passed} | {self.refused} | {self.reason} |"


def rows_of(cases: Iterable[Case]) -> tuple[Row, ...]:
    """A row per operator that has cases of its own, by name."""
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        if len(case.operators) == 1:
            by_operator.setdefault(case.operators[0], []).append(case)
    return tuple(_row(operator, by_operator[operator]) for operator in sorted(by_operator))


def page(cases: Sequence[Case]) -> str:
    """The page as Markdown."""
    import onnx

    from autotune.backend.backend import DEFAULT_TARGET

    several = counts([case for case in cases if len(case.operators) != 1])
    head = HEAD.format(
        version=onnx.__version__,
        target=DEFAULT_TARGET,
        known=sum(case.known for case in cases),
        several=f"{several['passed']} passed, {several['refused']} refused",
        **counts(cases),
    )
    return head + "".join(f"{row}\n" for row in rows_of(cases))


def _row(operator: str, cases: Sequence[Case]) -> Row:
    found = counts(cases)
    reasons = [_cell(case.reason) for case in cases if case.outcome is Outcome.REFUSED]
    common = max(reasons, key=reasons.count) if reasons else ""
    return Row(operator, found["passed"], found["refused"], common)


def _cell(reason: str) -> str:
    return cause(reason).replace("|", "\\|")[:120]


if __name__ == "__main__":
    sys.stdout.write(page(run_suite(jobs=os.cpu_count() or 1)))
