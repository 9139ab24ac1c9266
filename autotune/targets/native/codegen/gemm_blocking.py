"""Register and loop blocking of a GEMM by a small cost function, between gemm_loops.py and the
writers: how wide a panel is, how rows are cut into tiles, and which loop is outside."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.targets.native.codegen.gemm_loops import Loops
from autotune.targets.native.codegen.vector_isa import VectorIsa

PIPES = 2  # FMAs, and loads, a cycle
LATENCY = 4  # cycles of an FMA
MAX_ROWS = 14  # of a tile, which bounds the code
NEAR_BYTES = 24 * 1024  # of the factor in lanes that stay in an L1 cache beside the rest
FAR_CYCLES = 2.0  # of a vector that comes from the L2 cache: 32 bytes a cycle at best
SCATTERED_CYCLES = 3.0  # to find a row of a tile that spans pixel rows, once a tile
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
    """Panels of ``width`` elements: the full ones, then a narrower one if need be. ``scattered``:
    row1 and row0 are one sequence of rows, and a tile may span several of row0. ``rows_outside``:
    all panels pass by a tile of rows (all have the same tiles), else all rows by a panel."""

    width: int
    panels: tuple[Panels, ...]
    scattered: bool
    rows_outside: bool


def best_blocking(
    loops: Loops, isa: VectorIsa, width: int | None = None, most: int | None = None
) -> Blocking:
    """The cheapest blocking: of all widths up to ``most`` elements, or with panels of ``width``."""
    widths = [width] if width is not None else _widths(loops, isa, most)
    flags = (False, True) if loops.row1.size > 1 else (False,)
    choices = [_blocking(loops, isa, width, flag) for width in widths for flag in flags]
    return min(choices, key=lambda blocking: _cycles(loops, blocking))


def _blocking(loops: Loops, isa: VectorIsa, width: int, scattered: bool) -> Blocking:
    rows = loops.row0.size * (loops.row1.size if scattered else 1)
    outside = 4 * loops.depth * loops.vector.size <= NEAR_BYTES
    full, rest = divmod(loops.vector.size, width)
    panels = []
    if full:
        tiles = row_tiles(rows, _most_rows(isa, width // isa.lanes))
        panels.append(Panels(0, full, width // isa.lanes, isa.lanes, tiles))
    if rest:
        vectors = -(-rest // isa.lanes)
        tiles = row_tiles(rows, _most_rows(isa, vectors))
        if outside and panels:
            tiles = panels[0].tiles
        panels.append(Panels(full, 1, vectors, rest - (vectors - 1) * isa.lanes, tiles))
    return Blocking(width, tuple(panels), scattered, outside)


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


def _most_rows(isa: VectorIsa, vectors: int) -> int:
    """Rows whose accumulators fit beside the operands: of the two factors the smaller side stays in
    registers, the other needs one at a time. Wider ones spill, and cost so."""
    for rows in range(MAX_ROWS, 0, -1):
        if rows * vectors + min(rows, vectors) + 1 <= isa.registers:
            return rows
    return 1


def _cycles(loops: Loops, blocking: Blocking) -> float:
    repeats = 1 if blocking.scattered else loops.row1.size
    cycles = 0.0
    for panels in blocking.panels:
        far = 4 * loops.depth * blocking.width > NEAR_BYTES and not blocking.rows_outside
        for part in panels.tiles:
            tile = _step_cycles(part.rows, panels.vectors, far) * loops.depth + TILE_CYCLES
            tile += 2 * part.rows * panels.vectors
            tile += SCATTERED_CYCLES * part.rows * blocking.scattered
            cycles += tile * part.count * panels.count * repeats
    return cycles


def _step_cycles(rows: int, vectors: int, far: bool) -> float:
    """Cycles of a step of the reduction: bound by FMAs, by loads, by the FMAs' latency, or by the
    panel's way from the L2 cache."""
    products = rows * vectors
    steps = max(products, rows + vectors, PIPES * LATENCY) / PIPES
    return max(steps, vectors * FAR_CYCLES) if far else steps
