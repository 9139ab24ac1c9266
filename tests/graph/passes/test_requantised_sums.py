"""The scale of a result joins the scale of integer sums; other divisions stay."""

from __future__ import annotations

import pytest

from autotune.graph.passes.requantised_sums import RequantisedSums
from tests.graph.passes.graph_text import becomes, stays

TEXT = """
    x: (4, 6)
    w = normal(6, 5)
    scale = normal(5)
    bias = normal(5)
    divisor = {divisor}
    p = {product}
    m = mul(p, scale)
    a = add({sum})
    r = {activation}
    y = div(r, divisor)
    z = neg(y)
    -> z
"""
NARROW = "matmul(x, w) a_zero=3 b_zero=0"
GIVEN = {"divisor": "0.3", "product": NARROW, "sum": "m, bias", "activation": "relu(a)"}


@pytest.mark.parametrize("sum", ["m, bias", "bias, m"])
def test_a_division_joins_scale_and_bias(sum: str) -> None:
    joined = sum.replace("bias", "a.requantised")
    becomes(
        RequantisedSums(),
        TEXT.format(**GIVEN | {"sum": sum}),
        f"""
        p = matmul(x, w) a_zero=3 b_zero=0
        m = mul(p, m.requantised)
        a = add({joined})
        r = relu(a)
        z = neg(r)
        """,
    )


def test_limits_are_divided_too() -> None:
    becomes(
        RequantisedSums(),
        TEXT.format(**GIVEN | {"divisor": "0.5", "activation": "clip(a) max=6.0 min=0.0"}),
        """
        p = matmul(x, w) a_zero=3 b_zero=0
        m = mul(p, m.requantised)
        a = add(m, a.requantised)
        r = clip(a) max=12.0 min=0.0
        z = neg(r)
        """,
    )


@pytest.mark.parametrize(
    "other",
    [
        {"product": "matmul(x, w)"},
        {"divisor": "-0.3"},
        {"divisor": "(0.5, 0.3, 0.1, 1.0, 2.0)"},
        {"activation": "tanh(a)"},
        {"activation": "add(a, p)"},
    ],
)
def test_other_divisions_stay(other: dict[str, str]) -> None:
    stays(RequantisedSums(), TEXT.format(**GIVEN | other))


def test_sums_that_others_read_stay() -> None:
    stays(RequantisedSums(), TEXT.format(**GIVEN).replace("-> z", "-> z, a"))
