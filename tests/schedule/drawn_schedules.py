"""Random legal schedules out of the enumerated space."""

from __future__ import annotations

import numpy as np

from autotune.fusion.nest import Nest
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_nest
from autotune.targets.capacity import Capacity

DRAW = 256
"""Rows from which one is drawn."""


def random_schedule(
    nests: tuple[Nest, ...], capacity: Capacity, cores: int, rng: np.random.Generator
) -> Schedule | None:
    """A legal schedule drawn with ``rng``; None when none fits."""
    parts = []
    for nest in nests:
        table = enumerate_nest(nest, capacity, cores, DRAW, rng, im2col=True)
        if not len(table):
            return None
        parts.append(table.row(int(rng.integers(len(table)))))
    return Schedule(tuple(parts))
