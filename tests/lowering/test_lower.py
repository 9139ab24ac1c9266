"""Lowered programs compute what the reference computes, for any group and any legal schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from tests.drawn_graphs import graphs
from tests.lowering.lowering_case import SPEC, block_program, lowered, residual_block
from tests.oracle import Interpreter


def run(graph: Graph, program: Program) -> None:
    rng = np.random.default_rng(3)
    feeds = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    want = evaluate(graph, feeds)
    got = Interpreter(program, {**feeds, **graph.constants}).run()
    for name, value in want.items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(
            got[name].reshape(value.shape), value, rtol=1e-3, atol=1e-4 * scale
        )


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_any_group_by_any_schedule_equals_the_reference(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    run(graph, lowered(graph, data))


def test_intermediates_stay_out_of_dram() -> None:
    names = {tensor.name for tensor in block_program().tensors}
    graph = residual_block()
    assert names == {*graph.inputs, *graph.constants, *graph.outputs}


def test_program_size_does_not_grow_with_trip_counts() -> None:
    def length(extent: int) -> int:
        b = GraphBuilder("chain")
        x = b.input("x", (extent, 8))
        graph = b.build(outputs=[b.add(K.TANH, b.add(K.RELU, x))])
        group = Group.from_graph(graph, [op.name for op in graph.ops])
        program = lower(group, Schedule((NestSchedule((4, 8), (0, 1), ()),)), SPEC)
        return len(program.streams[0])

    assert length(40) == length(4000)


@pytest.mark.parametrize(
    ("tile", "k_tile", "reason"),
    [
        ((1, 6, 9, 11), (6, 8), "tile: 11 > extent 10"),
        ((1, 6, 9, 10), (6, 9), "reduction: 9 of 8"),
    ],
)
def test_an_illegal_schedule_is_refused_with_its_constraint(tile, k_tile, reason) -> None:
    graph = residual_block()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    with pytest.raises(ScheduleError, match=reason):
        lower(group, Schedule((NestSchedule(tile, (0, 1, 2, 3), k_tile),)), SPEC)


def test_a_schedule_that_does_not_fit_the_scratchpad_is_refused() -> None:
    graph = residual_block()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    small = replace(SPEC, scratchpad=replace(SPEC.scratchpad, size_bytes=4096))
    with pytest.raises(ScheduleError, match=r"scratchpad: tiles take .* bytes of 4,096"):
        lower(group, Schedule((NestSchedule((1, 6, 9, 10), (0, 1, 2, 3), (6, 8)),)), small)


def test_a_result_wider_than_its_loaded_operand_has_a_buffer_of_its_own() -> None:
    """Padding along an axis of extent 1 widens the result; its operand stays one element wide."""
    b = GraphBuilder("widened")
    x = b.input("x", (1, 4, 5))
    y = b.add(K.ADD, x, b.constant(np.ones((1, 4, 5), np.float32)))
    graph = b.build(outputs=[b.add(K.SLIDING_SUM, y, axis=0, before=3, after=1)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    run(graph, lower(group, Schedule((NestSchedule((1, 4, 5), (0, 1, 2), ()),)), SPEC))


def test_an_output_that_the_root_is_the_front_of_is_stored_whole() -> None:
    b = GraphBuilder("front")
    whole = b.add(K.SOFTMAX, b.input("x", (6, 4)), axis=1)
    front = b.add(K.SLICE, whole, starts=(0, 0), steps=(1, 1), sizes=(3, 4))
    graph = b.build(outputs=[whole, front])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    tile = NestSchedule((1, 4), (0, 1), ())
    run(graph, lower(group, Schedule((tile, tile)), SPEC))


def test_a_result_takes_over_an_operand_that_was_loaded_in_another_shape_of_its_rank() -> None:
    b = GraphBuilder("turned")
    x, y = b.input("x", (1, 5)), b.input("y", (5, 1))
    graph = b.build([b.add(K.MAXIMUM, b.add(K.RESHAPE, x, shape=(5, 1)), y)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    run(graph, lower(group, Schedule((NestSchedule((5, 1), (0, 1), ()),)), SPEC))


@pytest.mark.parametrize("shape", [(1, 1 << 11, 1 << 11), (2, 2048, 2048), (3, 1 << 22)])
def test_a_tile_of_the_largest_scratchpad_has_strides_that_fields_hold(
    shape: tuple[int, ...],
) -> None:
    b = GraphBuilder("large")
    graph = b.build([b.add(K.RELU, b.input("x", shape))])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    large = replace(SPEC, scratchpad=replace(SPEC.scratchpad, size_bytes=1 << 28))
    whole = Schedule((NestSchedule(shape, tuple(range(len(shape))), (), 1),))
    run(graph, lower(group, whole, large))
