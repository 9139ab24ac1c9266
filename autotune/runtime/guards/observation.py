"""Classes as runs show them: the narrowest class of each input, and how often a class held of late."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.input_class import AllEqual, Between, Classes, InputClass, Padded
from autotune.operators.tensor import Array
from autotune.runtime.guards.assumptions import class_of_arrays

BUCKETS = 8
"""Lengths of padded masks, as parts of the whole, that are told apart: each variant serves all shorter ones."""
WINDOW, LEAST_SAMPLES = 64, 24
"""Newest samples, which tell what is frequent, and the fewest that do."""
LEAST_SHARE = 1 / 8
"""Share of the samples that a class must hold."""
OTHER_WORK = 0.98
"""Share of the operations that a class without padding is expected to leave."""

Key = tuple[tuple[str, InputClass], ...]
"""A class of inputs by name, in the order of names."""


def observed(inputs: Mapping[str, Array], floats: Collection[str]) -> Key:
    """Return the narrowest class of every input that has one; ranges of ``floats`` alone, as those of indices
    change nothing."""
    found = ((name, _observed(value)) for name, value in sorted(inputs.items()))
    return tuple(
        (name, one)
        for name, one in found
        if one is not None and (name in floats or not isinstance(one, Between))
    )


def _observed(value: Array) -> InputClass | None:
    if not value.size:
        return None
    padded = _padded(value) if value.ndim >= 2 else None
    return class_of_arrays([value]) if padded is None else padded


def _padded(value: Array) -> Padded | None:
    """Return the class of a mask that hides its end; None for a mask that does not, and for other arrays."""
    extent = value.shape[-1]
    rows = value.reshape(-1, extent)
    if not (rows[:, 0] == 1).all() or rows[0, -1] != 0:
        return None
    shown = np.flatnonzero(rows.any(axis=0))
    step = -(-extent // BUCKETS)
    length = -(-(int(shown[-1]) + 1) // step) * step
    one = Padded(length) if length < extent else None
    return one if one is not None and one.holds(value) else None


def is_within(narrow: InputClass, wide: InputClass) -> bool:
    """Return True if every array of a class is of another; False where that is not known."""
    match narrow, wide:
        case Padded(), Padded():
            return narrow.length <= wide.length
        case Between(), Between():
            return wide.low <= narrow.low and narrow.high <= wide.high
        case AllEqual(), Between():
            return wide.low <= narrow.value <= wide.high
        case _:
            return narrow == wide


def holds(seen: Key, key: Key) -> bool:
    """Return True if inputs of the class ``seen`` are of the class ``key``."""
    known = dict(seen)
    return all(name in known and is_within(known[name], one) for name, one in key)


def expected_work(key: Key, extents: Mapping[str, int]) -> float:
    """Return the share of a network's operations that is expected to be left for a class."""
    shares = [one.length / extents[name] for name, one in key if isinstance(one, Padded)]
    return min(shares, default=1.0 if not key else OTHER_WORK)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A class that a variant may be built for: share of the samples, and of all work that it should save."""

    key: Key
    share: float
    saving: float

    @property
    def classes(self) -> Classes:
        """Classes by input name."""
        return dict(self.key)


class ClassHistory:
    """The newest ``WINDOW`` samples of a graph's inputs."""

    def __init__(self, graph: Graph) -> None:
        self._extents = {x: graph.shape(x)[-1] for x in graph.inputs if graph.shape(x)}
        self._floats = {x for x in graph.inputs if graph.types[x].dtype.is_float}
        self._seen: deque[Key] = deque(maxlen=WINDOW)

    def add(self, inputs: Mapping[str, Array]) -> None:
        """Take in one sample."""
        self._seen.append(observed(inputs, self._floats))

    @property
    def is_enough(self) -> bool:
        """True once there are enough samples to decide by."""
        return len(self._seen) >= LEAST_SAMPLES

    def share(self, key: Key) -> float:
        """Return the share of the samples that are of a class."""
        return sum(holds(seen, key) for seen in self._seen) / max(1, len(self._seen))

    def best(self, active: Sequence[Key], refused: Collection[Key]) -> Candidate | None:
        """Return the class that should save most beside ``active`` variants; None without a frequent one."""
        if not self.is_enough:
            return None
        known = {(), *refused, *active}
        keys = [key for key in dict.fromkeys(self._keys()) if key not in known]
        if not keys:
            return None
        now = [self._served(seen, active) for seen in self._seen]
        found = [self._candidate(key, now) for key in keys]
        found = [one for one in found if one.share >= LEAST_SHARE and one.saving > 0]
        return max(found, key=lambda one: one.saving, default=None)

    def _keys(self) -> list[Key]:
        """Return the classes of samples, whole and of each input that is padded or constant alone."""
        whole = list(dict.fromkeys(self._seen))
        exact = [tuple(x for x in key if not isinstance(x[1], Between)) for key in whole]
        single = [(x,) for key in whole for x in key]
        return [*whole, *exact, *single]

    def _served(self, seen: Key, active: Sequence[Key]) -> float:
        """Return the work of a sample by the best variant that serves it."""
        work = (expected_work(key, self._extents) for key in active if holds(seen, key))
        return min(work, default=1.0)

    def _candidate(self, key: Key, now: Sequence[float]) -> Candidate:
        work = expected_work(key, self._extents)
        saved = [
            max(0.0, before - work)
            for seen, before in zip(self._seen, now, strict=True)
            if holds(seen, key)
        ]
        return Candidate(key, self.share(key), sum(saved) / len(self._seen))
