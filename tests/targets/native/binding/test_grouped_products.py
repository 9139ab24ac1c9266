"""Narrow groups of a convolution share registers, and change no bit of a result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.targets.native.binding.grouped_products import Grouped
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512, SSE2, VectorIsa
from autotune.targets.native.linking import loader
from autotune.targets.native.linking.loader import bind
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array
from tests.lowering.lowering_case import lowered
from tests.targets.native.native_case import executed

SPEC = replace(load_spec("server"), cores=1)


def convolution(
    group: int = 4, groups: int = 8, outputs: int | None = None, adds: bool = False, **attrs: Any
) -> Graph:
    """A grouped convolution, its bias, what is added and its activation, of channels-last images."""
    b, rng = GraphBuilder("grouped"), np.random.default_rng(0)
    made = groups * (group if outputs is None else outputs)
    x = b.input("x", (1, 9, 11, group * groups))
    w = b.constant(rng.standard_normal((3, 3, group, made)).astype(np.float32))
    bias = b.constant(rng.standard_normal(made).astype(np.float32))
    window = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1)} | attrs
    y = b.add(K.CONV, x, w, bias, group=groups, channels_last=1, **window)
    if adds:
        y = b.add(K.ADD, y, x)
    return b.build([b.add(K.RELU, y)])


def program_of(graph: Graph) -> Program:
    """All of a graph as one group, by rule."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, SPEC.capacity, 1, 32, 1)
    assert isinstance(schedule, Schedule)
    return lower(group, schedule, SPEC)


def groups(program: Program, isa: VectorIsa) -> list[int]:
    """The lanes of a group of each product."""
    found = [
        call.kernel.constants
        for call in bind(program, isa).calls
        if isinstance(call.kernel, KernelSpec)
    ]
    return [shape.group for shape in found if isinstance(shape, GemmShape)]


@pytest.mark.parametrize(
    ("graph", "isa", "lanes"),
    [
        (convolution(), AVX512, 4),
        (convolution(), AVX2, 4),
        (convolution(group=2, groups=5), AVX512, 2),
        (convolution(group=8), AVX512, 8),
        (convolution(strides=(2, 2), dilations=(1, 2)), AVX512, 4),
        (convolution(adds=True), AVX512, 4),
        (convolution(), SSE2, 0),
        (convolution(group=8), AVX2, 0),
        (convolution(group=3), AVX512, 0),
        (convolution(outputs=2), AVX512, 0),
    ],
    ids=[
        *("four", "four of AVX2", "two", "eight", "strides", "residual"),
        *("a register", "a register of AVX2", "three", "fewer outputs"),
    ],
)
def test_groups_that_divide_a_register_share_it(graph: Graph, isa: VectorIsa, lanes: int) -> None:
    found = groups(program_of(graph), isa)
    assert set(found) == {lanes}
    assert lanes == 0 or len(found) == 1


@pytest.mark.parametrize("group", [2, 4, 8])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_results_are_those_of_groups_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, adds: bool, stride: int
) -> None:
    if adds and stride > 1:
        pytest.skip("the image is larger than the result")
    graph = convolution(group, 6, adds=adds, strides=(stride, stride))
    program = program_of(graph)
    rng = np.random.default_rng(1)
    tensors = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in program.tensors}
    compiler = Compiler(cache_dir=tmp_path)
    joint = executed(program, tensors, compiler)
    monkeypatch.setattr(loader, "with_joint_groups", lambda _, nodes, calls: Grouped(nodes, calls))
    apart = executed(program, tensors, compiler)
    for name, value in apart.items():
        np.testing.assert_array_equal(joint[name], value)


@given(data=st.data())
def test_any_schedule_of_narrow_groups_equals_the_reference(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    group = data.draw(st.sampled_from([2, 4, 8]))
    graph = convolution(group, data.draw(st.integers(2, 7)), adds=data.draw(st.booleans()))
    program = lowered(graph, data)
    feeds = {x: array(*graph.shape(x)) for x in graph.inputs}
    compiler = Compiler(cache_dir=tmp_path_factory.mktemp("objects"))
    got = executed(program, {**feeds, **graph.constants}, compiler)
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name].reshape(value.shape), value, rtol=1e-4, atol=1e-4)
