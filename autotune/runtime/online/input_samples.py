"""Copies of recent inputs, and edge values beside them: what a proposed version is checked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array

EVERY = 32
"""Requests of which one is offered."""
KEPT = 3
"""Newest copies that are kept."""
LIMIT_BYTES = 16 << 20
"""Memory of the copies; larger inputs are copied one at a time, and less often."""
LARGE = 16.0
"""Edge values over the largest recorded one, where no range is given."""
DENORMAL = np.float32(1e-40)

Inputs = dict[str, Array]


class InputSamples:
    """Keeps copies of some requests' inputs: callers may write to their arrays. Safe to use from several threads."""

    def __init__(self) -> None:
        self._skips = 0
        self._kept: deque[Inputs] = deque(maxlen=KEPT)

    def offer(self, inputs: Mapping[str, Array]) -> None:
        """Copy a request's inputs; large ones seldom."""
        self._skips -= 1
        if self._skips > 0:
            return
        size = sum(value.nbytes for value in inputs.values())
        large = size * KEPT > LIMIT_BYTES
        self._skips = 1 + size // LIMIT_BYTES
        copy = {name: value.copy() for name, value in inputs.items()}
        if large:  # whoever reads meanwhile has the one before, never none
            self._kept = deque([copy], KEPT)
        else:
            self._kept.append(copy)

    def recorded(self) -> list[Inputs]:
        """Return the copies, oldest first. They must not be written to."""
        return list(self._kept)


def with_edges(graph: Graph, ranges: Mapping[str, Interval], samples: list[Inputs]) -> list[Inputs]:
    """Return samples, then zeros, large numbers of both signs and denormals, within the ranges of the inputs.

    Integers stay those of the last sample, as they index tables.
    """
    if not samples:
        return []
    last = samples[-1]
    edges: list[Inputs] = []
    for value in ("zero", "high", "low", "denormal"):
        edge = {}
        for name, array in last.items():
            if not graph.types[name].dtype.is_float:
                edge[name] = array
                continue
            bounds = ranges.get(name)
            filled = np.full_like(array, _edge(value, array))
            edge[name] = filled if bounds is None else np.clip(filled, bounds.low, bounds.high)
        edges.append(edge)
    return [*samples, *edges]


def _edge(value: str, array: Array) -> np.float32:
    large = np.float32(LARGE * max(1.0, float(np.nanmax(np.abs(array), initial=0.0))))
    return {"zero": np.float32(0), "high": large, "low": -large, "denormal": DENORMAL}[value]
