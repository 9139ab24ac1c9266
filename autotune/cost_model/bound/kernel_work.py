"""What one call of a generated kernel does: counts by ``KernelKind`` of its spec, without its code.

A spec answers the same questions as the writer of its code asks: which blocking, which order of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import assert_never

from autotune.cost_model.bound.kernel_kinds import function_kind
from autotune.cost_model.core_caches import core_caches, first_level
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.functions import CostClass, UnaryFn, When
from autotune.targets.native.codegen.gemm.blocking import (
    LATENCY,
    LOAD,
    PIPES,
    Blocking,
    best_blocking,
)
from autotune.targets.native.codegen.gemm.blocks import step_blocks
from autotune.targets.native.codegen.gemm.loops import Loops, loops_of, packed
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_blocking
from autotune.targets.native.codegen.gemm.narrow_shape import (
    NarrowShape,
    lanes_in_memory,
    narrow_loops,
)
from autotune.targets.native.codegen.gemm.packing import packed_width
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.panels import goes_in_blocks
from autotune.targets.native.codegen.gemm.row_sums import sums_lie_along
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.gemm.tile_plan import COPY_CYCLES, TILE_ROWS, tile_plan
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.rows.reduction import Reduction
from autotune.targets.native.codegen.rows.row_passes import RowPasses
from autotune.targets.native.codegen.rows.row_run import Reduce, RowRun
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.interleaving import interleaving
from autotune.targets.native.codegen.vector.loop_order import loop_order
from autotune.targets.native.codegen.vector.square_copy import square_copy
from autotune.targets.native.codegen.vector.vector_run import (
    Binary,
    Fma,
    Load,
    Node,
    Unary,
    VectorRun,
)
from autotune.targets.native.codegen.winograd import TileTransform
from autotune.targets.native.codegen.writing.nest import Dim, merged
from autotune.targets.native.cpu.vector_isa import VectorIsa

LINE_BYTES = 64
"""Of a cache line."""
PANEL_SHARE = 0.75
"""Of a first-level cache that panels have to themselves."""


class Work(dict[str, float]):
    """Counts by the name of a ``KernelKind``; what is not named is 0."""

    def __missing__(self, name: str) -> float:
        return 0.0


@lru_cache(maxsize=8192)
def kernel_work(kernel: KernelSpec) -> Work:
    """Return the counts of one call, without what its operands' places in memory add."""
    isa = kernel.isa
    match kernel.constants:
        case GemmShape() as shape:
            return _product(shape, isa)
        case NarrowShape() as narrow:
            return _narrow_product(narrow, isa)
        case TileRun(product, run):
            return _together(_narrow_product(product, isa), _vector_run(run, isa))
        case PanelCopy() as copy:
            dense = copy.lanes[1] == 1
            name = "panels_dense" if dense else "panels_across"
            return Work({"panel_copies": 1, name: copy.elements})
        case VectorRun() as run:
            return _vector_run(run, isa)
        case RowRun() as rows:
            return _row_run(rows, isa)
        case Reduction() as reduction:
            return _reduction(reduction, isa)
        case TileTransform() as transform:
            name = f"transformed_{transform.transform.name.lower()}"
            return Work({"transforms": 1, name: _transformed(transform, isa)})
        case _:
            assert_never(kernel.constants)


