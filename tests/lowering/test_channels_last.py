"""Channels-last programs: what the reference computes, in the form that the native engine wants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.channels_last import ChannelsLast
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.target import EmulatorTarget
from tests.drawn_graphs import array, graphs
from tests.lowering.lowering_case import SPEC, lowered
from tests.oracle import Interpreter


def fed(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


def assert_outputs(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    for name, value in want.items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(
            got[name].reshape(value.shape), value, rtol=1e-3, atol=1e-4 * scale
        )


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_any_channels_last_group_by_any_schedule_equals_the_first_ones_reference(
    data: st.DataObject,
) -> None:
    graph = data.draw(graphs())
    turned = ChannelsLast().run(graph).graph
    program = lowered(turned, data)
    feeds = fed(graph)
    got = Interpreter(program, {**feeds, **turned.constants}).run()
    assert_outputs(got, evaluate(graph, feeds))


def window_graph(kind: K, channels: int = 6, group: int = 1, **attrs: object) -> Graph:
    """One window operator, an epilogue's addend and activation behind it."""
    b = GraphBuilder("window")
    x = b.input("x", (2, channels, 9, 8))
    operands = [x]
    if kind is K.CONV:
        weight = array(8 if group < channels else channels, channels // group, 3, 3)
        operands += [b.constant(weight), b.constant(array(len(weight)))]
        attrs["group"] = group
    else:
        attrs["kernel"] = (3, 3)
    y = b.add(kind, *operands, strides=(2, 1), pads=(1, 1, 0, 1), **attrs)
    return b.build([b.add(K.RELU, y)])


WINDOWS = [
    (K.CONV, {}),
    (K.CONV, {"group": 2}),
    (K.CONV, {"group": 6}),
    (K.CONV, {"dilations": (2, 1)}),
    (K.MAX_POOL, {}),
    (K.AVERAGE_POOL, {}),
    (K.AVERAGE_POOL, {"count_include_pad": 1}),
]


@pytest.mark.parametrize(("kind", "attrs"), WINDOWS)
@given(data=st.data())
@settings(max_examples=10)
def test_both_layouts_give_the_same_numbers_on_the_emulator(kind, attrs, data) -> None:
    graph = window_graph(kind, **attrs)
    turned = ChannelsLast().run(graph).graph
    feeds = fed(graph)
    for one in (graph, turned):
        program = lowered(one, data)
        _, got = EmulatorTarget(SPEC).run(program, {**feeds, **one.constants})
        assert_outputs(got, evaluate(graph, feeds))


def only(program: Program, opcode: Opcode) -> Instruction:
    (found,) = [i for i in program.streams[0] if i.opcode is opcode]
    return found


def conv_program(tile: tuple[int, ...], kernel: int, stride: int) -> Program:
    b = GraphBuilder("conv")
    x = b.input("x", (1, 8, 10, 12))
    pad = kernel // 2
    w = b.constant(array(16, 8, kernel, kernel))
    y = b.add(K.CONV, x, w, strides=(stride, stride), pads=(pad,) * 4)
    graph = ChannelsLast().run(b.build([y])).graph
    group = Group.from_graph(graph, [graph.ops[1].name])
    return lower(group, Schedule((NestSchedule(tile, (0, 1, 2, 3), (8,), 1),)), SPEC)


def test_a_convolutions_rows_are_output_channels_of_unit_stride() -> None:
    matmul = only(conv_program((1, 10, 12, 16), 3, 1), Opcode.MATMUL)
    sizes = [matmul.get(n) for n in ("m", "n1", "n0", "k2", "k1", "k0")]
    assert sizes == [16, 10, 12, 3, 3, 8]
    assert [matmul.get(f"a_{d}") for d in ("m", "k2", "k1", "k0")] == [1, 3 * 8 * 16, 8 * 16, 16]
    assert [matmul.get(f"b_{d}") for d in ("k2", "k1", "k0", "n1", "n0")] == [
        14 * 8,
        8,
        1,
        14 * 8,
        8,
    ]
    assert [matmul.get(f"c_{d}") for d in ("m", "n1", "n0")] == [1, 12 * 16, 16]


@pytest.mark.parametrize(
    ("tile", "kernel", "stride", "pixels"),
    [
        ((1, 10, 12, 16), 1, 1, (1, 120)),
        ((1, 5, 12, 8), 1, 1, (1, 60)),
        ((1, 10, 6, 16), 1, 1, (10, 6)),
        ((1, 10, 12, 16), 3, 1, (10, 12)),
        ((1, 5, 6, 16), 1, 2, (5, 6)),
    ],
)
def test_whole_rows_without_a_window_are_one_run_of_pixels(tile, kernel, stride, pixels) -> None:
    for instruction in conv_program(tile, kernel, stride).streams[0]:
        if instruction.opcode is Opcode.MATMUL:
            assert (instruction.get("n1"), instruction.get("n0")) == pixels


def test_poolings_keep_channels_and_reduce_over_their_last_dimensions() -> None:
    b = GraphBuilder("pool")
    y = b.add(K.MAX_POOL, b.input("x", (1, 8, 6, 6)), kernel=(2, 3), strides=(2, 1))
    graph = ChannelsLast().run(b.build([y])).graph
    group = Group.from_graph(graph, [graph.ops[1].name])
    schedule = Schedule((NestSchedule(group.type_of[group.outputs[0]].shape, (0, 1, 2, 3), (), 1),))
    pool = only(lower(group, schedule, SPEC), Opcode.REDUCE)
    assert [pool.get(f"size{d}") for d in range(5)] == [3, 4, 8, 2, 3]
    assert [pool.get(f"src_stride{d}") for d in range(5)] == [96, 8, 1, 48, 8]
    assert [pool.get(f"dst_stride{d}") for d in range(5)] == [32, 8, 1, 0, 0]


def test_a_residual_leaves_with_the_accumulator_of_one_run_of_pixels() -> None:
    b = GraphBuilder("sum")
    a = b.add(K.CONV, b.input("x", (1, 4, 6, 5)), b.constant(array(8, 4, 3, 3)), pads=(1,) * 4)
    p = b.add(K.CONV, b.add(K.RELU, a), b.constant(array(8, 8, 1, 1)), b.constant(array(8)))
    first = b.build([b.add(K.RELU, b.add(K.ADD, p, a))])
    graph = ChannelsLast().run(first).graph
    inner = [op.name for op in graph.ops if op.kind is not K.TRANSPOSE]
    group = Group.from_graph(graph, inner)
    program = lower(group, Schedule((NestSchedule((1, 3, 5, 8), (1, 0, 2, 3), (4, 8), 1),)), SPEC)
    last = [i for i in program.streams[0] if i.opcode is Opcode.MATMUL][-1]
    assert last.get("adds") == 1
    assert [last.get(n) for n in ("n1", "n0", "r_m", "r_n0", "bias_axis")] == [1, 15, 1, 8, 1]
    feeds = fed(first)
    image = feeds["x"].transpose(0, 2, 3, 1)
    got = Interpreter(program, {"x.channels_last": image, **graph.constants}).run()
    want = evaluate(first, feeds)[first.outputs[0]]
    assert_outputs(got, {group.outputs[0]: want.transpose(0, 2, 3, 1)})
