"""Axes of the report's plots: data to pixels, tick positions and labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps ``[low, high]`` onto pixels ``[start, end]``, linearly or by decades."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        assert self.high > self.low, (self.low, self.high)
        assert not self.log or self.low > 0, self.low

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; clamp values outside to the border."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 6) -> tuple[float, ...]:
        """Return about ``count`` round values inside the axis."""
        return (
            _log_ticks(self.low, self.high, count)
            if self.log
            else _ticks(self.low, self.high, count)
        )


def covering(values: Iterable[float], start: float, end: float, *, log: bool = False) -> Axis:
    """Return an axis around all values with a little room; a linear one begins at 0."""
    finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if log:
        low, high = min(finite, default=1.0), max(finite, default=10.0)
        return Axis(low / 1.25, max(high, low * 2) * 1.25, start, end, log=True)
    return Axis(0.0, max(finite, default=1.0) * 1.05 or 1.0, start, end)


def _ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    rough = (high - low) / count
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(decade * m for m in (1, 2, 2.5, 5, 10) if decade * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(i * step for i in range(first, last + 1))


def _log_ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = tuple(m * 10.0**d for d in decades for m in mantissas if low <= m * 10.0**d <= high)
        if len(ticks) <= count + 2:
            return ticks
    return ticks


def short(value: float) -> str:
    """Return a number in at most three digits with an SI prefix: 1530000 gives ``1.53M``."""
    if value == 0:
        return "0"
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if abs(value) >= factor * 0.9995:
            return f"{_three(value / factor)}{prefix}"
    return _three(value)


def _three(value: float) -> str:
    text = f"{value:.3g}"
    return f"{float(text):g}" if "e" in text else text
