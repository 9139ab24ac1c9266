"""Register and loop blocking of a GEMM by a small cost function, between loops.py and the
writers: how wide a panel is, how rows are cut into tiles, and which loop is outside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.gemm.loops import Loops
from autotune.targets.native.cpu.vector_isa import VectorIsa

PIPES = 2  # FMAs, and loads, a cycle
LATENCY = 4.5  # cycles of an FMA, 4, and what is lost where every sum is waited for
LOAD = 1.1  # of a pipe that a load takes: they seldom pair so well as FMAs
GROUPED_REGISTERS = 3  # of a row and vector in groups: a sum, what is multiplied, that over lanes
MAX_ROWS = 14  # of a tile, which bounds the code
LINE_BYTES = 64
WAY_BYTES, WAYS = 4096, 8  # of an L1 cache: lines so far apart share a set, which holds so many
LEAST_RUN = 32  # neighbours in a row: two lines, fewer are used up before they are lost
MIDDLE_BYTES = 384 * 1024  # that stay in an L2 cache
STREAMED_BYTES = 1024 * 1024  # of panels that one after another come fast enough
OUTER_BYTES_PER_CYCLE = 16  # from beyond it, mostly hidden
NEAR_BYTES = 24 * 1024  # of the factor in lanes that stay in an L1 cache beside the rest
FAR_CYCLES = 0.15  # that a vector from the L2 cache costs more, most of it hidden
MAX_COMING_TILES = 32  # more, and what the first one waits for hardly counts
LEAST_COMING_ROWS = 6  # of a single tile: fewer stream their panels, which the CPU foresees

AHEAD_BYTES = 64 * 1024  # of panels: how far ahead of the sums what comes is asked for, at least
LOST_CYCLES = 1.0  # that it costs more where not even that cache holds a panel
WIDENED_CYCLES = 1.0  # that a vector costs more which becomes fp32 in a register
SCALAR_CYCLES = 0.03  # that a broadcast element costs beyond its load: it may come from L2 too
SCATTERED = 1.02  # what a tile across lines of row0 must gain: it is more code
TILE_CYCLES = 12.0  # to begin and end a tile


@dataclass(frozen=True, slots=True)
class RowTiles:
    """``count`` consecutive tiles of ``rows`` rows, from row ``first`` on."""

    first: int
    rows: int
    count: int


@dataclass(frozen=True, slots=True)
class Panels:
    """``count`` panels from the ``first`` on, of ``vectors`` registers each, the last of which has
    ``last_lanes`` valid lanes; and how rows pass by each."""

    first: int
    count: int
    vectors: int
    last_lanes: int
    tiles: tuple[RowTiles, ...]


@dataclass(frozen=True, slots=True)
class Blocking:
    """Panels of ``width`` elements: the full ones, then a narrower one if need be.

    ``scattered``: row1 and row0 are one sequence of rows, and a tile may span several of row0.
    ``rows_outside``: all panels pass by a tile of rows (all have the same tiles), else all rows by
    a panel. ``far``: a panel comes from beyond the L1 cache each time. ``coming``: elements that a step
    of the reduction prefetches of the panel that is ``ahead`` panels further; 0 where many rows pass by
    a panel, or very few. All tiles of rows then wait a little, instead of the first one for the whole panel."""

    width: int
    panels: tuple[Panels, ...]
    scattered: bool
    rows_outside: bool
    far: bool
    coming: int
    ahead: int


@lru_cache(maxsize=1024)  # it is asked for when weights are packed, and again for their code
def best_blocking(
    loops: Loops,
    isa: VectorIsa,
    width: int | None = None,
    most: int | None = None,
    outside: bool | None = None,
) -> Blocking:
    """The cheapest blocking: of all widths up to ``most`` elements, or with panels of ``width``;
    of both loop orders, or with ``rows_outside`` as ``outside`` says."""
    widths = [width] if width is not None else _widths(loops, isa, most)
    flags = (False, True) if loops.row1.size > 1 else (False,)
    orders = (False, True) if outside is None else (outside,)
    choices = [
        _blocking(loops, isa, width, flag, order)
        for width in widths
        for flag in flags
        for order in orders
    ]
    return min(choices, key=lambda blocking: _cycles(loops, blocking))


def _blocking(loops: Loops, isa: VectorIsa, width: int, scattered: bool, outside: bool) -> Blocking:
    rows = loops.row0.size * (loops.row1.size if scattered else 1)
    full, rest = divmod(loops.vector.size, width)
    panels = []
    if full:
        tiles = row_tiles(rows, _most_rows(loops, isa, width // isa.lanes))
        panels.append(Panels(0, full, width // isa.lanes, isa.lanes, tiles))
    if rest:
        vectors = -(-rest // isa.lanes)
        tiles = row_tiles(rows, _most_rows(loops, isa, vectors))
        if outside and panels:
            tiles = panels[0].tiles
        panels.append(Panels(full, 1, vectors, rest - (vectors - 1) * isa.lanes, tiles))
    again = loops.vector.size if outside else width
    far = loops.lane_bytes * loops.depth * again > NEAR_BYTES
    repeats = 1 if scattered else loops.row1.size
    count = sum(part.count for part in panels[0].tiles) * repeats
    coming = 0 if outside else _coming(width, count, rows * repeats)
    ahead = -(-AHEAD_BYTES // (loops.lane_bytes * loops.depth * width))
    return Blocking(width, tuple(panels), scattered, outside, far, coming, ahead)


def _coming(width: int, count: int, rows: int) -> int:
    """A panel shared out to all the tiles of rows that pass by one before it."""
    shared = rows >= LEAST_COMING_ROWS if count == 1 else count <= MAX_COMING_TILES
    return -(-width // count) if shared else 0


@lru_cache(maxsize=4096)
def row_tiles(rows: int, most: int) -> tuple[RowTiles, ...]:
    """Rows in as few tiles as there can be, of at most two sizes that differ by one."""
    count = -(-rows // most)
    size, larger = divmod(rows, count)
    parts = (
        RowTiles(0, size + 1, larger),
        RowTiles(larger * (size + 1), size, count - larger),
    )
    return tuple(part for part in parts if part.count)


def _widths(loops: Loops, isa: VectorIsa, most: int | None) -> list[int]:
    vectors = -(-min(loops.vector.size, most or loops.vector.size) // isa.lanes)
    return [isa.lanes * n for n in range(1, min(vectors, isa.registers - 2) + 1)]


@lru_cache(maxsize=256)
def most_rows(isa: VectorIsa, vectors: int) -> int:
    """Rows whose accumulators fit beside the operands: of the two factors the smaller side stays in
    registers, the other needs one at a time. Wider ones spill, and cost so."""
    for rows in range(MAX_ROWS, 0, -1):
        if rows * vectors + min(rows, vectors) + 1 <= isa.registers:
            return rows
    return 1


def _most_rows(loops: Loops, isa: VectorIsa, vectors: int) -> int:
    """Rows of a tile. Where lanes are in groups, a row holds elements of its own beside its accumulators."""
    if loops.group:
        return max(1, isa.registers // (GROUPED_REGISTERS * vectors))
    return min(most_rows(isa, vectors), _rows_in_cache(loops))


def _rows_in_cache(loops: Loops) -> int:
    """Rows whose lines stay in an L1 cache until all their elements were used.

    Rows a multiple of 4 KiB apart share a set. With fourteen of them each element comes from L2: products took 1.18 to
    1.31 times as long as with eight (Zen 4, docs/decisions/0130-rows-that-share-a-set.md).
    """
    inner = loops.reductions[-1]
    if inner.broadcast != 1 or inner.size < LEAST_RUN:
        return MAX_ROWS
    return WAYS * (WAY_BYTES // math.gcd(ELEMENT_BYTES * loops.row0.broadcast, WAY_BYTES))


def _cycles(loops: Loops, blocking: Blocking) -> float:
    repeats = 1 if blocking.scattered else loops.row1.size
    tiles = sum(part.count for part in blocking.panels[0].tiles) * repeats
    return computing_cycles(loops, blocking) + _traffic_cycles(loops, blocking, tiles)


def computing_cycles(loops: Loops, blocking: Blocking) -> float:
    """Cycles of a product's register tiles, without what waits for memory."""
    repeats, spent = 1 if blocking.scattered else loops.row1.size, 0.0
    way = FAR_CYCLES if blocking.far else 0.0
    panel = loops.lane_bytes * loops.depth * blocking.width
    if not blocking.rows_outside and panel > MIDDLE_BYTES:
        way = LOST_CYCLES
    way += WIDENED_CYCLES * loops.widens
    for panels in blocking.panels:
        for part in panels.tiles:
            step = _step_cycles(part.rows, panels.vectors) + panels.vectors * way
            tile = step * loops.depth + TILE_CYCLES + 2 * part.rows * panels.vectors
            spent += tile * part.count * panels.count * repeats
    return spent * (SCATTERED if blocking.scattered else 1)


