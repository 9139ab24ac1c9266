"""The trained parts of a cost model: ratios, the size of their error, and what stands behind a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.cost_model.forest import Forest
from autotune.cost_model.support import Support, novelty
from autotune.cost_model.training import Ratios

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Learned:
    """The trained parts: trees for the ratios to the analytic costs, trees for the size of the
    cycles' log error (None: 1 everywhere), the conformal factor on it, and percentiles of the support of
    held-out training rows (None: not known). ``formula_chooses`` where trees price better than the plain formula, but
    choose worse among schedules of a group."""

    ratios: Ratios
    scale: Forest | None
    factor: float
    known_support: Floats | None = None
    formula_chooses: bool = False

    @cached_property
    def support(self) -> Support | None:
        """Support of rows by the trees for cycles, else by those for their error; None without any."""
        forests = self.ratios.cycle_forests or (() if self.scale is None else (self.scale,))
        return Support(forests) if forests else None

    def novelty(self, x: Floats) -> Floats:
        """Share [n] of training rows with more support than rows [n, F]; NaN where it is not known."""
        if self.known_support is None or self.support is None:
            return np.full(len(x), np.nan)
        return novelty(self.support.of(x), self.known_support)
