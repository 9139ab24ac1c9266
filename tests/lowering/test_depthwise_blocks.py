"""A depthwise convolution in one group with the products around it: halos, padding, any schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.analysis import nests_of
from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.channels_last import ChannelsLast
from autotune.isa.verifier.proof import verify
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import Array
from autotune.schedule.schedule import Schedule
from autotune.targets.emulator.races import find_races
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from autotune.targets.opening import load_spec
from autotune.targets.spec import Memory
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.drawn_graphs import array, schedules
from tests.targets.native.native_case import executed

HOST = replace(load_spec("server"), cores=2, tile_multiple=16, memory=Memory.CACHED)
"""A machine that works in place, as a CPU does."""


def bottleneck(extent: int, stride: int, residual: bool) -> Graph:
    """1×1, depthwise 3×3, 1×1 of channels-last images, MobileNet-v2's way."""
    b = GraphBuilder("bottleneck")
    x = b.input("x", (1, 16, extent, extent))
    y = b.add(K.CONV, x, b.constant(array(24, 16, 1, 1)), b.constant(array(24)))
    y = b.add(K.CLIP, y, min=0.0, max=6.0)
    weight, bias = b.constant(array(24, 1, 3, 3)), b.constant(array(24))
    y = b.add(K.CONV, y, weight, bias, pads=(1,) * 4, strides=(stride,) * 2, group=24)
    y = b.add(K.CLIP, y, min=0.0, max=6.0)
    y = b.add(K.CONV, y, b.constant(array(16, 24, 1, 1)), b.constant(array(16)))
    return ChannelsLast().run(b.build([b.add(K.ADD, y, x) if residual else y])).graph


def block_of(graph: Graph) -> Group:
    """All but the transposes at the border."""
    return Group.from_graph(graph, [op.name for op in graph.ops if op.kind is not K.TRANSPOSE])


def one_by_one(graph: Graph, feeds: dict[str, Array], compiler: Compiler) -> dict[str, Array]:
    """Every tensor of the graph, each operator a program by rule."""
    known = {**feeds, **graph.constants}
    partition = unfused(graph)
    for index in range(len(partition.groups)):
        group = partition.group(index)
        schedule = heuristic_schedule(group, HOST)
        assert schedule is not None
        known |= executed(lower(group, schedule, HOST), known, compiler)
    return known


@pytest.mark.skipif(not available(), reason="needs llvmlite")
@pytest.mark.parametrize(("extent", "stride"), [(7, 1), (10, 2), (9, 2)])
@given(data=st.data())
@settings(max_examples=6)
def test_a_block_by_any_schedule_gives_the_bits_of_its_operators_one_by_one(
    extent: int, stride: int, data: st.DataObject
) -> None:
    graph = bottleneck(extent, stride, residual=stride == 1)
    compiler, group = Compiler(), block_of(graph)
    feeds = {"x": array(*graph.shape("x"))}
    known = one_by_one(graph, feeds, compiler)
    by_rule = heuristic_schedule(group, HOST)
    assert by_rule is not None
    for drawn in (by_rule, data.draw(schedules(nests_of(group)))):
        k_tile = tuple(c.k_extent for nest in nests_of(group) for c in nest.contractions)
        schedule = Schedule((replace(drawn.nests[0], k_tile=k_tile),))
        program = lower(group, schedule, HOST)
        verify(program, HOST.scratchpad_elements)
        assert not find_races(program)
        for name, value in executed(program, known, compiler).items():
            np.testing.assert_array_equal(value.reshape(known[name].shape), known[name])
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(known[name], value, rtol=1e-4, atol=1e-4)
