"""How a narrow product goes through tile registers (AMX), and whether it does: NarrowShape → TilePlan or None.

Rows of the broadcast factor are copied to the stack, a row's groups side by side, so that tiles begin at cache lines:
a tile whose rows cross lines takes 16 ns to load, not 3 (Emerald Rapids). A panel of the other factor is two tiles wide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product as combinations

from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.gemm.blocking import (
    Blocking,
    Panels,
    best_blocking,
    computing_cycles,
)
from autotune.targets.native.codegen.gemm.loops import Loops
from autotune.targets.native.codegen.gemm.narrow_shape import Groups, NarrowShape, narrow_loops
from autotune.targets.native.cpu.vector_isa import TileUnit, VectorIsa

LINE_BYTES = 64
BLOCK_ROWS = 32
"""Rows that are multiplied at once: two tiles."""
MOST_COPIES = 160
"""Copies of a row that are written out."""
LOOPED_LINES = 16
"""Neighbouring cache lines that a loop copies, where there are as many."""
NEAR_PANELS_BYTES = 512 << 10
"""Panels of as many bytes may pass by each block of rows."""
MOST_COPIED_BYTES = 768 << 10
"""Where panels are larger, rows of as many bytes are copied at once, and all panels pass by them."""
SETUP_CYCLES, DOT_CYCLES, ALONE_CYCLES, COPY_CYCLES, END_CYCLES = 350, 20, 28, 2.0, 70
"""Of configuring and releasing tiles; of a product of tiles, beside other rows' and alone; of a line of a row; of a
tile's way through memory to its end (Emerald Rapids, cycles of 2.8 GHz)."""
SLOWER_HALVES = 2.5
"""A vector product of two neighbours of bf16 takes as many times as long as one of fp32: two, and widening them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """``size`` bytes of a row, from an element of the broadcast factor to a byte of the copy: whole cache lines,
    or less than one."""

    element: int
    size: int
    target: int

    @property
    def lines(self) -> int:
        """Cache lines that it takes."""
        return -(-self.size // LINE_BYTES)

    @property
    def is_looped(self) -> bool:
        """Whether a loop copies it; else its lines are written out."""
        return self.lines >= LOOPED_LINES

    def joins(self, other: Piece, element_bytes: int) -> bool:
        """Whether another piece, of whole lines as this one, lies right behind it on both sides."""
        return (
            self.size % LINE_BYTES == 0
            and other.size == LINE_BYTES
            and other.element == self.element + self.size // element_bytes
            and other.target == self.target + self.size
        )


@dataclass(frozen=True, slots=True)
class TilePlan:
    """``rows`` in all, a reduction of ``groups`` of 4 bytes in chunks of ``chunk``, panels of ``width`` lanes.

    The last chunk ends with the last group and begins ``overlap`` groups early, where the copy has zeros.
    A row of the copy takes ``pitch`` bytes; ``copied`` rows are copied at once, a block of rows at the least."""

    rows: int
    groups: int
    chunk: int
    chunks: int
    width: int
    pitch: int
    copied: int

    @property
    def overlap(self) -> int:
        """Groups of the last chunk that count in the one before."""
        return self.chunks * self.chunk - self.groups

    @property
    def dot_cycles(self) -> int:
        """Cycles of a product of two tiles."""
        return ALONE_CYCLES if self.rows <= BLOCK_ROWS // 2 else DOT_CYCLES

    def pairs(self, lanes: int, vector: int) -> int:
        """Tiles of sums for so many elements in lanes."""
        return -(-self.rows // (BLOCK_ROWS // 2)) * -(-vector // lanes)


@lru_cache(maxsize=4096)
def tile_plan(shape: NarrowShape, isa: VectorIsa) -> TilePlan | None:
    """How tiles multiply a product; None where they do not, or where vectors are faster. Whether a panel is one
    or two tiles wide takes no part; other panels are for vectors."""
    panel = shape.product.panel or 1
    if isa.tiles is None or shape.copies or panel not in (1, isa.lanes, 2 * isa.lanes):
        return None
    if not shape.is_bf16 and shape.lanes.as_read(False)[1]:
        return None
    shape = replace(shape, product=replace(shape.product, panel=isa.lanes))
    loops, groups = narrow_loops(shape, isa)
    if groups.step != 1 and groups.run > 1:
        return None
    wide = isa.lanes * (2 if loops.vector.size > isa.lanes else 1)
    plan = _plan(loops, groups, isa.tiles, wide if panel == 1 else panel)
    copied = pieces(plan, groups)
    if sum(1 if piece.is_looped else piece.lines for piece in copied) > MOST_COPIES:
        return None
    vectors = computing_cycles(loops, best_blocking(loops, isa))
    vectors *= SLOWER_HALVES if shape.is_bf16 else 1.0
    lines = sum(piece.lines for piece in copied)
    return plan if _cycles(plan, lines, loops, isa) < vectors else None


def _plan(loops: Loops, groups: Groups, unit: TileUnit, width: int) -> TilePlan:
    total = groups.run_groups
    for loop in groups.outer:
        total *= loop.size
    chunk = min(unit.row_bytes // ELEMENT_BYTES, total)
    chunks = -(-total // chunk)
    lines = chunks * unit.row_bytes // LINE_BYTES
    pitch = LINE_BYTES * (lines + 1 - lines % 2)
    rows = loops.row1.size * loops.row0.size
    blocks = -(-rows // BLOCK_ROWS)
    most = 1
    if total * ELEMENT_BYTES * loops.vector.size > NEAR_PANELS_BYTES:
        most = max(1, MOST_COPIED_BYTES // (BLOCK_ROWS * pitch))
    portions = -(-blocks // most)
    copied = -(-blocks // portions) * BLOCK_ROWS
    return TilePlan(rows, total, chunk, chunks, width, pitch, copied)


def _cycles(plan: TilePlan, lines: int, loops: Loops, isa: VectorIsa) -> float:
    pairs = plan.pairs(isa.lanes, loops.vector.size)
    dots = pairs * plan.chunks * plan.dot_cycles
    return SETUP_CYCLES + COPY_CYCLES * plan.rows * lines + dots + END_CYCLES * pairs


def pieces(plan: TilePlan, groups: Groups) -> list[Piece]:
    """What a row is copied in: those of whole chunks first, then those of a last one that overlaps, each from
    the front."""
    found: list[Piece] = []
    border = (plan.chunks - 1) * plan.chunk * ELEMENT_BYTES
    shift = plan.overlap * ELEMENT_BYTES
    for number, trips in enumerate(combinations(*(range(loop.size) for loop in groups.outer))):
        start = sum(trip * loop.broadcast for trip, loop in zip(trips, groups.outer, strict=True))
        begin = number * groups.run_groups * ELEMENT_BYTES
        done, size = 0, groups.run * groups.element_bytes
        while done < size:
            at = begin + done
            most = min(LINE_BYTES, size - done)
            if at < border:
                most = min(most, border - at)
            target = at if at < border else at + shift
            piece = Piece(start + done // groups.element_bytes, most, target)
            if found and found[-1].joins(piece, groups.element_bytes):
                before = found.pop()
                piece = replace(before, size=before.size + most)
            found.append(piece)
            done += most
    return found


def tile_blocking(plan: TilePlan, loops: Loops, isa: VectorIsa) -> Blocking:
    """The panels of a product in tiles; rows are walked by ``tile_products.py``."""
    full, rest = divmod(loops.vector.size, plan.width)
    panels = []
    if full:
        panels.append(Panels(0, full, plan.width // isa.lanes, isa.lanes, ()))
    if rest:
        vectors = -(-rest // isa.lanes)
        panels.append(Panels(full, 1, vectors, rest - (vectors - 1) * isa.lanes, ()))
    return Blocking(plan.width, tuple(panels), loops.row1.size > 1, False, False, 0, 0)
