"""How a narrow product goes through tile registers (AMX), and whether it does: NarrowShape → TilePlan or None.

Tiles have to begin at cache lines: one whose rows cross lines takes 16 ns to load, not 3 (Emerald Rapids). Where rows of the
broadcast factor are whole lines, tiles read them in place; else rows are copied to the stack, a row's groups side by side.
A panel of the other factor is two tiles wide.
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
TILE_ROWS = 16
BLOCK_ROWS = 2 * TILE_ROWS
"""Rows that are multiplied at once."""
MOST_SUMS = 256
"""Rows that pass by a panel at once, where panels are far and tiles read rows in place. Their sums wait on the stack."""
MOST_COPIES = 160
"""Copies of a row that are written out."""
LOOPED_LINES = 16
"""Neighbouring cache lines that a loop copies, where there are as many."""
MOST_WAITING = 1024
"""Rows whose sums wait at the most; longer lines are copied."""
NEAR_PANELS_BYTES = 1 << 20
"""Panels of as many bytes may pass by each block of rows; larger ones are far."""
MOST_COPIED_BYTES = 768 << 10
"""Where panels are far, rows of as many bytes are copied at once, and all panels pass by them. No plan copies more."""
SETUP_CYCLES, DOT_CYCLES, ALONE_CYCLES, COPY_CYCLES, END_CYCLES = 350, 20, 28, 4, 70
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
class InPlace:
    """Tiles read rows where they lie: ``lines`` of ``rows`` each, ``line_bytes`` apart. Rows that are all equally far apart are
    lines of one row.

    Sums of a line begin ``step`` rows behind those of the one before. Tiles go on ``across`` lines that are as many rows apart
    in memory, and then also multiply what lies between them; else each line is cut into tiles. ``portion`` lines are multiplied
    by a panel at once. The last portion has ``least`` lines or more, and fewer than ``portion + least``."""

    lines: int
    rows: int
    line_bytes: int
    step: int
    across: bool
    portion: int
    least: int

    @property
    def tiles(self) -> int:
        """Tiles of rows in all."""
        if not self.across:
            return self.lines * -(-self.rows // TILE_ROWS)
        return sum(n * -(-self.positions(lines) // TILE_ROWS) for _, n, lines in self.portions)

    @property
    def portions(self) -> list[tuple[int, int, int]]:
        """Lines before, a number of portions, and the lines of each."""
        if self.lines % self.portion == 0:
            return [(0, self.lines // self.portion, self.portion)]
        whole = max(0, self.lines - self.least) // self.portion
        before = whole * self.portion
        parts = [(0, whole, self.portion), (before, 1, self.lines - before)]
        return [part for part in parts if part[1]]

    @property
    def waiting(self) -> int:
        """Rows whose sums by a panel wait on the stack, at the most."""
        return max(self.positions(lines) for _, _, lines in self.portions)

    def positions(self, lines: int) -> int:
        """Rows that so many lines take, with what lies between them."""
        return (lines - 1) * self.step + self.rows


@dataclass(frozen=True, slots=True)
class TilePlan:
    """``rows`` in all, a reduction of ``groups`` of 4 bytes in chunks of ``chunk``, panels of ``width`` lanes.

    The last chunk ends with the last group and begins ``overlap`` groups early, where the copy has zeros.
    A row begins ``pitch`` bytes behind the one before, ``in_place`` or in the copy. ``copied`` rows are copied at once, a block
    of rows at the least, ``lines`` cache lines of each; both are 0 where rows are read in place."""

    rows: int
    groups: int
    chunk: int
    chunks: int
    width: int
    pitch: int
    copied: int
    lines: int = 0
    in_place: InPlace | None = None

    @property
    def overlap(self) -> int:
        """Groups of the last chunk that count in the one before."""
        return self.chunks * self.chunk - self.groups

    @property
    def dot_cycles(self) -> int:
        """Cycles of a product of two tiles."""
        return ALONE_CYCLES if self.rows <= TILE_ROWS else DOT_CYCLES

    def pairs(self, lanes: int, vector: int) -> int:
        """Tiles of sums for so many elements in lanes."""
        tiles = -(-self.rows // TILE_ROWS) if self.in_place is None else self.in_place.tiles
        return tiles * -(-vector // lanes)


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
    vectors = computing_cycles(loops, best_blocking(loops, isa))
    costs: dict[TilePlan | None, float] = {
        None: vectors * (SLOWER_HALVES if shape.is_bf16 else 1.0)
    }
    written = sum(1 if piece.is_looped else piece.lines for piece in copied)
    if written <= MOST_COPIES and plan.copied * plan.pitch <= MOST_COPIED_BYTES:
        copying = replace(plan, lines=sum(piece.lines for piece in copied))
        costs[copying] = _cycles(copying, loops, isa)
    found = _in_place(plan, loops, groups)
    if found is not None:
        costs[found] = _cycles(found, loops, isa)
    return min(costs, key=costs.__getitem__)


def _in_place(plan: TilePlan, loops: Loops, groups: Groups) -> TilePlan | None:
    """The plan with rows read in place; None where these are not whole cache lines, or fewer than those of a tile."""
    size, row1, row0 = groups.element_bytes, loops.row1, loops.row0
    lies_in_lines = (
        row0.broadcast,
        row1.broadcast,
        groups.run,
        *(k.broadcast for k in groups.outer),
    )
    if plan.rows < TILE_ROWS or groups.step != 1 or row0.broadcast < 1:
        return None
    if any(elements * size % LINE_BYTES for elements in lies_in_lines):
        return None
    pitch = row0.broadcast * size
    most = MOST_SUMS if _panel_bytes(plan.groups, loops) > NEAR_PANELS_BYTES else BLOCK_ROWS
    if row1.size == 1 or row1.broadcast == row0.size * row0.broadcast:
        found = [InPlace(plan.rows, 1, pitch, 1, True, most, TILE_ROWS)]
    else:
        found = _by_lines(loops, size, most)
    found = [place for place in found if place.waiting <= MOST_WAITING]
    if not found:
        return None
    place = min(found, key=lambda place: place.tiles)
    return replace(plan, pitch=pitch, copied=0, in_place=place)


def _by_lines(loops: Loops, size: int, most: int) -> list[InPlace]:
    lines, rows, line_bytes = loops.row1.size, loops.row0.size, loops.row1.broadcast * size
    found = []
    if rows >= TILE_ROWS:
        found.append(InPlace(lines, rows, line_bytes, rows, False, max(1, most // rows), 1))
    step, rest = divmod(loops.row1.broadcast, loops.row0.broadcast)
    if not rest and step >= rows:
        least = 1 + max(0, -(-(TILE_ROWS - rows) // step))
        portion = max(least, most // step)
        found.append(InPlace(lines, rows, line_bytes, step, True, portion, least))
    return found


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
    if _panel_bytes(total, loops) > NEAR_PANELS_BYTES:
        most = max(1, MOST_COPIED_BYTES // (BLOCK_ROWS * pitch))
    portions = -(-blocks // most)
    copied = -(-blocks // portions) * BLOCK_ROWS
    return TilePlan(rows, total, chunk, chunks, width, pitch, copied)


def _panel_bytes(groups: int, loops: Loops) -> int:
    return groups * ELEMENT_BYTES * loops.vector.size


def _cycles(plan: TilePlan, loops: Loops, isa: VectorIsa) -> float:
    pairs = plan.pairs(isa.lanes, loops.vector.size)
    dots = pairs * plan.chunks * plan.dot_cycles
    return SETUP_CYCLES + COPY_CYCLES * plan.rows * plan.lines + dots + END_CYCLES * pairs


def pieces(plan: TilePlan, groups: Groups) -> list[Piece]:
    """The pieces that a row is copied in, from its front to its end. Those of a last chunk that overlaps come last."""
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
