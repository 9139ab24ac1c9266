"""Grids of quantised numbers, x ≈ (q − zero point) · scale, and how a method chooses them.

Scheme: Jacob et al. 2018, arXiv:1712.05877; percentile and least squared error as surveyed by Wu et al.
2020, arXiv:2004.09602, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from autotune.quantisation.histogram import Histogram

LEAST_SCALE = 2.0**-100
"""Steps are not smaller: products of two scales stay normal float32 numbers."""
WEIGHT_LIMIT = 127
"""Weights are −127 to 127, symmetric around zero."""
BIAS_LIMIT = 2.0**23
"""Largest quantised bias: float32 holds it exactly, also where sums of products are added to it."""
_SHRINKS = np.linspace(1.0, 0.2, 41)
"""Parts of the full range that the least squared error is looked for among."""


class NarrowFormat(StrEnum):
    """Format that products multiply: int8 with scales, or bf16, to which numbers are only rounded."""

    INT8 = "int8"
    BF16 = "bf16"


class Method(StrEnum):
    """How a range follows from the observed elements."""

    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"


class Activations(StrEnum):
    """Element type of quantised activations."""

    INT8 = "int8"
    UINT8 = "uint8"

    @property
    def limits(self) -> tuple[int, int]:
        """Least and largest number."""
        return (-128, 127) if self is Activations.INT8 else (0, 255)


@dataclass(frozen=True, slots=True)
class Grid:
    """Scale and zero point of an activation tensor."""

    scale: np.float32
    zero: int

    def __post_init__(self) -> None:
        assert np.isfinite(self.scale) and self.scale > 0, self.scale


def activation_grid(seen: Histogram, kind: Activations, method: Method, percentile: float) -> Grid:
    """Return the grid of a tensor; zero is always one of its numbers."""
    match method:
        case Method.MINMAX:
            low, high = seen.low, seen.high
        case Method.PERCENTILE:
            low, high = _inner_range(seen, percentile)
        case Method.MSE:
            low, high = _least_error_range(seen)
        case _:
            assert_never(method)
    return _grid(low, high, kind)


def weight_scales(
    weight: npt.NDArray[Any], axis: int | None, method: Method
) -> npt.NDArray[np.float32]:
    """Return the scale of each channel of a weight along ``axis``, or of all of it (shape [])."""
    rows = weight.reshape(1, -1) if axis is None else np.moveaxis(weight, axis, 0)
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    largest = np.abs(rows).max(axis=1)
    scales = largest / WEIGHT_LIMIT
    if method is Method.MSE:
        scales = scales * _best_shrinks(rows, np.where(scales > 0, scales, 1.0))
    safe = np.maximum(np.where(largest > 0, scales, 1.0), LEAST_SCALE).astype(np.float32)
    return safe.reshape(()) if axis is None else safe


def quantise_weight(
    weight: npt.NDArray[Any], scales: npt.NDArray[np.float32], axis: int | None
) -> npt.NDArray[np.int8]:
    """Return a weight in steps of its scales, rounded half to even."""
    steps = np.rint(weight.astype(np.float32) / spread(scales, axis, weight.ndim))
    narrow: npt.NDArray[np.int8] = np.clip(steps, -WEIGHT_LIMIT, WEIGHT_LIMIT).astype(np.int8)
    return narrow


def spread(scales: npt.NDArray[np.float32], axis: int | None, rank: int) -> npt.NDArray[np.float32]:
    """Shape scales of channels to broadcast over a tensor of this rank."""
    if axis is None:
        return scales
    return scales.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _grid(low: float, high: float, kind: Activations) -> Grid:
    least, largest = kind.limits
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return Grid(np.float32(1.0), 0)
    scale = np.float32(max((high - low) / (largest - least), LEAST_SCALE))
    zero = round(least - low / float(scale))
    return Grid(scale, min(largest, max(least, zero)))


def _inner_range(seen: Histogram, percentile: float) -> tuple[float, float]:
    """Return the range without the outermost elements: half of the rest beyond each end."""
    total = int(seen.counts.sum())
    if not total:
        return seen.low, seen.high
    tail = total * (1 - percentile / 100) / 2
    sums = np.cumsum(seen.counts)
    step = seen.bound * 2 / len(sums)
    first = int(np.searchsorted(sums, tail, side="right"))
    last = int(np.searchsorted(sums, total - tail, side="left"))
    low, high = -seen.bound + first * step, -seen.bound + (last + 1) * step
    return max(low, seen.low), min(high, seen.high)


def _least_error_range(seen: Histogram) -> tuple[float, float]:
    """Return the range whose 256 steps err least in squares: both ends shrink together, then each alone."""
    filled = np.flatnonzero(seen.counts)
    if not filled.size:
        return seen.low, seen.high
    values, counts = seen.centres[filled], seen.counts[filled].astype(np.float64)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)

    def best(pairs: list[tuple[float, float]]) -> tuple[float, float]:
        return min(pairs, key=lambda ends: _squared_error(values, counts, *ends))

    low, high = best([(low * s, high * s) for s in _SHRINKS])
    low, high = best([(low * s, high) for s in _SHRINKS])
    return best([(low, high * s) for s in _SHRINKS])


def _squared_error(
    values: npt.NDArray[np.float64], counts: npt.NDArray[np.float64], low: float, high: float
) -> float:
    if low >= high:
        return float(counts @ values**2)
    step = (high - low) / 255
    zero = np.rint(-low / step)
    nearest = (np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step
    return float(counts @ (values - nearest) ** 2)


def _best_shrinks(
    rows: npt.NDArray[np.float64], scales: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return for each row the part of its scale that errs least in squares."""
    best = np.ones(len(rows))
    least = np.full(len(rows), np.inf)
    for shrink in _SHRINKS:
        steps = (scales * shrink)[:, None]
        nearest = np.clip(np.rint(rows / steps), -WEIGHT_LIMIT, WEIGHT_LIMIT) * steps
        error = ((rows - nearest) ** 2).sum(axis=1)
        best, least = np.where(error < least, shrink, best), np.minimum(error, least)
    return best
