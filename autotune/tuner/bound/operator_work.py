"""The least work of one operator: cycles of the matrix unit and of the vector unit, over all cores.

Between the demand of a group and its bound. Every count holds for every tiling: a tile's rounding to
the array or to lanes, halos and instructions beyond the first only add to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.steps.tiling import Tiling
from autotune.cost_model.steps.vector_work import vector_work
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.operators.block_sparsity import ZeroBlocks, zero_blocks
from autotune.operators.contraction import channels_per_group
from autotune.operators.op import Family, Op
from autotune.operators.strassen import FACTORS, INPUT_ADDITIONS, row_halves
from autotune.operators.winograd import FORMS
from autotune.operators.winograd_conv import tile_count
from autotune.schedule.schedule import NestSchedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, MatrixSpec
from autotune.tuner.bound.chains import ELEMENTWISE, pass_cycles, runs_on_the_array
from autotune.tuner.bound.demand import Demand

_COPIES = frozenset((Family.CONCAT,))
_MOVES = frozenset(
    (Family.RESHAPE, Family.TRANSPOSE, Family.SLICE, Family.PAD, Family.EXPAND, Family.GATHER)
)
"""Families that transfers or views may perform without a pass."""


@dataclass(frozen=True, slots=True)
class Product:
    """``repeats`` matrix products of ``rows`` × ``depth`` × ``columns`` multiply-adds each."""

    repeats: int
    rows: int
    columns: int
    depth: int

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of all repeats."""
        return self.repeats * self.rows * self.columns * self.depth


