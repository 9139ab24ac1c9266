"""The first configurations of a search: drawn so that every level of a parameter is used about equally often."""

from __future__ import annotations

import numpy as np

from autotune.tuner.blackbox.space import Space

POOL = 500
"""Random configurations that the design chooses from. Far-apart ones did worse: the ends of ranges are slow."""


def initial_design(space: Space, count: int, rng: np.random.Generator) -> list[int]:
    """Return ``count`` configurations with balanced levels, greedily, or all there are."""
    pool = rng.permutation(space.size)[:POOL]
    crowding = np.zeros(len(pool))
    chosen: list[int] = []
    for _ in range(min(count, len(pool))):
        place = int(np.argmin(crowding))
        chosen.append(int(pool[place]))
        for dimension in space.dimensions:
            codes = dimension.codes[pool]
            crowding += dimension.levels * (codes == codes[place])
        crowding[place] = np.inf
    return chosen
