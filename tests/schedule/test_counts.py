"""What schedules hold and read, in closed form; and what the rule makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import CACHED_FORMATS
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from autotune.schedule.counts import crossing_elements, padded_words, streamed_elements
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity
from tests.drawn_graphs import array

CAPACITY, NEAR = Capacity(1 << 22), 64 * 1024


def nest_of(builder: GraphBuilder, output: str) -> Nest:
    graph = builder.build(outputs=[output])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    (nest,) = nests
    return nest


def convolution(pad: int, rows: int = 9, channels: int = 6, filters: int = 16) -> Nest:
    b = GraphBuilder("convolution")
    x = b.input("x", (1, channels, rows, rows))
    weights = b.constant(array(filters, channels, 3, 3))
    return nest_of(b, b.add(OpKind.CONV, x, weights, pads=(pad,) * 4))


def pool(rows: int, channels: int, pad: int) -> Nest:
    b = GraphBuilder("pool")
    x = b.input("x", (1, channels, rows, rows))
    fields = {"kernel": (3, 3), "strides": (2, 2), "pads": (pad,) * 4}
    return nest_of(b, b.add(OpKind.MAX_POOL, x, **fields))


@pytest.mark.parametrize(("pad", "elements"), [(1, 6 * (4 + 2) * (5 + 2)), (0, 0)])
def test_a_tile_copies_its_window_of_an_image_that_is_padded(pad: int, elements: int) -> None:
    nest = convolution(pad)
    table = ScheduleTable.of(nest, (NestSchedule((1, 8, 4, 5), (0, 1, 2, 3), (6,), 1, 1),))
    assert padded_words(nest, table).tolist() == [elements]


def test_an_image_that_is_padded_only_at_its_end_is_copied_too() -> None:
    b = GraphBuilder("pool")
    x = b.input("x", (1, 4, 8, 8))
    nest = nest_of(b, b.add(OpKind.MAX_POOL, x, kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1)))
    table = ScheduleTable.of(nest, (NestSchedule((1, 4, 4, 4), (0, 1, 2, 3), (), 1, 1),))
    assert padded_words(nest, table).tolist() == [4 * 9 * 9]


def held(nest: Nest, cores: int) -> float:
    """Words that a tile by rule copies."""
    schedule = default_schedule((nest,), CAPACITY, cores, 16, 1)
    assert schedule is not None
    return float(padded_words(nest, ScheduleTable.of(nest, schedule.nests))[0])


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "nest", [pool(112, 64, 1), convolution(1, 112, 64, 64)], ids=["pool", "convolution"]
)
def test_a_padded_image_is_cut_until_its_copy_stays_in_a_cache(nest: Nest, cores: int) -> None:
    assert 0 < held(nest, cores) <= 2 * NEAR


def test_an_image_stays_whole_beside_weights_that_would_pass_by_again() -> None:
    nest = convolution(1, 14, 512, 2048)
    assert held(nest, 1) == np.prod((512, 16, 16))


def crossings(nest: Nest, *schedules: NestSchedule) -> list[float]:
    """Elements that a core exchanges with others under each schedule."""
    return crossing_elements(nest, ScheduleTable.of(nest, schedules)).tolist()


def image_pass(*shape: int) -> Nest:
    b = GraphBuilder("pass")
    x = b.input("x", shape)
    return nest_of(b, b.add(OpKind.MUL, x, x))


def test_cores_that_share_rows_exchange_nothing_and_those_that_share_columns_do() -> None:
    """By columns a core has half of each row, of which the other had half; one core alone needs all."""
    by_rows = NestSchedule((1, 4, 6), (1, 0, 2), (), 1, 2)
    by_columns = NestSchedule((1, 8, 3), (2, 0, 1), (), 1, 2)
    alone = NestSchedule((1, 8, 6), (0, 1, 2), (), 1, 1)
    halves, wholes = 2 * 8 * 3 / 2, 2 * 8 * 6 / 2
    found = crossings(image_pass(1, 8, 6), by_rows, by_columns, alone)
    assert found == [0.0, halves, wholes]


def test_a_product_shared_by_columns_fetches_the_other_cores_rows_and_no_weights() -> None:
    b = GraphBuilder("product")
    x = b.input("x", (10, 32))
    nest = nest_of(b, b.add(OpKind.MATMUL, x, b.constant(array(32, 16))))
    by_rows = NestSchedule((5, 16), (0, 1), (32,), 1, 2)
    by_columns = NestSchedule((10, 8), (1, 0), (32,), 1, 2)
    assert crossings(nest, by_rows, by_columns) == [0.0, 10 * 32 / 2 + 10 * 8 / 2]


def test_weights_stream_again_for_each_tile_that_finds_them_gone() -> None:
    """Of 32×16 weights and a cache of 300, half of the columns stay while both halves of the rows pass by."""
    b = GraphBuilder("product")
    nest = nest_of(b, b.add(OpKind.MATMUL, b.input("x", (10, 32)), b.constant(array(32, 16))))
    schedules = (
        NestSchedule((10, 16), (0, 1), (32,), 1, 1),  # all at once
        NestSchedule((5, 16), (0, 1), (32,), 1, 1),  # all of them for each half of the rows
        NestSchedule((5, 8), (1, 0), (32,), 1, 1),  # columns outermost: half of them stays
        NestSchedule((5, 8), (0, 1), (32,), 1, 1),  # rows outermost: each half comes twice
    )
    table = ScheduleTable.of(nest, schedules)
    assert streamed_elements(nest, table, 300).tolist() == [512, 1024, 512, 1024]
    assert streamed_elements(nest, table, 512).tolist() == [0, 0, 0, 0], "all of them stay"


def test_caches_hold_four_bytes_in_the_place_of_a_float() -> None:
    b = GraphBuilder("narrow")
    weights = b.constant(np.ones((16, 6, 3, 3), np.int8))
    x = b.input("x", (1, 6, 9, 9), DType.INT8)
    y = b.add(OpKind.CONV, x, weights, pads=(1,) * 4, a_zero=0, b_zero=0)
    graph = stored_narrow(b.build([y]), CACHED_FORMATS)
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    table = ScheduleTable.of(nests[0], (NestSchedule((1, 8, 4, 5), (0, 1, 2, 3), (6,), 1, 1),))
    assert padded_words(nests[0], table).tolist() == [6 * 6 * 7 / 4]
    filters, tiles = 6 * 9, 2 * 3 * 2
    assert streamed_elements(nests[0], table, 16 * filters / 4).tolist() == [0], "all stay"
    assert streamed_elements(nests[0], table, 8 * filters / 4).tolist() == [16 * filters]
    assert streamed_elements(nests[0], table, 7 * filters / 4).tolist() == [8 * filters * tiles]


def test_nothing_crosses_where_no_schedule_has_two_cores() -> None:
    assert crossings(image_pass(1, 8, 6), NestSchedule((1, 4, 6), (1, 0, 2), (), 1, 1)) == [0.0]


@pytest.mark.parametrize("nest", [image_pass(1, 55, 55, 192), image_pass(1, 999, 512)])
def test_two_cores_share_a_pass_over_memory_by_rows(nest: Nest) -> None:
    schedule = default_schedule((nest,), CAPACITY, 2, 32, 1)
    assert schedule is not None
    assert (schedule.nests[0].cores, schedule.nests[0].order[0]) == (2, 1)
