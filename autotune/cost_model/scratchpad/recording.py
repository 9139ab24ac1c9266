"""A nest's analysis as a tape: recorded once from the NumPy code, then run for many schedules without it.

Of the analysis only what the learned model reads is kept. The numbers equal those of ``ScratchpadAnalysis``, bit for
bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.cost_model.estimate import Best
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.features import FEATURES
from autotune.cost_model.scratchpad.pipeline import Fewest
from autotune.cost_model.steps.tape import Tape
from autotune.cost_model.steps.tiling import Floats
from autotune.fusion.nest import Nest
from autotune.kernels.tape.recorder import Recorder
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class Analysed:
    """What the learned model reads of ``n`` analysed schedules: features [n, F], analytic cycles [n], femtojoules of
    all actions and of a cycle [n], DRAM bytes [n]."""

    features: Floats
    estimate: Floats
    dynamic_fj: Floats
    leak_fj: Floats
    moved_bytes: Floats

    @property
    def work(self) -> Floats:
        """Return no counts [n, 0]: none has unit costs."""
        return np.empty((len(self.estimate), 0))

    def cycles(self, unit_costs: Floats) -> Floats:
        """Return ``estimate``: no unit costs are fitted."""
        return self.estimate


@dataclass(frozen=True, slots=True)
class RecordedNest:
    """The analysis of one nest on one machine."""

    tape: Tape

    @classmethod
    def of(cls, nest: Nest, spec: HardwareSpec) -> RecordedNest:
        """Record the analysis. Raises ``Untraceable`` where it cannot be."""
        a = recorded_analysis(nest, spec)
        features = [feature.compute(a) for feature in FEATURES]
        others = [a.estimate, a.dynamic_fj, a.leak_fj, a.moved_bytes]
        return cls(Tape.of(a.table, [*features, *others]))

    def run(self, table: ScheduleTable, best: Best | None = None) -> Analysed:
        """Analyse legal schedules of the nest; only those that may be among the ``best`` are laid out."""
        found = self.tape.run(table, None if best is None else Fewest.of(best))
        features = np.ascontiguousarray(found[: len(FEATURES)].T)
        return Analysed(features, *found[len(FEATURES) :])


def recorded_analysis(nest: Nest, spec: HardwareSpec) -> ScratchpadAnalysis:
    """Return an analysis whose arrays are recorded, over the decisions that legal schedules may make."""
    rank, pieces = len(nest.root_shape), len(nest.contractions)
    recorder = Recorder(2 * rank + pieces + 3)

    def column(number: int, only: int | None) -> Ints:
        kept: Ints = recorder.traced([number], "i")
        return kept if only is None else 0 * kept + only

    splits = {*nest.tileable}
    tiles = [column(d, None if d in splits else n) for d, n in enumerate(nest.root_shape)]
    order = [column(rank + d, None) for d in range(rank)]
    k_tiles = [
        column(2 * rank + k, None if c.chunkable else c.k_extent)
        for k, c in enumerate(nest.contractions)
    ]
    buffers, cores, im2col = (
        column(2 * rank + pieces + at, only)
        for at, only in enumerate(
            (None, 1 if spec.cores == 1 else None, None if nest.takes_patches else 0)
        )
    )

    def together(columns: list[Ints]) -> Ints:
        empty: Ints = recorder.traced(np.empty((1, 0), dtype=np.int32), "i")
        return np.stack(columns, axis=1) if columns else empty

    decisions = together(tiles), together(order), together(k_tiles)
    return ScratchpadAnalysis(nest, ScheduleTable(*decisions, buffers, cores, im2col), spec)
