"""Maxima over large windows by rows and columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ModelError
from autotune.graph.builder import GraphBuilder
from autotune.graph.passes import simplify
from autotune.graph.passes.separable_pooling import SeparablePooling
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from tests.graph.graph_cases import assert_equivalent
from tests.graph.passes.graph_text import becomes, stays


def test_a_window_of_five_by_five_reads_ten_taps() -> None:
    before = """
        x: (1, 9, 8, 3)
        y = max_pool(x) kernel=(5, 5) pads=(2, 1, 2, 3) strides=(2, 1) channels_last=1
        -> y
    """
    after = """
        y.rows = max_pool(x) channels_last=1 kernel=(5, 1) pads=(2, 0, 2, 0) strides=(2, 1)
        y = max_pool(y.rows) channels_last=1 kernel=(1, 5) pads=(0, 1, 0, 3)
    """
    becomes(SeparablePooling(), before, after)


@pytest.mark.parametrize(
    "window",
    [
        "max_pool(x) kernel=(3, 3) channels_last=1",
        "max_pool(x) kernel=(1, 8) channels_last=1",
        "max_pool(x) kernel=(8, 8) channels_last=1",
        "max_pool(x) kernel=(4, 4) strides=(4, 4) channels_last=1",
        "max_pool(x) kernel=(5, 5)",
        "average_pool(x) kernel=(5, 5) channels_last=1",
    ],
)
def test_others_stay(window: str) -> None:
    stays(SeparablePooling(), f"x: (1, 8, 8, 8)\ny = {window}\n-> y")


PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=50, deadline=None)
@given(
    image=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    kernel=st.tuples(st.integers(2, 7), st.integers(2, 7)),
    strides=PAIR,
    dilations=PAIR,
    pads=st.tuples(*(st.integers(0, 4),) * 4),
)
def test_any_window_computes_the_same(image, kernel, strides, dilations, pads) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 2, *image))
    try:
        y = b.add(
            OpKind.MAX_POOL, x, kernel=kernel, strides=strides, dilations=dilations, pads=pads
        )
    except ModelError:
        return
    graph = b.build([y])
    result = simplify(graph, Layout.CHANNELS_LAST)
    assert_equivalent(graph, result.graph)
    assert simplify(result.graph, Layout.CHANNELS_LAST).notes == ()
