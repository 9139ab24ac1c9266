"""Inputs that ``autotune run`` draws for a session, and the check of its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cli.run_arrays import difference, shipped_arrays
from autotune.runtime.session.network_session import NetworkSession

AnyArray = npt.NDArray[Any]


def random_inputs(session: NetworkSession, seed: int) -> dict[str, AnyArray]:
    """Return the inputs that ship with one of ONNX's light networks, within their ranges (its
    uniform weights make anything else ill-conditioned), or seeded random arrays.

    Raises ``InputError`` where a dimension is open, or an input is no tensor.
    """
    shipped = shipped_arrays(session.name, session.inputs)
    if shipped is None:
        return session.draw_inputs(np.random.default_rng(seed))
    inputs = dict(shipped[0])
    return inputs | {x: np.clip(inputs[x], r.low, r.high) for x, r in session.ranges.items()}


def check_outputs(
    session: NetworkSession, feeds: dict[str, AnyArray], outputs: dict[str, Any]
) -> dict[str, tuple[float, bool]]:
    """Return per output the largest difference from the numpy reference, and True if it is within
    tolerance. A light network on its shipped inputs is compared with the shipped outputs too."""
    wanted: dict[str, Any] = session.reference_outputs(feeds)
    shipped = shipped_arrays(session.name, session.inputs)
    if shipped is not None and all(np.array_equal(feeds[x], v) for x, v in shipped[0].items()):
        wanted |= {f"{name} (shipped)": value for name, value in shipped[1].items()}
    return compare(wanted, outputs)


def compare(wanted: dict[str, Any], outputs: dict[str, Any]) -> dict[str, tuple[float, bool]]:
    """Return per wanted value the largest difference of its output, and True if it is within
    tolerance. `` (shipped)`` behind a name marks another value wanted for the same output."""
    return {
        name: _difference(outputs[name.removesuffix(" (shipped)")], value)
        for name, value in wanted.items()
    }


def _difference(output: Any, wanted: Any) -> tuple[float, bool]:
    """Compare two values; of sequences, the items that are furthest apart."""
    if isinstance(wanted, list) and isinstance(output, list):
        pairs = [_difference(x, y) for x, y in zip(output, wanted, strict=False)]
        is_same_length = len(output) == len(wanted)
        largest = float(np.max([apart for apart, _ in pairs], initial=0.0))
        return largest, is_same_length and all(ok for _, ok in pairs)
    if output is None and wanted is None:  # an optional without a value
        return 0.0, True
    if any(x is None or isinstance(x, list) for x in (output, wanted)):
        return float("inf"), False
    if np.shape(output) != np.shape(wanted):
        return float("inf"), False
    return difference(np.asarray(output), np.asarray(wanted))