def product_of(op: Op, group: Group, demand: Demand) -> Product:
    """Return an operator of the matrix unit as products, as few and as large as programs make them.

    A convolution's rows are output channels of a group, its columns pixels of all images. Rows of a
    matrix product are those of all batches that share its second factor.
    """
    types = group.type_of
    weight, out = types[op.inputs[1]].shape, types[op.output].shape
    if op.family is Family.WINOGRAD:
        points, channels, outputs = weight
        return Product(points, outputs, tile_count(out, FORMS[points]), channels)
    if op.family is Family.STRASSEN:
        factors, depth, columns = weight
        needed = demand.elements(op.output) // out[-1]
        return Product(factors, min(row_halves(out)[1], needed // 2), columns, depth)
    made = demand.elements(op.output)
    if op.family is Family.CONV:
        axes, sizes = op.axes, channels_per_group(op, types)
        groups = 1 if sizes is None else op.int("group")
        rows = out[axes.channel] // groups
        depth = math.prod(weight) // weight[axes.out_channel]
        return Product(groups, rows, made // (rows * groups), depth)
    depth = weight[-1] if op.int("trans_b") else weight[-2]
    factors = math.prod(weight[:-2])
    return Product(factors, made // (factors * out[-1]), out[-1], depth)


def matrix_cycles(op: Op, group: Group, demand: Demand, matrix: MatrixSpec) -> float:
    """Return the least cycles of the matrix unit for an operator, summed over cores."""
    if not runs_on_the_array(op, group):
        return 0.0
    packed = max(1, matrix.macs_per_cell(op.multiplied))
    peak = matrix.rows * matrix.cols * packed
    types = group.type_of
    blocks = zero_blocks(op)
    if blocks is not None or not _is_regular(op, group, demand):
        shape = types[op.inputs[1]].shape
        depth = product_of(op, group, demand).depth
        if op.family is Family.STRASSEN:  # of a quarter, for each of which there are 7/4 products
            depth = depth * FACTORS // 4
        share = 1.0 if blocks is None else nonzero_share(blocks, op, shape)
        return share * demand.elements(op.output) * depth / peak
    return product_cycles(product_of(op, group, demand), matrix, packed)


def _is_regular(op: Op, group: Group, demand: Demand) -> bool:
    """Return True if the needed results are whole rows and columns of products."""
    if demand.is_whole(op.output) or op.family is Family.WINOGRAD:
        return True
    masks, axes = demand.made[op.output], op.axes
    if not demand.elements(op.output):
        return False
    if op.family is Family.CONV:
        return bool(masks[axes.channel].all())
    return bool(masks[-1].all()) and all(bool(mask.all()) for mask in masks[:-2])


def product_cycles(product: Product, matrix: MatrixSpec, packed: int = 1) -> float:
    """Return the least cycles of products however they are cut into instructions, where a cell takes
    ``packed`` neighbours of the sum at once.

    Every instruction takes ``folds`` times the streamed vectors and the skew (kernels/emulator/cost.h).
    The operand that is held covers a rectangle; its pieces make at least ``folds`` blocks for every
    element of the third dimension, and the skew counts at least once for each.
    """
    rows, cols, setup = matrix.rows, matrix.cols, matrix.setup_cycles
    m, n, k = product.rows, product.columns, product.depth / packed
    skew = rows + cols - 2
    match matrix.dataflow:
        case "ws":
            cycles = _folds(k, rows, n, cols) * (m + rows + skew)
        case "is":
            cycles = _folds(k, rows, m, cols) * (n + rows + skew)
        case _:
            cycles = _folds(m, rows, n, cols) * (math.ceil(k) + skew)
    return product.repeats * (setup + cycles)


def _folds(down: float, rows: int, across: int, cols: int) -> float:
    """Return the least blocks of ``rows`` × ``cols`` that pieces of a rectangle are cut into.

    Pieces are any products of sets: summing over one column, then over all, gives either factor.
    """
    return max(-(-down // rows) * across / cols, down / rows * -(-across // cols))


def nonzero_share(blocks: ZeroBlocks, op: Op, shape: tuple[int, ...]) -> float:
    """Return the share of a weight [K, N] that lies in blocks with anything but zeros."""
    if op.family is Family.CONV:
        extents = shape[op.axes.in_channel], shape[op.axes.out_channel]
    else:
        extents = (shape[-1], shape[-2]) if op.int("trans_b") else (shape[-2], shape[-1])
    sizes = [
        np.minimum(blocks.grain, n - blocks.grain * np.arange(-(-n // blocks.grain)))
        for n in extents
    ]
    kept = sum(
        int(height) * sum(int(sizes[1][j]) for j in range(blocks.columns) if row >> j & 1)
        for height, row in zip(sizes[0], blocks.rows, strict=True)
    )
    return kept / math.prod(extents)


def vector_cycles(op: Op, group: Group, demand: Demand, share: float, spec: HardwareSpec) -> float:
    """Return the least cycles of the vector unit for an operator, summed over cores.

    ``share`` is the pass's part that an element-wise operator accounts for (``pass_shares``).
    """
    lanes, elements = spec.vector.lanes, demand.elements(op.output)
    if op.family in ELEMENTWISE:
        return share * elements / lanes
    if op.family in _MOVES or not elements:
        return 0.0
    if op.family is Family.WINOGRAD:
        return _transform_elements(op, group) / lanes
    if op.family is Family.STRASSEN:
        if not demand.is_whole(op.output):
            return 0.0
        _, depth, columns = group.type_of[op.inputs[1]].shape
        _, half = row_halves(group.type_of[op.output].shape)
        return half * (INPUT_ADDITIONS * depth + 2 * columns) / lanes
    if runs_on_the_array(op, group):
        return 0.0
    if not demand.is_whole(op.output):
        return 0.0 if op.family in _COPIES else elements / lanes
    counted = _counted_elements(op, group, spec)
    if op.family is Family.SOFTMAX:
        counted = min(counted, _online_elements(op, group, elements, spec))
    return counted / lanes


def _transform_elements(op: Op, group: Group) -> int:
    """Return the additions of Winograd's transforms, one element of a pass each."""
    points, channels, outputs = group.type_of[op.inputs[1]].shape
    form = FORMS[points]
    additions = channels * form.input_additions + outputs * form.output_additions
    return tile_count(group.type_of[op.output].shape, form) * additions


def _online_elements(op: Op, group: Group, elements: int, spec: HardwareSpec) -> float:
    """Return what an online softmax takes at the least: a maximum and an exponential per element."""
    readers = [user for user in group.ops if op.output in user.inputs]
    if not any(user.family is Family.MATMUL for user in readers):
        return math.inf
    from autotune.isa.functions import CostClass

    return elements * (1 + pass_cycles(CostClass.TRANSCENDENTAL, spec.vector))


def _counted_elements(op: Op, group: Group, spec: HardwareSpec) -> float:
    """Return elements times cycles per pass of the instructions that lowering emits for one tile."""
    tensors = dict.fromkeys((*op.inputs, op.output))
    types = tuple((x, group.type_of[x]) for x in tensors)
    alone = Group((op,), types, (op.output,), frozenset())
    nests = analyse(alone)
    if isinstance(nests, Rejection):
        return 0.0
    tiling = Tiling(nests[0], _one_tile(nests[0]))
    total = 0.0
    for stage in nests[0].stages:
        tiles = tiling.tiles(frozenset(range(len(nests[0].root_shape))))
        for work in vector_work(tiling, stage, tiles, spec):
            slowest = max(pass_cycles(kind, spec.vector) for kind in work.classes)
            each = np.asarray(work.repeats, dtype=np.float64) * work.elements * slowest
            total += float(np.sum(each))
    return total


def _one_tile(nest: Nest) -> ScheduleTable:
    """Return the schedule of a single tile, whether it fits or not."""
    whole = tuple(c.k_extent for c in nest.contractions)
    schedule = NestSchedule(nest.root_shape, tuple(range(len(nest.root_shape))), whole, buffers=1)
    return ScheduleTable.of(nest, [schedule])
