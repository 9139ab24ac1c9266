"""What schedules hold and read, in closed form; and what the rule makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.schedule.counts import padded_elements
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule
from autotune.schedule.table import ScheduleTable
from tests.drawn_graphs import array

CAPACITY, NEAR = 1 << 22, 64 * 1024


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
    assert padded_elements(nest, table).tolist() == [elements]


def test_an_image_that_is_padded_only_at_its_end_is_copied_too() -> None:
    b = GraphBuilder("pool")
    x = b.input("x", (1, 4, 8, 8))
    nest = nest_of(b, b.add(OpKind.MAX_POOL, x, kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1)))
    table = ScheduleTable.of(nest, (NestSchedule((1, 4, 4, 4), (0, 1, 2, 3), (), 1, 1),))
    assert padded_elements(nest, table).tolist() == [4 * 9 * 9]


def held(nest: Nest, cores: int) -> float:
    """Elements that a tile by rule copies."""
    schedule = default_schedule((nest,), CAPACITY, cores, 16, 1)
    assert schedule is not None
    return float(padded_elements(nest, ScheduleTable.of(nest, schedule.nests))[0])


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "nest", [pool(112, 64, 1), convolution(1, 112, 64, 64)], ids=["pool", "convolution"]
)
def test_a_padded_image_is_cut_until_its_copy_stays_in_a_cache(nest: Nest, cores: int) -> None:
    assert 0 < held(nest, cores) <= 2 * NEAR


def test_an_image_stays_whole_beside_weights_that_would_pass_by_again() -> None:
    nest = convolution(1, 14, 512, 2048)
    assert held(nest, 1) == np.prod((512, 16, 16))