def _traffic_cycles(loops: Loops, blocking: Blocking, tiles: int) -> float:
    """Cycles that wait for what comes from beyond the L2 cache: what the outer loop walks over and c
    once; what passes inside once too where it stays, else again by every pass. Panels that are no
    whole cache lines touch those of c twice."""
    rows = loops.row1.size * loops.row0.size
    panels = -(-loops.vector.size // blocking.width)
    lanes, scalars = loops.lane_bytes * loops.depth * loops.vector.size, 4 * _span(loops)
    ends = 4 * rows * loops.vector.size
    if blocking.rows_outside:
        moved = scalars + ends + lanes * (tiles if lanes > STREAMED_BYTES else 1)
    else:
        split = 4 * blocking.width % LINE_BYTES > 0 and panels > 1
        moved = lanes + ends * (1 + split) + scalars * (panels if scalars > MIDDLE_BYTES else 1)
    return moved / OUTER_BYTES_PER_CYCLE


def _span(loops: Loops) -> int:
    """Elements of the broadcast factor: windows of a convolution overlap."""
    span = sum((axis.size - 1) * axis.broadcast for axis in (loops.row1, loops.row0)) + 1
    span += sum((k.size - 1) * k.broadcast for k in loops.reductions)
    return min(span, loops.row1.size * loops.row0.size * loops.depth)


def _step_cycles(rows: int, vectors: int) -> float:
    """Cycles of a step of the reduction: bound by FMAs, by loads, or by the FMAs' latency."""
    steps = max(rows * vectors, LOAD * (rows + vectors), PIPES * LATENCY) / PIPES
    return steps + rows * SCALAR_CYCLES
