"""Trials: a proposed program table beside the current one, on the same inputs, off the runs' path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import RunTrace, execute
from autotune.runtime.execution.program_table import ProgramTable
from autotune.targets.protocol import Target

RELATIVE_TOLERANCE = 1e-3
ABSOLUTE_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class TrialRun:
    """What one run of each table cost, and how far their outputs lie apart: the largest absolute
    difference, and whether all are within 1e-3 relative plus 1e-5 absolute of each other."""

    current: RunTrace
    proposed: RunTrace
    largest_difference: float
    agrees: bool


def compare(
    current: ProgramTable, proposed: ProgramTable, target: Target, inputs: Mapping[str, Array]
) -> TrialRun:
    """Run both tables once. ``inputs`` are checked arrays."""
    old, old_trace = execute(current, target, inputs)
    new, new_trace = execute(proposed, target, inputs)
    largest = max(_difference(new[x], old[x]) for x in old)
    return TrialRun(old_trace, new_trace, largest, agree(new, old))


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
