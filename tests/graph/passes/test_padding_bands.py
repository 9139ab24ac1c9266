"""Dilated convolutions in bands whose taps read no padding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.padding_bands import PaddingBands
from autotune.graph.window import window_axes
from autotune.graph.work import multiply_adds
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.native_table import link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.graph.graph_cases import assert_equivalent, normal


def dilated(size: tuple[int, int], rate: tuple[int, int], channels: int = 32, **attrs) -> Graph:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, channels, *size)), b.constant(normal(0, 8, channels, 3, 3))
    given = {"pads": (*rate, *rate), "dilations": rate, **attrs}
    return b.build(
        [b.add(OpKind.RELU, b.add(OpKind.CONV, x, w, b.constant(normal(1, 8)), **given))]
    )


def work(graph: Graph) -> int:
    return sum(multiply_adds(op, graph) for op in graph.ops)


def test_a_segmentation_head_multiplies_no_padding() -> None:
    graph = dilated((16, 16), (12, 12))
    found = PaddingBands().run(graph)
    assert_equivalent(graph, found.graph)
    convolutions = [op for op in found.graph.ops if op.kind is OpKind.CONV]
    assert len(convolutions) == 9
    assert not any(any(op.ints("pads")) for op in convolutions)
    assert work(found.graph) * 4 == work(graph)
    assert PaddingBands().run(found.graph).notes == ()


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (dilated((7, 7), (1, 1)), "no dilation"),
        (dilated((16, 16), (12, 12), channels=16), "few channels"),
        (dilated((64, 64), (2, 2)), "little padding"),
        (dilated((4, 4), (2, 2)), "weights take as long"),
        (dilated((1, 100), (1, 90), strides=(9, 1), pads=(4, 90, 4, 90)), "padding alone"),
    ],
)
def test_others_stay_whole(graph: Graph, why: str) -> None:
    assert PaddingBands().run(graph).notes == (), why


def test_one_axis_is_cut_alone_where_the_other_has_no_padding() -> None:
    graph = dilated((40, 64), (18, 1))
    found = PaddingBands().run(graph)
    assert_equivalent(graph, found.graph)
    assert [op.int("axis") for op in found.graph.ops if op.kind is OpKind.CONCAT] == [2]
    for op in found.graph.ops:
        if op.kind is OpKind.CONV:
            rows, columns = window_axes(op, found.graph)
            assert (rows.before, rows.after, columns.before, columns.after) == (0, 0, 1, 1)


@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(8, 26), st.integers(8, 26)),
    rate=st.tuples(st.integers(1, 25), st.integers(3, 25)),
    pads=st.tuples(*(st.integers(0, 25),) * 4),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_any_bands_compute_the_same(size, rate, pads, strides) -> None:
    pads = tuple(max(p, rate[i % 2]) for i, p in enumerate(pads))
    graph = dilated(size, rate, pads=pads, strides=strides)
    result = simplify(graph)
    assert_equivalent(graph, result.graph)
    assert simplify(result.graph).notes == ()


@pytest.mark.parametrize("machine", ["edge", "cpu"])
@pytest.mark.parametrize(("size", "rate"), [((16, 16), (12, 12)), ((33, 20), (6, 18))])
def test_bands_run_on_machines(machine: str, size, rate) -> None:
    on = target(machine)
    graph = simplify(dilated(size, rate), Layout(on.spec.layout)).graph
    assert sum(op.kind is OpKind.CONV for op in graph.ops) > 2
    fed = {"x": normal(2, *graph.shape("x"))}
    table = compile_table(graph, heuristic_choices(graph, on.spec), on.spec, ProgramCache())
    found = execute(link_table(table, on), on, fed)[0]
    for name, wanted in evaluate(graph, fed).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4)


def test_layout_leaves_no_transpose_between_bands() -> None:
    graph = simplify(dilated((16, 16), (12, 12)), Layout.CHANNELS_LAST).graph
    assert sum(op.kind is OpKind.TRANSPOSE for op in graph.ops) == 2
