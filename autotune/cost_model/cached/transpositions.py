"""How a CPU's kernels transpose a tile: in squares of registers, by registers put side by side, or element by
element. ``work_counts.py`` counts by it; the kernels are those of ``codegen/vector/square_copy.py`` and
``interleaving.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.cost_model.cached.work_kinds import Floats
from autotune.cost_model.core_caches import first_level
from autotune.cost_model.steps.extents import Extent
from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.vector.interleaving import COUNTS
from autotune.targets.native.codegen.writing.transposition import BLOCK


@dataclass(frozen=True, slots=True)
class Transposition:
    """A tensor of ``shape`` whose dimension d is dimension ``perm[d]`` of its operand."""

    shape: tuple[int, ...]
    perm: tuple[int, ...]

    def work(
        self, tile: Sequence[Extent], lanes: int, like: Floats, computes: bool
    ) -> dict[str, Floats]:
        """Return the counts of an element [n], by kinds of work, of tiles with these extents [n] of the result.

        ``computes`` says that a function is computed of the elements. Arrays take the shape of ``like``.
        """
        inner = [d for d, n in enumerate(self.shape) if n > 1] or [0]
        outer = sorted(inner, key=lambda d: self.perm[d])
        across, along = (
            self._run(order, other, tile, like) for order, other in ((inner, outer), (outer, inner))
        )
        is_interleaved = np.isin(across, COUNTS) & (along >= lanes) & (not computes)
        least = np.minimum(np.minimum(across, along), lanes)
        is_squared = (least >= BLOCK) & ~is_interleaved
        edge = np.where(is_squared, 2.0 ** np.floor(np.log2(least)), 1.0)
        squared = np.ceil(along / edge) * np.ceil(across / edge) * edge**2 / (along * across)
        squared = squared * is_squared
        collide = self._collide(inner[-1], outer[-1], edge)
        return {
            "squares": squared / edge**2,
            "squared": squared,
            "squared_set": squared * collide,
            "interleaved": is_interleaved / lanes * like,
            "strided": 1.0 * ~(is_squared | is_interleaved) * like,
        }

    def _run(
        self, order: Sequence[int], other: Sequence[int], tile: Sequence[Extent], like: Floats
    ) -> Floats:
        """Elements that lie side by side along the last dimensions of one order, and a stride apart in the other."""
        run, whole = like * tile[order[-1]], np.asarray(tile[order[-1]]) == self.shape[order[-1]]
        for before, here in zip(order[-2::-1], order[:0:-1], strict=True):
            if other.index(before) + 1 != other.index(here):
                break
            run = np.where(whole, run * tile[before], run)
            whole = whole & (np.asarray(tile[before]) == self.shape[before])
        return run

    def _collide(self, last: int, first: int, edge: Floats) -> Floats:
        """Return 1 for squares whose lines fall into few sets of a first-level cache, on either side."""
        operand = [0] * len(self.shape)
        for d, source in enumerate(self.perm):
            operand[source] = self.shape[d]
        pitches = prod(self.shape[first + 1 :]), prod(operand[self.perm[last] + 1 :])
        found: Floats = np.zeros_like(edge)
        for size in np.unique(edge).tolist():
            crowded = any(first_level().crowded(ELEMENT_BYTES * p, int(size)) for p in pitches)
            found = np.where(edge == size, float(crowded), found)
        return found
