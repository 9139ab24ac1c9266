"""Which bytes of its operands a program fetches from beyond each cache, of the calls and loops that it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.cost_model.bound.footprint import (
    LINE_ELEMENTS,
    Cache,
    Reach,
)
from autotune.cost_model.bound.kernel_work import Work
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.program import Program
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Space
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.rows.reduction import Reduction
from autotune.targets.native.codegen.rows.row_run import RowRun
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.codegen.winograd import TileTransform

Place = tuple[int, int, int]
"""Space, number, and first element in the scratchpad: what operands at one place share."""


@dataclass(frozen=True, slots=True)
class Use:
    """An operand of a call: where it lies, what one call reaches, and (level, trips, step) of the loops
    that move it."""

    place: Place
    reach: Reach
    moves: tuple[tuple[int, int, int], ...]
    written: bool

    def within(self, level: int) -> int:
        """Return the bytes that it reaches while the loops from ``level`` on run."""
        return self.reach.over([(n, step) for at, n, step in self.moves if at >= level]).bytes

    @property
    def row_bytes(self) -> int:
        """The bytes that lie in a row of what one call reaches, a cache line at least."""
        return ELEMENT_BYTES * max(LINE_ELEMENTS, self.reach.run)


@dataclass(frozen=True, slots=True)
class Visit:
    """A call with the trips of the loops around it, and its operands."""

    call: Call
    leaf: Leaf
    trips: tuple[int, ...]
    uses: tuple[Use, ...]


def add_traffic(
    program: Program, visits: Sequence[Visit], caches: Sequence[Cache], total: Work
) -> None:
    """Add the bytes of each operand that come from beyond each cache."""
    depth = max((len(visit.trips) for visit in visits), default=0)
    # bytes that the body around each visit reaches, by level: bodies are told apart by their blocks
    held: dict[tuple[int, int], int] = {}
    groups: dict[tuple[int, int], list[Visit]] = {}
    for visit in visits:
        for level in range(min(depth, len(visit.trips)) + 1):
            groups.setdefault((level, _body(visit, level)), []).append(visit)
    for key, members in groups.items():
        held[key] = bytes_together(program, members, key[0])
    for visit in visits:
        sizes = [held[level, _body(visit, level)] for level in range(len(visit.trips) + 1)]
        kind = _traffic_kind(visit.call)
        for use in visit.uses:
            way = "written" if use.written else "read"
            row_bytes = use.row_bytes
            for number, cache in enumerate(caches):
                misses = _missing(visit, use, sizes, cache)
                if not misses:
                    continue
                total[f"{kind}_{way}_{number + 2}"] += misses
                if number < 2:
                    total[f"{kind}_rows_{number + 2}"] += misses / row_bytes


def _missing(visit: Visit, use: Use, sizes: Sequence[int], cache: Cache) -> float:
    """Return the bytes of an operand that come from beyond a cache in all trips of the loops around its call;
    ``sizes`` are the bytes that each loop reaches, outermost first.

    What the loops from one on reach stays between two runs of them, or has to come again each time.
    """
    left, found, moved = 1.0, 0.0, 0.0
    for level, size in enumerate(sizes):
        kept = cache.held_share(size)
        found += left * kept * moved
        left *= 1.0 - kept
        if not left:
            return found
        moved = float(use.within(level) * prod(visit.trips[:level]))
    return found + left * moved


def _body(visit: Visit, level: int) -> int:
    return id(visit.leaf.path[level - 1]) if level else 0


def _traffic_kind(call: Call) -> str:
    if not isinstance(call.kernel, KernelSpec):
        return "copy"
    match call.kernel.constants:
        case GemmShape() | NarrowShape() | TileRun():
            return "product"
        case PanelCopy():
            return "copy"
        case VectorRun():
            return "run"
        case RowRun():
            return "row"
        case Reduction():
            return "reduce"
        case TileTransform():
            return "transform"


def bytes_together(program: Program, visits: Sequence[Visit], level: int) -> int:
    """Return the bytes that all calls of a body reach while it runs once: each place once."""
    by_place: dict[Place, dict[object, int]] = {}
    for visit in visits:
        for use in visit.uses:
            each = by_place.setdefault(use.place, {})
            reached = use.within(level)
            each[use.moves] = max(each.get(use.moves, 0), reached)
    total = 0
    for place, each in by_place.items():
        reached = sum(each.values())
        if place[0] == Space.TENSOR:
            size = ELEMENT_BYTES * prod(program.tensors[place[1]].shape)
            reached = min(reached, size)
        total += reached
    return total
