"""What a machine's cost model predicts of a network whose products have these formats or those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.quantisation.grid import Grid
from autotune.quantisation.precision import PRICED
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Formats, Scheme, write_qdq
from autotune.quantisation.target_costs import TargetCosts
from autotune.tuner.progress import Progress


@dataclass
class TargetPrices:
    """Prices of one network on one machine; ``asked`` counts them."""

    costs: TargetCosts
    network: Network
    grids: Mapping[str, Grid]
    scheme: Scheme
    dims: Mapping[str, int]
    progress: Progress
    asked: int = 0

    def __call__(self, formats: Formats) -> float:
        """Return the predicted seconds of one run."""
        self.asked += 1
        self.progress("predict", min(self.asked, PRICED), PRICED)
        made = write_qdq(self.network, formats, self.grids, self.scheme)
        return self.costs.seconds(made, self.dims)
