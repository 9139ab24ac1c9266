"""Declared ranges of inputs: passes may remove operators that have no effect inside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.errors import InputError, RangeError
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array

Ranges = Mapping[str, tuple[float, float]]
"""Least and largest number by input name."""


def intervals_by_input(graph: Graph, ranges: Ranges | None) -> dict[str, Interval]:
    """Return the ranges as intervals.

    Raises ``InputError`` for a name that is no input of the network, and for an empty range.
    """
    intervals = {}
    for name, (low, high) in (ranges or {}).items():
        if name not in graph.inputs:
            names = ", ".join(map(repr, graph.inputs))
            raise InputError(f"{graph.name}: a range for {name!r}; the inputs are {names}")
        if not low <= high:
            raise InputError(f"{graph.name}: the range {low} to {high} of {name!r} has no numbers")
        intervals[name] = Interval(float(low), float(high))
    return intervals


def check_within(graph: Graph, ranges: Mapping[str, Interval], fed: Mapping[str, Array]) -> None:
    """Raise ``RangeError`` for an input with a number, or NaN, outside of its range."""
    for name, range_ in ranges.items():
        value = fed[name]
        if not value.size:
            continue
        low, high = np.min(value), np.max(value)
        if not (range_.low <= low and high <= range_.high):
            raise RangeError(
                f"{graph.name}: input {name!r} holds {low:g} to {high:g}, and the network was opened "
                f"for {range_.low:g} to {range_.high:g}; feed such, or let the network without ranges "
                "run others (outside, --outside general)"
            )
