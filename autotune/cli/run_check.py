"""Inputs that ``autotune run`` draws for a session, and the check of its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError
from autotune.operators.tensor import NUMPY, Array, DType
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.signature import TensorInfo
from autotune.runtime.session.network_session import NetworkSession

AnyArray = npt.NDArray[Any]
Array64 = npt.NDArray[np.float64]

_KINDS = {NUMPY[kind]: kind for kind in DType}

SHIPPED = " (shipped)"
"""Behind the name of an output: compared with the array that ONNX ships."""
RELATIVE, OF_RANGE = 1e-3, 1e-5
"""Tolerances of floats: a share of each number, and a share of the output's range (greatest minus least). Sums
in another order differ by a share of the range: by at most 5.5e-7 beyond the first tolerance over the shipped
networks, on U-Net."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Largest absolute difference of an output from its reference, and the verdict on it.

    ``rounding`` is how far float32 alone may move the output, where that was computed for the verdict.
    """

    largest: float
    is_tolerable: bool
    rounding: float = 0.0


def random_inputs(session: NetworkSession, seed: int) -> dict[str, AnyArray]:
    """Return the shipped inputs of one of ONNX's light networks, clipped to their ranges; for any
    other network seeded arrays.

    The light networks have uniform weights, which make any other input ill-conditioned. Raises
    ``InputError`` where a dimension is open, or an input is no tensor.
    """
    shipped = shipped_arrays(session.name, session.inputs)
    if shipped is None:
        return session.draw_inputs(np.random.default_rng(seed))
    inputs = dict(shipped[0])
    return inputs | {x: np.clip(inputs[x], r.low, r.high) for x, r in session.ranges.items()}


def shipped_arrays(
    network: str, inputs: Iterable[TensorInfo]
) -> tuple[dict[str, Array], dict[str, Array]] | None:
    """Return inputs and expected outputs that the onnx package ships for a light network.

    None for other networks and for other ``inputs``.
    """
    from autotune.datasets import LIGHT_MODELS, light_expected

    if network not in LIGHT_MODELS:
        return None
    arrays, outputs = light_expected(network)
    same = {x: value.shape for x, value in arrays.items()} == {x.name: x.shape for x in inputs}
    return (arrays, outputs) if same else None


def check_outputs(
    session: NetworkSession, feeds: dict[str, AnyArray], outputs: dict[str, Any]
) -> dict[str, Difference]:
    """Compare the outputs of a session's run on ``feeds`` with the numpy reference, by name.

    A light network on its shipped inputs is compared with the shipped outputs too. Outputs beyond the tolerance are
    held to what float32 leaves open: some networks magnify roundings, of which sums in another order have others.
    """
    references: dict[str, Any] = session.reference_outputs(feeds)
    shipped = shipped_arrays(session.name, session.inputs)
    if shipped is not None and all(np.array_equal(feeds[x], v) for x, v in shipped[0].items()):
        references |= {f"{name}{SHIPPED}": value for name, value in shipped[1].items()}
    found = compare(references, outputs)
    if all(x.is_tolerable for x in found.values()):
        return found
    return compare(references, outputs, _open_to_rounding(session, feeds))


def _open_to_rounding(session: NetworkSession, feeds: dict[str, AnyArray]) -> dict[str, float]:
    """Return by output how far float32 may move it; nothing for a network of several graphs."""
    from autotune.graph.rounding import rounding_spread  # for doubtful outputs alone

    try:
        graph = session.graph
    except AutotuneError:
        return {}
    return rounding_spread(graph, IoAdapter(graph).to_float32(feeds))


def compare(
    references: dict[str, Any], outputs: dict[str, Any], rounding: Mapping[str, float] | None = None
) -> dict[str, Difference]:
    """Compare outputs with references by name; `` (shipped)`` behind a name marks a second reference. ``rounding``
    is how far float32 may move an output, and so its reference."""
    found: dict[str, Difference] = {}
    for name, reference in references.items():
        own = name.removesuffix(SHIPPED)
        found[name] = _compare_values(outputs[own], reference, (rounding or {}).get(own, 0.0))
    return found


def _compare_values(output: Any, reference: Any, rounding: float) -> Difference:
    """Compare tensors, sequences by their worst item, and optionals."""
    if isinstance(reference, list) and isinstance(output, list):
        items = [_compare_values(x, y, rounding) for x, y in zip(output, reference, strict=False)]
        is_tolerable = len(output) == len(reference) and all(x.is_tolerable for x in items)
        return Difference(float(np.max([x.largest for x in items], initial=0.0)), is_tolerable)
    if output is None and reference is None:  # an optional without a value
        return Difference(0.0, True)
    if any(x is None or isinstance(x, list) for x in (output, reference)):
        return Difference(float("inf"), False)
    if np.shape(output) != np.shape(reference):
        return Difference(float("inf"), False)
    return compare_arrays(np.asarray(output), np.asarray(reference), rounding)


def compare_arrays(output: AnyArray, reference: AnyArray, rounding: float = 0.0) -> Difference:
    """Compare arrays of one size in float64, which is exact for integers and booleans.

    Equal infinities and NaNs do not differ. Narrow floats may be one step further apart than others:
    close numbers may round to neighbours. Integers and booleans must be equal. ``rounding`` may part each of the two
    from what no rounding gives, hence both by twice as much.
    """
    actual = np.asarray(output.reshape(reference.shape), np.float64)
    exact = np.asarray(reference, np.float64)
    same = (actual == exact) | (np.isnan(actual) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(actual - exact))
    tolerance = _tolerance(exact, reference.dtype) + 2 * rounding
    is_tolerable = bool(np.all(distance <= tolerance))
    return Difference(float(distance.max(initial=0.0)), is_tolerable, rounding)


def _tolerance(exact: Array64, dtype: np.dtype[Any]) -> Array64:
    """Return the tolerated distance from each reference.

    An output of one value throughout has no range; 1 stands for it.
    """
    kind = _KINDS.get(dtype, DType.FLOAT32)
    is_finite = np.isfinite(exact)
    if not kind.is_float or not is_finite.any():
        return np.zeros_like(exact)
    finite = np.where(is_finite, np.abs(exact), 0.0)
    value_range = float(np.ptp(exact[is_finite])) or 1.0
    tolerance: Array64 = (RELATIVE + _relative_step(kind)) * finite + OF_RANGE * value_range
    return tolerance


def _relative_step(kind: DType) -> float:
    """Return the distance from 1 to the next number of a float narrower than float32; else 0."""
    return 0.0 if kind is DType.FLOAT32 else float(ml_dtypes.finfo(NUMPY[kind]).eps)
