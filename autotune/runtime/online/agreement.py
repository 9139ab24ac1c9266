"""When the outputs of two plans agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.operators.tensor import Array

RELATIVE_TOLERANCE = 1e-3
ABSOLUTE_TOLERANCE = 1e-5


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