def _product(shape: GemmShape, isa: VectorIsa) -> Work:
    source = loops_of(shape)
    width = shape.panel if shape.panel is not None else packed_width(source, isa)
    loops = source if width is None else packed(source, width)
    local = shape.panel is None and width is not None
    along = not local and sums_lie_along(loops, isa)
    outside = False if local or along else None
    blocking = best_blocking(loops, isa, isa.lanes if along else width, outside=outside)
    outer, rows = loops.outer.size, loops.row1.size * loops.row0.size
    blocks = len(_blocks(shape, loops, blocking))
    found = _tiled(shape, loops, blocking, isa, blocks)
    if width is None and not along and source.vector.lanes != 1 and source.vector.size > 1:
        found["product_gathers"] += found["product_steps"] * isa.lanes
    if local:
        dense = source.vector.lanes == 1
        across = any(k.lanes == 1 for k in source.reductions[-1:])
        name = "packed_dense" if dense else "packed_across" if across else "packed_gather"
        found[name] += outer * source.depth * -(-source.vector.size // isa.lanes) * isa.lanes
    if blocks > 1 or goes_in_blocks(shape, loops, blocking.width):
        found["product_blocked"] += rows * loops.depth
    return found


def _narrow_product(shape: NarrowShape, isa: VectorIsa) -> Work:
    """Return the counts of a narrow product: a group of its reduction is a step, and pairs of bytes take a
    second instruction to be added. What is copied counts by the words of its panels."""
    loops, groups = narrow_loops(shape, isa)
    blocking = narrow_blocking(shape, loops, isa, shape.product.panel)
    plan = tile_plan(shape, isa)
    found = _tiled(shape.product, loops, blocking, isa, 1)
    if plan is not None:
        pairs = plan.pairs(isa.lanes, loops.vector.size)
        found["product_fmas"] += pairs * plan.chunks * plan.dot_cycles
        found["product_fmas"] += COPY_CYCLES * plan.rows * plan.lines
        found["product_steps"] += pairs * plan.chunks
        found["product_tiles"] += pairs
        found["product_ends"] += pairs * min(plan.rows, TILE_ROWS)
    elif shape.dot(isa).group == 2 and not shape.is_bf16:
        found["product_fmas"] *= 2
    memory = lanes_in_memory(shape) if shape.copies else None
    if memory is not None:
        lanes = -(-loops.vector.size // isa.lanes) * isa.lanes
        across = memory.steps[-1] == 1
        dense = memory.stride == 1
        name = "packed_dense" if dense else "packed_across" if across else "packed_gather"
        found[name] += groups.panel_words(lanes)
    return found


def _together(work: Work, other: Work) -> Work:
    return Work({name: work[name] + other[name] for name in {**work, **other}})


def _tiled(shape: GemmShape, loops: Loops, blocking: Blocking, isa: VectorIsa, blocks: int) -> Work:
    """Return the counts of a product's register tiles and of what becomes of their sums."""
    outer, rows = loops.outer.size, loops.row1.size * loops.row0.size
    found = Work(products=1)
    again = loops.vector.size if blocking.rows_outside else blocking.width
    far = loops.lane_bytes * loops.depth * again > PANEL_SHARE * core_caches()[0]
    for steps, tiles, tile_rows, vectors in _tiles(loops, blocking):
        count = tiles * outer
        sums = tile_rows * vectors
        bound = max(sums, LOAD * (tile_rows + vectors), PIPES * LATENCY) / PIPES
        found["product_fmas"] += count * steps * sums / PIPES
        found["product_waits"] += count * steps * (bound - sums / PIPES)
        found["product_steps"] += count * steps
        found["product_broadcasts"] += count * steps * tile_rows
        found["product_tiles"] += count * blocks
        found["product_ends"] += count * sums * (2 * blocks - 1)
        apart = ELEMENT_BYTES * loops.row0.broadcast
        if apart and first_level().crowded(apart, tile_rows):
            found["product_set"] += count * steps * tile_rows
        if far:
            found["product_far"] += count * steps * vectors
        if blocking.scattered:
            found["product_scattered"] += count * tile_rows
    ends = outer * rows * -(-loops.vector.size // isa.lanes)
    epilogue = shape.epilogue is not When.NEVER
    found["product_sides"] += ends * (
        (shape.accumulate is not When.NEVER) + shape.has_residual + shape.has_bias * 0.25
    )
    if epilogue and shape.fn is not UnaryFn.COPY:
        found["product_functions"] += ends
    if loops.vector.c != 1 and loops.vector.size > 1:
        found["product_strided_ends"] += outer * rows * loops.vector.size
    return found


def _blocks(shape: GemmShape, loops: Loops, blocking: Blocking) -> Sequence[object]:
    if not goes_in_blocks(shape, loops, blocking.width):
        return (None,)
    return range(sum(part.count for part in step_blocks(loops.depth)))


def _tiles(loops: Loops, blocking: Blocking) -> list[tuple[int, int, int, int]]:
    """Return (depth, tiles, rows, vectors) for each kind of register tile."""
    lines = 1 if blocking.scattered else loops.row1.size
    return [
        (loops.depth, panels.count * tiles.count * lines, tiles.rows, panels.vectors)
        for panels in blocking.panels
        for tiles in panels.tiles
    ]


def _node_costs(nodes: Sequence[Node], times: Sequence[float]) -> Work:
    """Arithmetic of nodes that are each computed ``times`` vectors."""
    found = Work()
    for node, count in zip(nodes, times, strict=True):
        match node:
            case Unary(fn) | Binary(fn):
                row = fn.row
                if row.cpu_cycles:
                    found[function_kind(fn)] += count
                elif row.cost is CostClass.DIVIDE:
                    found["divisions" if isinstance(node, Binary) else "roots"] += count
                else:
                    found["arithmetic"] += count
            case Fma():
                found["arithmetic"] += count
            case _:
                pass
    return found


def _vector_run(run: VectorRun, isa: VectorIsa) -> Work:
    beside = interleaving(run, isa)
    if beside is not None:
        outer = prod(dim.size for dim in beside.outer)
        vectors = outer * beside.across.size * -(-beside.along.size // isa.lanes)
        return Work(runs=1, interleaved=vectors, run_rows=outer)
    turned = square_copy(run, isa)
    if turned is not None:
        outer = prod(dim.size for dim in turned.outer)
        squares = (
            outer * -(-turned.along.size // turned.edge) * -(-turned.across.size // turned.edge)
        )
        pitches = turned.across.strides[turned.turned], turned.along.strides[-1]
        apart = (ELEMENT_BYTES * pitch for pitch in pitches)
        collides = any(first_level().crowded(pitch, turned.edge) for pitch in apart)
        name = "squared_set" if collides else "squared"
        return Work({"runs": 1, "squares": squares, name: squares * turned.edge**2})
    order = loop_order(run, isa)
    axis, loops = order.axis, order.loops
    lanes = isa.lanes

    def trips(level: int) -> float:
        return float(
            prod(-(-dim.size // lanes) if dim is axis else dim.size for dim in loops[:level])
        )

    levels = order.levels()
    times = [trips(level) for level in levels]
    found = _node_costs(run.body, times)
    found["runs"] += 1
    for node, count, level in zip(run.body, times, levels, strict=True):
        if isinstance(node, Load):
            stride = axis.strides[node.operand] if axis is not None else 0
            if axis is not None and stride > 1:
                found[_gathered(axis, stride)] += prod(dim.size for dim in loops[:level])
            else:
                found["loads" if stride == 1 else "splats"] += count
    all_vectors = trips(len(loops))
    for o, output in enumerate(run.outputs):
        stride = axis.strides[len(run.inputs) + o] if axis is not None else 1
        if axis is None or stride == 1:
            found["streams" if output.streamed else "stores"] += all_vectors
        else:
            name = _gathered(axis, stride).replace("gathers", "scatters")
            found[name] += prod(dim.size for dim in loops)
    if axis is not None:
        found["run_rows"] += all_vectors / -(-axis.size // lanes)
        if axis.size % lanes:
            found["run_tails"] += all_vectors / -(-axis.size // lanes)
    if order.tile is not None:
        found["run_tiles"] += all_vectors
    return found


def _gathered(axis: Dim, stride: int) -> str:
    """Return the kind of elements of an axis that lie a stride apart: in one line, or in one set of a cache,
    if they are more than it holds lines of."""
    apart = ELEMENT_BYTES * stride
    if apart < LINE_BYTES:
        return "gathers"
    return "gathers_set" if first_level().collide(apart, axis.size) else "gathers_far"


def _row_run(run: RowRun, isa: VectorIsa) -> Work:
    rows = prod(run.sizes) // run.sizes[run.axis]
    vectors = float(rows * -(-run.sizes[run.axis] // isa.lanes))
    passes = RowPasses(run)
    uniform = run.uniform
    times = [float(rows) if alone else vectors for alone in uniform]
    nodes = [node for node in run.body if not isinstance(node, Reduce)]
    costs = _node_costs(
        nodes, [t for node, t in zip(run.body, times, strict=True) if not isinstance(node, Reduce)]
    )
    found = Work({f"row_{name}": count for name, count in costs.items()})
    found["row_calls"] += 1
    found["row_rows"] += rows
    found["row_passes"] += rows * (passes.last + 1)
    found["row_kept"] += vectors * len(passes.kept)
    for node, count in zip(run.body, times, strict=True):
        if isinstance(node, Load):
            found["row_loads"] += count
        elif isinstance(node, Reduce):
            found["row_reduced"] += vectors
            found["row_folds"] += rows
    for output in run.outputs:
        if output.strides[run.axis]:
            found["row_stores"] += vectors
    return found


def _reduction(spec: Reduction, isa: VectorIsa) -> Work:
    dims = merged(spec.sizes, (spec.dst_strides, spec.src_strides), leading=0)
    usable = [dim for dim in dims if any(dim.strides)]
    elements = prod(spec.sizes)
    results = prod(n for n, stride in zip(spec.sizes, spec.dst_strides, strict=True) if stride)
    near = [dim for dim in usable if dim.strides[1] == 1]
    found = Work(reductions=1, reduction_results=results)
    if not near:
        found["reduction_gathers"] += elements
        return found
    axis = near[0]
    found["reduced"] += elements / axis.size * -(-axis.size // isa.lanes)
    if axis.strides[0] == 0:
        found["folds"] += results
    else:
        found["reduction_columns"] += results / isa.lanes
    return found


def _transformed(transform: TileTransform, isa: VectorIsa) -> float:
    down, across = transform.tiles
    return float(down * across * -(-transform.channels // isa.lanes))
