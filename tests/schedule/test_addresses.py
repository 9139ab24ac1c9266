"""Schedules whose operands more loops would move than an address holds are not legal; all others lower."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import ADDRESS_LOOPS, Nest, Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.tile import MAX_TERMS
from autotune.kernels.emulator.engine import Loaded
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.counts import expressible
from autotune.schedule.fit import check
from autotune.schedule.neighbours import neighbours
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity
from autotune.targets.opening import load_spec
from autotune.tuner.legality import legal_nests
from tests.drawn_graphs import array
from tests.oracle import Interpreter

SPEC = load_spec("server")
SHAPE = (4, 6, 4, 6)


def turned() -> Graph:
    """A made tensor plus itself with its axes in another order: it is made whole, and read by parts."""
    b = GraphBuilder("turned")
    x = b.add(K.TANH, b.input("x", SHAPE))
    return b.build(outputs=[b.add(K.ADD, x, b.add(K.TRANSPOSE, x, perm=(2, 3, 0, 1)))])


def squared() -> Graph:
    """A made matrix times itself, with the reduction in pieces."""
    b = GraphBuilder("squared")
    x = b.add(K.RELU, b.input("x", (3, 8, 8)))
    y = b.add(K.MATMUL, x, b.input("y", (3, 8, 8)))
    return b.build(outputs=[b.add(K.ADD, y, b.add(K.TRANSPOSE, x, perm=(0, 2, 1)))])


def nest_of(graph: Graph) -> tuple[Group, Nest]:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    return group, nests[0]


def test_an_address_holds_as_many_loops_as_schedules_may_use() -> None:
    assert ADDRESS_LOOPS == MAX_TERMS


def test_a_schedule_that_moves_an_operand_with_four_loops_is_refused_with_the_way_out() -> None:
    _, nest = nest_of(turned())
    part = NestSchedule((1, 1, 1, 1), (0, 1, 2, 3), ())
    rejection = check((nest,), Schedule((part,)), SPEC.capacity, 1)
    assert rejection is not None
    assert "moves with 4 loops; an address holds 2: split fewer of" in rejection.reason


def test_a_schedule_that_would_run_for_minutes_is_refused() -> None:
    """Every element of a product makes a reduction of its other factor anew, number by number."""
    b = GraphBuilder("deep")
    y = b.add(K.MATMUL, b.input("x", (2, 70_000)), b.constant(array(70_000, 1)))
    _, nest = nest_of(b.build(outputs=[b.add(K.MATMUL, b.input("z", (70_000, 2)), y)]))
    part = NestSchedule((1, 1), (0, 1), (1, 2), cores=1)
    rejection = check((nest,), Schedule((part,)), SPEC.capacity, 1)
    assert rejection is not None and "loops: 4900000000 runs" in rejection.reason
    assert not expressible(nest, ScheduleTable.of(nest, [part])).any()
    table = enumerate_nest(nest, SPEC.capacity, 1, 4096, np.random.default_rng(0))
    rows = [Schedule((table.row(i),)) for i in range(len(table))]
    assert all(check((nest,), row, SPEC.capacity, 1) is None for row in rows)


def test_the_largest_array_counts_all_runs_of_a_legal_schedule() -> None:
    """Found by drawing: an attention of 1 500 keys, tile by tile of one number, on 256×256 cells."""
    b, machine = GraphBuilder("attention"), load_spec("tpuv1-like")
    scores = b.add(K.SOFTMAX, b.input("s", (1, 6, 1500, 1500)), axis=3)
    graph = b.build(outputs=[b.add(K.MATMUL, scores, b.input("v", (1, 6, 1500, 64)))])
    group, nest = nest_of(graph)
    ones = Schedule((NestSchedule((1, 6, 1, 1), (2, 3, 0, 1), (1,)),))
    rejection = check((nest,), ones, machine.capacity, 1)
    assert rejection is not None and "loops: 144000000 runs" in rejection.reason
    twos = Schedule((NestSchedule((1, 6, 2, 2), (2, 3, 0, 1), (1,)),))
    assert check((nest,), twos, machine.capacity, 1) is None
    assert Loaded(lower(group, twos, machine), machine)


@pytest.mark.parametrize("graph", [turned(), squared()])
@settings(max_examples=30)
@given(data=st.data())
def test_every_schedule_of_the_space_lowers_and_equals_the_reference(
    graph: Graph, data: st.DataObject
) -> None:
    group, nest = nest_of(graph)
    table = enumerate_nest(nest, SPEC.capacity, 1, 4096, np.random.default_rng(0))
    row = data.draw(st.integers(0, len(table) - 1))
    near = neighbours(nest, table.take([row]), SPEC.capacity, 1)
    for part in (table.row(row), near.row(data.draw(st.integers(0, len(near) - 1)))):
        assert check((nest,), Schedule((part,)), SPEC.capacity, 1) is None
        program = lower(group, Schedule((part,)), SPEC)
        feeds = {x: array(*graph.shape(x)) for x in graph.inputs}
        got = Interpreter(program, feeds).run()
        for name, value in evaluate(graph, feeds).items():
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4)


@given(data=st.data())
def test_tables_and_single_schedules_agree_on_what_addresses_hold(data: st.DataObject) -> None:
    _, nest = nest_of(turned())
    tiles = st.tuples(*(st.integers(1, n) for n in SHAPE))
    parts = [NestSchedule(t, (0, 1, 2, 3), ()) for t in data.draw(st.lists(tiles, min_size=1))]
    checked = [check((nest,), Schedule((part,)), Capacity(1 << 20), 1) is None for part in parts]
    assert expressible(nest, ScheduleTable.of(nest, parts)).tolist() == checked


def test_a_group_is_not_legal_where_tiles_that_fit_need_more_loops() -> None:
    group, _ = nest_of(turned())
    small = replace(SPEC, scratchpad=replace(SPEC.scratchpad, size_bytes=1 << 12))
    assert legal_nests(group, small) is not None
    tiny = replace(SPEC, scratchpad=replace(SPEC.scratchpad, size_bytes=4 * (576 + 3)))
    assert legal_nests(group, tiny) is None
