"""Outer taps that read padding alone go; what a window computes stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ModelError
from autotune.graph.builder import GraphBuilder
from autotune.graph.passes.padding_taps import PaddingTaps
from autotune.operators.op import OpKind
from tests.graph.graph_cases import assert_equivalent, normal
from tests.graph.passes.graph_text import becomes, stays

AXIS = st.fixed_dictionaries(
    {
        "size": st.integers(1, 9),
        "kernel": st.integers(1, 5),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 7),
        "before": st.integers(0, 12),
        "after": st.integers(0, 12),
    }
)


def test_a_rate_beyond_the_image_leaves_the_centre_tap() -> None:
    before = """
        x: (1, 4, 5, 6)
        w = normal(3, 4, 3, 3)
        b = normal(3)
        y = conv(x, w, b) pads=(6, 6, 6, 6) dilations=(6, 6)
        -> y
    """
    graph = becomes(PaddingTaps(), before, "y = conv(x, y.taps, b)")
    assert graph.shape("y.taps") == (3, 4, 1, 1)


def test_a_causal_window_keeps_its_last_tap() -> None:
    before = """
        x: (1, 4, 1, 6)
        w = normal(3, 4, 1, 2)
        y = conv(x, w) pads=(0, 8, 0, 0) dilations=(1, 8)
        -> y
    """
    becomes(PaddingTaps(), before, "y = conv(x, y.taps)")


def test_poolings_lose_taps_unless_padding_counts() -> None:
    pool = "pads=(3, 3, 3, 3) kernel=(7, 7)"
    for kind, rest in (("max_pool", ""), ("average_pool", " count_include_pad=0")):
        before = f"x: (1, 2, 2, 8)\ny = {kind}(x) {pool}{rest}\n-> y"
        graph = becomes(PaddingTaps(), before, f"y = {kind}(x) kernel=(3, 7) pads=(1, 3, 1, 3)")
        assert graph.shape("y") == (1, 2, 2, 8)
    stays(PaddingTaps(), f"x: (1, 2, 2, 8)\ny = average_pool(x) {pool} count_include_pad=1\n-> y")


def test_a_tap_that_one_position_reads_stays() -> None:
    text = """
        x: (1, 4, 4, 4)
        w = normal(3, 4, 7, 7)
        y = conv(x, w) pads=(3, 3, 3, 3)
        -> y
    """
    stays(PaddingTaps(), text)


@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_padding_times_infinity_is_kept(weight: float) -> None:
    b = GraphBuilder("g")
    values = normal(0, 3, 4, 3, 3)
    values[0, 0, 0, 0] = weight
    y = b.add(
        OpKind.CONV, b.input("x", (1, 4, 5, 5)), b.constant(values), pads=(6,) * 4, dilations=(6, 6)
    )
    assert PaddingTaps().run(b.build([y])).notes == ()


@given(rows=AXIS, columns=AXIS, group=st.sampled_from((1, 2)), kind=st.sampled_from((OpKind.CONV, OpKind.MAX_POOL, OpKind.AVERAGE_POOL)))  # fmt: skip
def test_any_window_computes_the_same(rows: dict, columns: dict, group: int, kind: OpKind) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 4, rows["size"], columns["size"]))
    kernel = rows["kernel"], columns["kernel"]
    attrs = {
        "strides": (rows["stride"], columns["stride"]),
        "dilations": (rows["dilation"], columns["dilation"]),
        "pads": (rows["before"], columns["before"], rows["after"], columns["after"]),
    }
    try:
        if kind is OpKind.CONV:
            y = b.add(kind, x, b.constant(normal(1, 2, 4 // group, *kernel)), group=group, **attrs)
        else:
            y = b.add(kind, x, kernel=kernel, **attrs)
    except ModelError:
        return
    graph = b.build([y])
    result = PaddingTaps().run(graph)
    assert_equivalent(graph, result.graph)
    assert PaddingTaps().run(result.graph).notes == ()
