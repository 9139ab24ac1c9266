"""Whether any schedule of a group fits a machine: asked before schedules are ranked or chosen by rule."""

from __future__ import annotations

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.schedule.fit import scratchpad_elements
from autotune.schedule.schedule import NestSchedule
from autotune.targets.spec import HardwareSpec


def legal_nests(group: Group, spec: HardwareSpec) -> tuple[Nest, ...] | None:
    """The nests of a group, or None when no schedule of it fits the machine."""
    nests = analyse(group)
    if isinstance(nests, Rejection):
        return None
    small = (scratchpad_elements(nest, _smallest(nest)) for nest in nests)
    return nests if max(small) <= spec.tile_elements else None


def _smallest(nest: Nest) -> NestSchedule:
    """The schedule that needs the least scratchpad: every tile as small as it may be."""
    tile = tuple(
        n if d in nest.forced else min(n, nest.granule(d)) for d, n in enumerate(nest.root_shape)
    )
    k_tile = tuple(1 if c.chunkable else c.k_extent for c in nest.contractions)
    return NestSchedule(tile, tuple(range(len(tile))), k_tile, buffers=1)
