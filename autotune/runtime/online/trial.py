"""Trials: a proposed program table beside the current one, on the same recorded inputs, off the runs' path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import RunTrace, execute
from autotune.runtime.execution.program_table import ProgramTable
from autotune.targets.protocol import Target

RELATIVE_TOLERANCE = 1e-3
ABSOLUTE_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """What a run of each table cost on each input, and how far their outputs lie apart: the largest absolute
    difference, and whether all are within 1e-3 relative plus 1e-5 absolute of each other."""

    current: tuple[RunTrace, ...]
    proposed: tuple[RunTrace, ...]
    largest_difference: float
    agrees: bool


def compare(
    current: ProgramTable,
    proposed: ProgramTable,
    target: Target,
    cases: Sequence[Mapping[str, Array]],
) -> TrialRuns:
    """Run both tables once on each of some inputs, checked arrays; outputs that do not agree end it.

    Machines that count cycles count the same each time, so that one run of an input is enough.
    """
    pairs: list[tuple[RunTrace, RunTrace]] = []
    largest, agrees = 0.0, True
    for inputs in distinct(cases):
        old, old_trace = execute(current, target, inputs)
        new, new_trace = execute(proposed, target, inputs)
        pairs.append((old_trace, new_trace))
        largest = max(largest, *(_difference(new[x], old[x]) for x in old))
        agrees = agree(new, old)
        if not agrees:
            break
    return TrialRuns(tuple(x for x, _ in pairs), tuple(y for _, y in pairs), largest, agrees)


def distinct(cases: Sequence[Mapping[str, Array]]) -> list[Mapping[str, Array]]:
    """Return inputs that differ, the newest of equal ones."""
    found: list[Mapping[str, Array]] = []
    for case in reversed(cases):
        if not any(all(np.array_equal(one[x], case[x]) for x in case) for one in found):
            found.append(case)
    return found[::-1]


def agree(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Return True if all outputs are within 1e-3 relative plus 1e-5 absolute of the expected ones."""
    return all(
        np.allclose(outputs[x], value, RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE, equal_nan=True)
        for x, value in expected.items()
    )


def agree_in_scale(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """As ``agree``, where 1e-5 is of the largest expected number of an output, if that is more than 1.

    Numbers that cancel keep the rounding errors of the large ones that they are sums of.
    """
    return all(
        np.allclose(
            outputs[x],
            value,
            RELATIVE_TOLERANCE,
            ABSOLUTE_TOLERANCE * max(1.0, _largest(value)),
            equal_nan=True,
        )
        for x, value in expected.items()
    )


def _largest(value: Array) -> float:
    finite = np.abs(value[np.isfinite(value)])
    return float(finite.max(initial=0.0))


def _difference(one: Array, two: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.max(np.nan_to_num(np.abs(one.astype(np.float64) - two))))
