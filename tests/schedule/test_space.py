"""The schedule space: everything enumerated is legal, and nothing legal of the grid is missing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.datasets import random_graphs
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.schedule.counts import scratchpad_elements as scratchpad_column
from autotune.schedule.counts import sums_elements as sums_column
from autotune.schedule.fit import check, scratchpad_elements, sums_elements
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import distinct_orders, enumerate_nest, extents
from autotune.targets.capacity import Capacity
from tests.schedule.drawn_schedules import random_schedule

CAPACITY = Capacity(65536)
WITH_SUMS = Capacity(4096, 1024)


def drawn_nests(seed: int) -> tuple[Nest, ...]:
    """The nests of one random graph, taken whole."""
    rng = np.random.default_rng(seed)
    while True:
        graph = next(random_graphs(rng, 1))
        nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
        if not isinstance(nests, Rejection):
            return nests


SEEDS = st.integers(0, 10_000)


@given(
    SEEDS,
    st.sampled_from([Capacity(512), Capacity(4096), WITH_SUMS, CAPACITY]),
    st.sampled_from([1, 2]),
)
def test_every_enumerated_row_is_legal_and_distinct(
    seed: int, capacity: Capacity, cores: int
) -> None:
    for nest in drawn_nests(seed):
        table = enumerate_nest(nest, capacity, cores, 100, np.random.default_rng(seed))
        rows = [table.row(i) for i in range(len(table))]
        assert len(rows) <= 100
        assert len(set(rows)) == len(rows)
        assert all(check((nest,), Schedule((row,)), capacity, cores) is None for row in rows)


@given(SEEDS)
@settings(max_examples=25)
def test_scratchpad_column_equals_the_schedule_check(seed: int) -> None:
    for nest in drawn_nests(seed):
        table = enumerate_nest(nest, CAPACITY, 1, 60, np.random.default_rng(seed))
        expected = [scratchpad_elements(nest, table.row(i)) for i in range(len(table))]
        assert scratchpad_column(nest, table).tolist() == expected
        sums = [sums_elements(nest, table.row(i)) for i in range(len(table))]
        assert sums_column(nest, table).tolist() == sums


@given(SEEDS, st.sampled_from([Capacity(256), Capacity(1024), Capacity(4096), WITH_SUMS]))
def test_small_spaces_equal_brute_force(seed: int, capacity: Capacity) -> None:
    for nest in drawn_nests(seed):
        choices = [extents(nest.root_shape[d]) for d in nest.tileable]
        choices += [
            extents(c.k_extent) if c.chunkable else (c.k_extent,) for c in nest.contractions
        ]
        if np.prod([len(c) for c in choices]) > 1000:
            continue
        table = enumerate_nest(nest, capacity, 1, 10**6, np.random.default_rng(0))
        found = {table.row(i) for i in range(len(table))}
        assert found == set(_brute_force(nest, choices, capacity))


def _brute_force(
    nest: Nest, choices: list[tuple[int, ...]], capacity: Capacity
) -> list[NestSchedule]:
    found = []
    for sizes in itertools.product(*choices):
        tile = list(nest.root_shape)
        for d, size in zip(nest.tileable, sizes, strict=False):
            tile[d] = size
        split = tuple(d for d in nest.tileable if tile[d] < nest.root_shape[d])
        k_tile = sizes[len(nest.tileable) :]
        for order in distinct_orders(nest, split, shared=False):
            single, double = (NestSchedule(tuple(tile), order, k_tile, b, 1) for b in (1, 2))
            found.append(single)
            if scratchpad_elements(nest, double) > scratchpad_elements(nest, single):
                found.append(double)
    return [row for row in found if _fits(nest, row, capacity)]


def _fits(nest: Nest, row: NestSchedule, capacity: Capacity) -> bool:
    """By the sizes of buffers: sums in their own memory where there is one, all else in the other."""
    whole, sums = scratchpad_elements(nest, row), sums_elements(nest, row)
    if not capacity.sums_elements:
        return whole <= capacity.elements
    rest = capacity.elements - capacity.sums_elements
    return sums <= capacity.sums_elements and whole - sums <= rest


@given(SEEDS)
@settings(max_examples=25)
def test_orders_of_one_nest_refill_differently(seed: int) -> None:
    for nest in drawn_nests(seed):
        orders = distinct_orders(nest, nest.tileable, shared=False)
        assert orders[0][: len(nest.tileable)] == nest.tileable
        assert all(sorted(order) == list(range(len(nest.root_shape))) for order in orders)
        assert len(set(orders)) == len(orders)


@given(SEEDS)
@settings(max_examples=25)
def test_a_sample_keeps_the_largest_tiles_and_is_reproducible(seed: int) -> None:
    nest = drawn_nests(seed)[0]
    whole = enumerate_nest(nest, CAPACITY, 1, 10**6, np.random.default_rng(0))
    first = enumerate_nest(nest, CAPACITY, 1, 64, np.random.default_rng(seed))
    again = enumerate_nest(nest, CAPACITY, 1, 64, np.random.default_rng(seed))
    assert np.array_equal(first.tile, again.tile) and np.array_equal(first.order, again.order)
    if not len(whole):
        return
    volumes = [np.prod(t.tile, axis=1) * np.prod(t.k_tile, axis=1) for t in (whole, first)]
    assert volumes[0].max() == volumes[1].max()


@given(SEEDS, st.sampled_from([1, 2]))
@settings(max_examples=25)
def test_default_and_random_schedules_are_legal(seed: int, cores: int) -> None:
    nests = drawn_nests(seed)
    for schedule in (
        default_schedule(nests, CAPACITY, cores),
        random_schedule(nests, CAPACITY, cores, np.random.default_rng(seed)),
    ):
        assert schedule is None or check(nests, schedule, CAPACITY, cores) is None


def test_nothing_fits_a_machine_that_is_too_small() -> None:
    nests = drawn_nests(3)
    assert len(enumerate_nest(nests[0], Capacity(1), 1, 100, np.random.default_rng(0))) == 0
    assert default_schedule(nests, Capacity(1), 1) is None
    assert random_schedule(nests, Capacity(1), 1, np.random.default_rng(0)) is None


@pytest.mark.parametrize("extent", [1, 2, 7, 56, 97, 224, 1000, 100_000])
def test_extents_are_ascending_and_hold_the_largest_that_an_instruction_takes(extent: int) -> None:
    found = extents(extent)
    assert list(found) == sorted(set(found))
    assert found[0] == 1
    assert found[-1] <= min(extent, 65535)
    assert extent > 65535 or found[-1] == extent


def test_no_loop_is_shared_by_cores_that_would_store_the_same_elements() -> None:
    """The norm of a row is an output, and made again for every tile along the row."""
    b = GraphBuilder("norm")
    x = b.input("x", (4, 6))
    scale, bias = b.constant(np.ones(6, np.float32)), b.constant(np.zeros(6, np.float32))
    norm = b.add(OpKind.LAYER_NORM, x, scale, bias, axis=1)
    graph = b.build(outputs=[norm, b.add(OpKind.RELU, norm)])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    (nest,) = (n for n in nests if len(n.stages) > 1)
    assert nest.shareable == {0}
    table = enumerate_nest(nest, CAPACITY, 2, 10**6, np.random.default_rng(0))
    assert set(table.cores.tolist()) == {1, 2}
    outermost = {row.order[0] for row in map(table.row, range(len(table))) if row.cores == 2}
    assert outermost == {0}
    rejected = check((nest,), Schedule((NestSchedule((4, 1), (1, 0), (), 1, 2),)), CAPACITY, 2)
    assert rejected is not None and "store the same elements" in rejected.reason


@pytest.mark.parametrize("extent", [55, 192, 27])
def test_two_cores_that_read_in_place_get_equal_halves(extent: int) -> None:
    b = GraphBuilder("relu")
    x = b.input("x", (extent, 4096))
    graph = b.build(outputs=[b.add(OpKind.RELU, x)])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    found = default_schedule(nests, Capacity(1 << 20), 2, tile_multiple=16, buffers=1)
    assert found is not None
    (part,) = found.nests
    outermost = part.order[0]
    shape = nests[0].root_shape
    tiles = -(-shape[outermost] // part.tile[outermost])
    busiest = -(-tiles // 2) * part.tile[outermost]
    assert part.cores == 2
    assert busiest <= -(-shape[outermost] // 2)


@pytest.mark.parametrize(("heads", "tokens"), [(8, 256), (2, 64), (3, 700)])
def test_scores_that_are_read_in_place_stay_in_a_core_s_cache(heads: int, tokens: int) -> None:
    b = GraphBuilder("attention")
    shape = (heads, tokens, 64)
    y = b.add(OpKind.MATMUL, b.input("q", shape), b.input("k", shape), trans_b=1)
    y = b.add(OpKind.MATMUL, b.add(OpKind.SOFTMAX, y, axis=-1), b.input("v", shape))
    graph = b.build([y])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    found = default_schedule(nests, Capacity(1 << 22), 1, tile_multiple=16, buffers=1)
    assert found is not None
    tile = found.nests[0].tile
    assert 4 * tile[0] * tile[1] * tokens <= 384 * 1024
    assert tile[2] == 64


def test_sums_fill_a_memory_of_their_own_and_nothing_else_does() -> None:
    b = GraphBuilder("product")
    x, w = b.input("x", (64, 32)), b.constant(np.ones((32, 48), np.float32))
    graph = b.build(outputs=[b.add(OpKind.MATMUL, x, w)])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    whole = NestSchedule((64, 48), (0, 1), (32,), 1)
    need, sums = scratchpad_elements(nests[0], whole), 64 * 48
    assert (need, sums_elements(nests[0], whole)) == (64 * 32 + 32 * 48 + sums, sums)
    for capacity, reason in (
        (Capacity(need, sums), None),
        (Capacity(need), None),
        (
            Capacity(need + 1, sums - 1),
            f"accumulators: sums take {4 * sums:,} bytes of {4 * sums - 4:,}",
        ),
        (
            Capacity(need, sums + 1),
            f"scratchpad: tiles beside sums take {4 * (need - sums):,} bytes",
        ),
        (Capacity(need - 1), f"scratchpad: tiles take {4 * need:,} bytes of {4 * need - 4:,}"),
    ):
        rejected = check(nests, Schedule((whole,)), capacity, 1)
        assert rejected is None if reason is None else reason in rejected.reason
