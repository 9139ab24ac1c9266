"""Limits that a later clip makes needless go, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.passes.bound_limits import BoundLimits
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from tests.graph.passes.graph_text import becomes, parsed, stays

QUANTISED = """
    x: (2, 3)
    scale = 0.5
    zero = {zero}
    r = {limit}
    d = div(r, scale)
    n = round(d)
    w = clip(n) max=1048576.0 min=-1048576.0
    s = add(w, zero)
    y = clip(s) max=255.0 min=0.0
    -> y
"""


def test_what_quantisation_cuts_off_anyway_goes() -> None:
    graph = becomes(
        BoundLimits(),
        QUANTISED.format(zero=0.0, limit="relu(x)"),
        """
        d = div(x, scale)
        n = round(d)
        s = add(n, zero)
        y = clip(s) max=255.0 min=0.0
        """,
    )
    ends = np.array([[-np.inf, np.inf, -3e38], [3e38, -0.26, 300.0]], np.float32)
    (got,) = evaluate(graph, {"x": ends}).values()
    np.testing.assert_array_equal(got, [[0, 255, 0], [255, 0, 255]])


@pytest.mark.parametrize(("zero", "limit"), [(7.0, "relu(x)"), (0.0, "clip(x) max=127.0 min=0.0")])
def test_a_limit_that_binds_sooner_stays(zero: float, limit: str) -> None:
    becomes(
        BoundLimits(),
        QUANTISED.format(zero=zero, limit=limit),
        f"""
        r = {limit}
        d = div(r, scale)
        n = round(d)
        s = add(n, zero)
        y = clip(s) max=255.0 min=0.0
        """,
    )


def test_a_clip_by_channel_counts_at_the_channel_that_it_leaves_least() -> None:
    text = """
    x: (4, 2)
    r = clip(x) max=2.0 min=-2.0
    m = mul({operands})
    y = clip(m) max=3.0 min=-3.0
    -> y
    """
    wide = text.replace("    x: (4, 2)", "    x: (4, 2)\n    scales = (2.0, 1.6)")
    becomes(
        BoundLimits(),
        wide.format(operands="scales, r"),
        """
        m = mul(scales, x)
        y = clip(m) max=3.0 min=-3.0
        """,
    )
    stays(BoundLimits(), wide.replace("1.6", "1.4").format(operands="r, scales"))
    stays(BoundLimits(), wide.replace("1.6", "-1.6").format(operands="r, scales"))


@pytest.mark.parametrize(
    "text",
    [
        """
        x: (2,)
        r = relu(x)
        y = clip(r) max=5.0 min=0.0
        z = exp(r)
        -> y, z
        """,
        """
        x: (2,)
        r = relu(x)
        y = clip(r) max=5.0 min=0.0
        -> y, r
        """,
        """
        x: (2,)
        r = relu(x)
        e = neg(r)
        y = clip(e) max=5.0 min=0.0
        -> y
        """,
        """
        x: (2,)
        one = 1.0
        r = relu(x)
        e = sub(one, r)
        y = clip(e) max=1.0 min=0.0
        -> y
        """,
    ],
)
def test_limits_that_others_see_or_that_change_their_side_stay(text: str) -> None:
    stays(BoundLimits(), text)


def test_a_limit_that_keeps_integers_exact_stays() -> None:
    b = GraphBuilder("g")
    whole = b.add(K.CLIP, b.add(K.ROUND, b.input("x", (4,))), min=-9e5, max=9e5)
    shifted = b.add(K.ADD, whole, b.constant(3.0))
    b.mean(shifted, DType.UINT8)
    graph = b.build([b.add(K.CLIP, shifted, min=0.0, max=255.0)])
    assert BoundLimits().run(graph).notes == ()


def test_numbers_that_are_not_finite_pass_as_before() -> None:
    graph = parsed(QUANTISED.format(zero=3.0, limit="relu(x)"))
    ends = np.array([[np.nan, np.inf, -np.inf], [-0.0, 1e38, -1e38]], np.float32)
    (wanted,) = evaluate(graph, {"x": ends}).values()
    (got,) = evaluate(BoundLimits().run(graph).graph, {"x": ends}).values()
    np.testing.assert_array_equal(got, wanted)
