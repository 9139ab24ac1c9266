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
    z = round(y)
    -> z
"""
SUM = """
    x: (4, 6)
    w = normal(6, 5)
    v = normal(6, 5)
    s = normal(5)
    t = normal(5)
    zero = 3.0
    divisor = 0.3
    p = matmul(x, w) a_zero=3 b_zero=0
    q = matmul(x, v) a_zero=3 b_zero=0
    c = sub(q, zero)
    m = mul(p, s)
    n = mul(c, t)
    a = add(m, n)
    y = div(a, divisor)
    z = {last}
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
        z = round(r)
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
        z = round(r)
        """,
    )


def test_a_sum_of_dequantised_tensors_takes_one_rounding() -> None:
    becomes(
        RequantisedSums(),
        SUM.format(last="round(y)"),
        """
        p = matmul(x, w) a_zero=3 b_zero=0
        q = matmul(x, v) a_zero=3 b_zero=0
        c = sub(q, zero)
        m = mul(p, m.requantised)
        n = mul(c, n.requantised)
        a = add(m, n)
        z = round(a)
        """,
    )
    stays(RequantisedSums(), SUM.format(last="neg(y)"))
    stays(RequantisedSums(), SUM.format(last="round(y)").replace("mul(c, t)", "tanh(c)"))


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


def test_integers_that_others_read_are_scaled_once_more() -> None:
    text = SUM.format(last="round(y)").replace("-> z", "e = exp(n)\n-> z, e")
    becomes(
        RequantisedSums(),
        text,
        """
        p = matmul(x, w) a_zero=3 b_zero=0
        q = matmul(x, v) a_zero=3 b_zero=0
        c = sub(q, zero)
        m = mul(p, m.requantised)
        n = mul(c, t)
        y.n = mul(c, n.requantised)
        a = add(m, y.n)
        z = round(a)
        e = exp(n)
        """,
    )


def test_sums_that_others_read_stay() -> None:
    stays(RequantisedSums(), TEXT.format(**GIVEN).replace("-> z", "-> z, a"))
    stays(RequantisedSums(), TEXT.format(**GIVEN).replace("-> z", "e = exp(y)\n-> z, e"))
