"""The schedule of a group by rule alone, before any measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Nest, Stage
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.op import Family
from autotune.operators.winograd import FORMS
from autotune.operators.winograd_conv import tile_count as winograd_tiles
from autotune.schedule.block_sparsity import nonzero_work
from autotune.schedule.counts import (
    batch_factors,
    crossing_elements,
    kept_words,
    loaded_elements,
    made_elements,
    padded_loads,
    padded_words,
    passed_words,
    read_elements,
    streamed_elements,
    tile_count,
)
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity

_CUT_TILES = 64.0
"""Price, in tiles, of cutting a nest once more for another core."""
_READ_TILES = 1.0
"""Price, in tiles, of doubling the elements that a nest reads."""
_WINDOW_READ_TILES = 32.0
"""The same price of a nest that only slides a window over a padded image. It takes as long as it
reads, and tiles of few channels share the lines of memory that they read."""
_NEAR_WORDS = 64 * 1024
"""Words of 4 bytes of a product for another stage, or copied for padding, that stay in a second-level cache
of 512 KiB beside their operands."""
_WEIGHTS_PER_IMAGE = 4
"""Largest ratio of weights to a padded image for which cuts pay, as every tile reads the weights
again. They paid at 3 and cost at 20, of 512 channels on 7x7 (Zen 3)."""
_FAR_TILES = 32.0
"""Price, in tiles, of doubling the kept words beyond that."""
_PASSED_TILES = 3.0
"""Price, in tiles, of doubling the words that other stages make for a product beyond that, which
reads them once (MobileNet-v2's depthwise convolutions on Zen 3, docs/decisions/0020-blocks.md)."""
_MADE_OPERATIONS = 16.0
"""Multiply-adds that take as long as an element without any; memory bounds such elements."""
_SHARING_OPERATIONS = 3e4
"""Multiply-adds that take as long as sharing a nest: the other core looks up, and fetches what this
one has in cache. Recurrent cells on two threads took 0.61 to 0.81 times what they took at 1e5, no network more than
1.004 times (Zen 5, docs/decisions/0107-single-rows.md)."""
_CROSSING_OPERATIONS = 16.0
"""Multiply-adds that take as long as an element that comes from another core's cache: 0.3 nanoseconds at
best and 0.9 where both cores fetch from each other (Zen 4, docs/decisions/0071-cores-keep-their-rows.md)."""
_ROW_OPERATIONS = 2.0
"""Multiply-adds that take as long as one of a product of a single row, which waits for its weights from a
second-level cache (Zen 4: 29 a nanosecond of 256 by 768, 55 of many rows)."""
_STREAMED_OPERATIONS = 6.0
"""Multiply-adds that take as long as a weight from a third-level cache (Zen 4: 2x2 windows of 960 to 256 channels took 203
microseconds by tiles of 4 pixels, 146 by tiles of 8, docs/decisions/0131-weights-that-stream.md)."""
_STAYING_WORDS = 128 * 1024
"""Words of weights that stay in a second-level cache of 1 MiB while tiles of rows pass by."""
_CUTTING_OPERATIONS = 1e5
"""Multiply-adds that take as long as one more tile of a product (as above)."""
_LEAST_TILE_PRICE = 0.25
"""Least price of a tile of a large nest that cores share: some twelve tiles. With twice as many,
products of 7x7 pixels by 512 channels took a quarter longer, as each tile waits for its first
weights (docs/decisions/0028-two-threads.md)."""
_SCHEDULES, _SCHEDULES_IN_PLACE = 2048, 8192
"""Schedules of a nest that the rule looks at. Where operands are read in place, tiles have to be many and
even for cores to share them: among 2048 of VGG-19's largest convolution none was for two cores."""
_REFILLED_TILES = 0.5
"""Price, in tiles, of doubling the keys and values of heads that loops load again. Those that stay
over the inner loops are packed once for all of their trips."""
_NEAR_CHANNELS, _WIDE_TILES = 64, 8.0
"""Channels that Winograd's products make at once, and the price, in tiles, of doubling them beyond: each result is stored
in a row far from its neighbours' (Zen 4, docs/decisions/0123-cuts-that-searches-found.md)."""
_SHALLOW, _FEW_IMAGE_TILES = 256, 49
"""Depth of products that hides these stores, and Winograd's tiles of a batch beyond which it is cut by rows anyway."""
_ALONG = frozenset((Family.UNARY, Family.BINARY, Family.RESHAPE, Family.CONCAT))
"""Families that walk their operands as they lie."""
_SCATTERED_TILES = 4.0
"""Price, in tiles, of tiles of these families alone that are several stretches of memory: what reads ahead begins anew
with each."""
_TILE_ELEMENTS = 512.0
"""Set-up of a tile in elements of traffic that take as long (edge: about 100 cycles)."""


def default_schedule(
    nests: tuple[Nest, ...],
    capacity: Capacity,
    cores: int,
    tile_multiple: int = 1,
    buffers: int = 2,
) -> Schedule | None:
    """Return a legal schedule by rule alone; None if none fits."""
    decisions = []
    for nest in nests:
        rng = np.random.default_rng(0)
        limit = _SCHEDULES if buffers > 1 else _SCHEDULES_IN_PLACE
        table = enumerate_nest(nest, capacity, cores, limit, rng, tile_multiple, buffers)
        if not len(table):
            return None
        rule = least_traffic if buffers > 1 else _fewest_tiles
        cost = rule(nest, table)
        decisions.append(table.row(int(np.argmin(cost))))
    return Schedule(tuple(decisions))


def least_traffic(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Return the cost [n] of schedules with tiles loaded ahead of use: traffic, tiles and overlap.

    Only its order is meaningful.
    """
    cost = loaded_elements(nest, table) + tile_count(nest, table) * _TILE_ELEMENTS
    ahead: npt.NDArray[np.float64] = 1.0 + 0.9 * (table.buffers - 1) + 0.8 * (table.cores - 1)
    return cost / ahead


def _fewest_tiles(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Return the cost [n] of schedules with operands read in place; only its order is meaningful.

    Tiles cost the work that they cut short, on as many cores as can share them. Of equals the one
    wins whose tiles read least.
    """
    loaded = read_elements(nest, table)
    pieces = np.ones(len(table))
    for k, contraction in enumerate(nest.contractions):
        pieces *= -(-contraction.k_extent // table.k_tile[:, k])
    time = _time_share(nest, table) * _work_share(nest, table) * _stream_share(nest, table)
    between = kept_words(nest, table)
    price = _tile_price(nest, table, bool(between.any()))
    cost = _CUT_TILES * time + tile_count(nest, table) * pieces * price
    padded = padded_words(nest, table) * _keeps_images_near(nest)
    slides = not nest.contractions and bool(padded.any())
    weight = _WINDOW_READ_TILES if slides else _READ_TILES
    cost += weight * loaded / max(1.0, float(loaded.min()))
    cost += _FAR_TILES * _doublings(between)
    cost += _FAR_TILES * _doublings(padded)
    cost += _PASSED_TILES * _doublings(passed_words(nest, table))
    cost += _WIDE_TILES * _wide_doublings(nest, table)
    if all(stage.op.family in _ALONG for stage in nest.stages):
        cost += _SCATTERED_TILES * _is_scattered(nest, table)
    refilled = loaded_elements(nest, table, batch_factors(nest))
    again: npt.NDArray[np.float64] = _REFILLED_TILES * refilled / max(1.0, float(refilled.min()))
    return cost + again


def _tile_price(nest: Nest, table: ScheduleTable, keeps: bool) -> npt.NDArray[np.float64]:
    """Return the cost of one tile more for every row [n]; 1 in general.

    A large nest counts only the time that a tile takes to begin, in three cases: its tiles leave zero
    blocks out; the result of one product is kept for another (``keeps``) and no row of the table is
    shared by cores; cores share the row, where the first core to finish waits for the last tile."""
    price = min(1.0, _CUT_TILES * _CUTTING_OPERATIONS / operations(nest))
    cut = price if any(zero_blocks(stage.op) is not None for stage in nest.stages) else 1.0
    alone = price if keeps and not bool((table.cores > 1).any()) else cut
    shared = min(cut, max(_LEAST_TILE_PRICE, price))
    prices: npt.NDArray[np.float64] = np.where(table.cores > 1, shared, alone)
    return prices


def _keeps_images_near(nest: Nest) -> bool:
    """Return True if cutting a padded copy until it stays in a cache is worth it."""
    images = padded_loads(nest)
    others = frozenset(nest.loads) - images
    limit = _WEIGHTS_PER_IMAGE * _whole(nest, images)
    return not nest.contractions or _whole(nest, others) <= limit


def _whole(nest: Nest, buffers: Iterable[int]) -> int:
    """Return the words of buffers for the whole nest as one tile."""
    found = [nest.buffers[i] for i in buffers]
    shape = nest.root_shape
    return sum(x.words(math.prod(axis.size(shape) for axis in x.footprint)) for x in found)


def _doublings(size: npt.NDArray[np.float64], near: float = _NEAR_WORDS) -> npt.NDArray[np.float64]:
    """Return how often a tile's sizes [n] double beyond ``near``, by default the words that a second-level cache holds."""
    beyond: npt.NDArray[np.float64] = np.log2(np.maximum(1.0, size / near))
    return beyond


def _wide_doublings(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Return how often the channels of a tile [n] double beyond ``_NEAR_CHANNELS``.

    It is 0 on several cores, and for all but Winograd's form of a small image with products of little depth.
    """
    total = np.zeros(len(table))
    for stage in nest.stages:
        if stage.op.family is not Family.WINOGRAD:
            continue
        points, depth, _ = nest.types[stage.op.inputs[1]].shape
        tiles = winograd_tiles(nest.types[stage.output].shape, FORMS[points])
        channels = stage.footprint[-1].dim
        if depth < _SHALLOW and tiles <= _FEW_IMAGE_TILES and channels is not None:
            width = table.tile[:, channels].astype(np.float64)
            total += np.where(table.cores == 1, _doublings(width, _NEAR_CHANNELS), 0.0)
    return total


def _is_scattered(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
    """Return the rows [n] whose tiles are several stretches of the result's memory."""
    whole = table.tile == np.array(nest.root_shape, dtype=np.int64)
    inner = np.ones(len(table), dtype=bool)
    scattered = np.zeros(len(table), dtype=bool)
    for d in reversed(range(len(nest.root_shape))):
        scattered |= (table.tile[:, d] > 1) & ~inner
        inner &= whole[:, d]
    return scattered


def _work_share(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Return the work of all tiles [n] relative to one tile.

    Elements that several tiles need are made for each; products with zero blocks are skipped.
    """
    total = np.zeros(len(table))
    for stage in nest.stages:
        whole = math.prod(nest.types[stage.output].shape)
        made = made_elements(nest, table, stage)
        nonzero = nonzero_work(nest, table, stage)
        left = 1.0 if nonzero is None else nonzero.share
        total += _stage_operations(nest, stage) * left * np.maximum(1.0, made / whole)
    share: npt.NDArray[np.float64] = np.where(total > 0.0, total / operations(nest), 1.0)
    return share


def _time_share(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Return the run time [n] relative to one core.

    It is the busiest core's share of the outermost loop. Cores that share it add half a tile of
    imbalance and a fixed cost. What comes from another core's cache is added.
    """
    outermost = table.order[:, 0] if table.order.shape[1] else np.zeros(len(table), np.int64)
    if not len(nest.root_shape):
        return np.ones(len(table))
    rows = np.arange(len(table))
    extent = np.array(nest.root_shape, dtype=np.int64)[outermost]
    tile = table.tile[rows, outermost]
    tiles = (extent + tile - 1) // tile
    mine = np.minimum(1.0, (tiles + table.cores - 1) // table.cores * tile / extent)
    work = operations(nest) * (_ROW_OPERATIONS if _has_one_row(nest) else 1.0)
    late = 0.5 * tile / extent + _SHARING_OPERATIONS / work
    moved = _CROSSING_OPERATIONS * crossing_elements(nest, table) / work
    share: npt.NDArray[np.float64] = mine + np.where(table.cores > 1, late, 0.0) + moved
    return share


def _stream_share(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Return the run time [n] relative to the schedule that waits least for weights.

    A product of few rows takes as long as its weights take to arrive from beyond a core's caches. They arrive once for
    every tile of rows.
    """
    streamed = _STREAMED_OPERATIONS * streamed_elements(nest, table, _STAYING_WORDS)
    times = np.maximum(1.0, streamed / operations(nest))
    share: npt.NDArray[np.float64] = times / times.min()
    return share


def _has_one_row(nest: Nest) -> bool:
    """Return True if each product of a nest is of one row."""
    made = (
        nest.types[stage.output].shape for stage in nest.stages if stage.contraction is not None
    )
    return bool(nest.contractions) and all(math.prod(shape) == shape[-1] for shape in made)


def operations(nest: Nest) -> float:
    """Return the multiply-adds of a nest's contractions, and the equivalent of its other stages."""
    return max(1.0, float(sum(_stage_operations(nest, stage) for stage in nest.stages)))


def _stage_operations(nest: Nest, stage: Stage) -> float:
    made = math.prod(nest.types[stage.output].shape)
    if stage.contraction is None:
        copies = not stage.view or stage.output in nest.stores
        return made * _MADE_OPERATIONS if copies else 0.0
    weight = nest.types[stage.op.inputs[1]].shape
    if stage.op.family is Family.WINOGRAD:
        points, depth, _ = weight
        return made * float(points * depth) / FORMS[points].tile ** 2
    if stage.op.family is Family.STRASSEN:
        return made * float(math.prod(weight[:2])) / 4
    if stage.op.family is Family.CONV:
        return made * math.prod(weight) / weight[stage.op.axes.out_channel]
    return float(made) * nest.contractions[stage.contraction].k_extent
