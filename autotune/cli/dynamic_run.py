"""What ``autotune run`` feeds and compares where a network has control flow or open dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cli.run_arrays import compare, default_inputs, difference
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.exploration import drawn, drawn_inputs
from autotune.runtime.session.session import Session
from autotune.runtime.session.versions import Versions

AnyArray = npt.NDArray[Any]


def random_inputs(session: Session, seed: int) -> dict[str, AnyArray]:
    """Seeded arrays for a session's inputs, within their ranges.

    Raises ``InputError`` where a dimension is open, or an input is no tensor.
    """
    if not isinstance(session, DynamicSession):
        given = default_inputs(session.graph, seed)
        within = {x: np.clip(given[x], r.low, r.high) for x, r in session.ranges.items()}
        return given | within
    rng = np.random.default_rng(seed)
    return drawn_inputs(session.model, lambda kind: drawn(kind, rng))


def compared(
    session: Session, feeds: dict[str, AnyArray], outputs: dict[str, Any]
) -> dict[str, tuple[float, bool]]:
    """Per output: largest difference from the numpy reference, and whether it is within tolerance."""
    if not isinstance(session, DynamicSession):
        return compare(session.graph, feeds, outputs)
    wanted = Versions(session.model, ReferenceSession, session.path.stem).run(feeds)
    return {name: _difference(outputs[name], value) for name, value in wanted.items()}


def _difference(given: Any, wanted: Any) -> tuple[float, bool]:
    """Of a sequence, that of the item that is furthest off."""
    if isinstance(wanted, list) and isinstance(given, list):
        pairs = [_difference(x, y) for x, y in zip(given, wanted, strict=False)]
        same = len(given) == len(wanted) and all(ok for _, ok in pairs)
        return float(np.max([d for d, _ in pairs], initial=0.0)), same
    if given is None and wanted is None:  # an optional without a value
        return 0.0, True
    if any(x is None or isinstance(x, list) for x in (given, wanted)):
        return float("inf"), False
    if np.shape(given) != np.shape(wanted):
        return float("inf"), False
    return difference(np.asarray(given), np.asarray(wanted))
