"""What rows of features.py are made of: functions of an analysis that several features, or a long definition,
need. All give one number per schedule, [n]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.tiling import Floats
from autotune.isa.opcodes import Unit
from autotune.operators.op import Family
from autotune.schedule.block_sparsity import needed
from autotune.targets.spec import HardwareSpec

Term = Callable[[Analysis], Floats]

MOVES = (
    Family.CONCAT,
    Family.RESHAPE,
    Family.TRANSPOSE,
    Family.SLICE,
    Family.PAD,
    Family.EXPAND,
    Family.GATHER,
)
"""What only rearranges values."""


def ratio(value: Floats, whole: Floats) -> Floats:
    """A share of what may be 0."""
    found: Floats = value / np.maximum(whole, 1e-9)
    return found


def busy_share(unit: Unit) -> Term:
    """Busy cycles of a unit over the estimate."""
    return lambda a: ratio(a.busy[unit], a.estimate)


def instructions(unit: Unit) -> Term:
    """Instructions of a unit."""
    return lambda a: a.total(lambda s: s.instructions, unit)


def innermost_share(unit: Unit) -> Term:
    """Cycles of a unit inside of the innermost loop over all of its cycles."""

    def share(a: Analysis) -> Floats:
        inner = a.zeros
        for step in a.steps:
            if step.unit is unit:
                inner = inner + np.where(step.level == a.tiling.depth, step.cycles, 0.0)
        return ratio(inner, a.total(lambda s: s.cycles, unit))

    return share


def stages(*families: Family) -> Term:
    """Stages of operators of these families that are no views."""

    def count(a: Analysis) -> Floats:
        return a.zeros + sum(s.op.family in families and not s.view for s in a.nest.stages)

    return count


def of_spec(value: Callable[[HardwareSpec], float]) -> Term:
    """A number of the machine's, the same for all schedules."""
    return lambda a: a.zeros + value(a.spec)


def fold_use(a: Analysis) -> Floats:
    """Multiply-adds over those of a fully used array."""
    peak = a.spec.matrix.rows * a.spec.matrix.cols * a.tiling.active_cores
    return ratio(a.multiply_adds, a.busy[Unit.MATRIX] * peak)


def zero_share(a: Analysis) -> Floats:
    """Of all contractions: what they issue is useful work, what zero blocks leave out is none."""
    products = [stage for stage in a.nest.stages if stage.contraction is not None]
    left = [needed(a.nest, a.table, stage) for stage in products]
    out = a.zeros + sum(1.0 - kept.share for kept in left if kept is not None)
    return ratio(out, a.zeros + len(products))


def pieces(a: Analysis) -> Floats:
    """Most reduction pieces of a contraction."""
    most = a.zeros + 1.0
    for step in a.steps:
        if step.unit is Unit.MATRIX:
            most = np.maximum(most, step.pieces)
    return most


def trips(a: Analysis) -> Floats:
    """Root tiles."""
    tiles: Floats = np.prod(a.tiling.parts[: a.tiling.rank], axis=0, dtype=np.float64) + a.zeros
    return tiles


def innermost_trips(a: Analysis) -> Floats:
    """Tiles along the innermost loop."""
    tiles = a.zeros + 1.0
    for d in range(a.tiling.rank):
        here = (a.tiling.position[d] == a.tiling.depth) & (a.tiling.depth >= 0)
        tiles = np.where(here, a.tiling.parts[d], tiles)
    return tiles


def innermost_rest(a: Analysis) -> Floats:
    """Whether the innermost loop has a rest peeled off: 1 or 0."""
    rested = a.zeros
    for d in range(a.tiling.rank):
        here = (a.tiling.position[d] == a.tiling.depth) & (a.tiling.depth >= 0)
        rested = np.where(here & (a.tiling.rest[d] > 0), 1.0, rested)
    return rested


def rest_share(a: Analysis) -> Floats:
    """The share of tiles that are rests in some dimension."""
    whole = a.zeros + 1.0
    for d in range(a.tiling.rank):
        whole = whole * np.where(a.tiling.rest[d] > 0, a.tiling.full[d] / a.tiling.parts[d], 1.0)
    return 1.0 - whole


def queue_pressure(a: Analysis) -> Floats:
    """Above 1 the sequencer stalls on a full queue before it reaches the next tile's loads."""
    units = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)
    most = np.max([a.total(lambda s: s.instructions, unit) for unit in units], axis=0)
    return ratio(most, trips(a)) / a.spec.control.queue_depth
