"""The rule for schedules, where it decides before anything was measured."""

from __future__ import annotations

import numpy as np

from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.operators.winograd import transformed_weight
from autotune.schedule.heuristic import default_schedule, operations
from autotune.schedule.schedule import NestSchedule
from autotune.targets.capacity import Capacity
from tests.drawn_graphs import array


def winograd(extent: int, channels: int) -> Group:
    """A 3×3 convolution of an image as large as its result."""
    b = GraphBuilder("winograd")
    x = b.input("x", (1, extent, extent, channels))
    weight = transformed_weight(np.ones((3, 3, channels, channels), np.float32))
    graph = b.build([b.add(OpKind.WINOGRAD_CONV, x, b.constant(weight), pads=(1,) * 4)])
    return Group.from_graph(graph, [op.name for op in graph.ops])


def test_multiply_adds_of_winograds_convolution_are_those_of_its_products() -> None:
    """36 products for each 4×4 results, of all channels with all."""
    (nest,) = nests_of(winograd(56, 64))
    assert operations(nest) == 14 * 14 * 36 * 64 * 64


def rule_for_product(rows: int, depth: int, columns: int) -> NestSchedule:
    """The schedule of a product of constant weights, by rule on a machine of two cores."""
    b = GraphBuilder("product")
    x = b.input("x", (rows, depth))
    graph = b.build([b.add(OpKind.MATMUL, x, b.constant(array(depth, columns)))])
    nests = nests_of(Group.from_graph(graph, [op.name for op in graph.ops]))
    schedule = default_schedule(nests, Capacity(1 << 24), 2, 32, 1)
    assert schedule is not None
    return schedule.nests[0]


def test_cores_share_one_row_by_large_weights_and_leave_small_ones_to_one() -> None:
    """A row waits for its weights: sharing pays from fewer multiply-adds on than a product of many rows."""
    assert rule_for_product(1, 256, 768).cores == 2
    assert rule_for_product(1, 128, 512).cores == 2
    assert rule_for_product(1, 64, 256).cores == 1


def channels_of_winograd(extent: int, channels: int) -> int:
    """Channels of a tile of a 3×3 convolution on one core, by rule."""
    schedule = default_schedule(nests_of(winograd(extent, channels)), Capacity(1 << 22), 1, 32, 1)
    assert schedule is not None
    return schedule.nests[0].tile[-1]


def test_winograds_products_of_little_depth_are_made_in_tiles_of_64_channels() -> None:
    """A small image alone: a large one is cut by rows, and much depth hides the stores."""
    assert channels_of_winograd(16, 128) == 64
    assert channels_of_winograd(28, 192) == 64
    assert channels_of_winograd(32, 128) == 128
    assert channels_of_winograd(16, 256) == 256


def tile_of_elementwise(*shape: int) -> tuple[int, ...]:
    """The tile of a function on one core, by rule, where no tile of two fifths of the tensor fits."""
    b = GraphBuilder("elementwise")
    graph = b.build([b.add(OpKind.RELU, b.input("x", shape))])
    nests = nests_of(Group.from_graph(graph, [op.name for op in graph.ops]))
    schedule = default_schedule(nests, Capacity(2 * int(np.prod(shape)) // 5), 1, 32, 1)
    assert schedule is not None
    return schedule.nests[0].tile


def test_tiles_of_elementwise_groups_are_one_stretch_of_memory() -> None:
    """Rows of all channels together would be read in as many places as there are channels."""
    assert tile_of_elementwise(1, 64, 512, 512)[2:] == (512, 512)
    assert tile_of_elementwise(4096, 512)[1] == 512


def test_large_weights_come_once_where_each_tile_of_rows_would_have_them_come_again() -> None:
    """3.8 MB of weights, of which a core's cache keeps a part while all rows pass by; small ones stay anyway."""
    large, small = rule_for_product(16, 3840, 256), rule_for_product(16, 384, 256)
    assert (large.tile[0], large.cores) == (16, 2)
    assert (small.tile[0], small.cores) == (4, 2)
