"""Normalisations are recognised in every form that exporters write, and nothing else is."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.normal_pattern import NormalPattern
from autotune.operators.op import OpKind as K
from tests.frontend.onnx_case import imported, model_of
from tests.graph.graph_cases import assert_equivalent, normal
from tests.graph.passes.graph_text import becomes, parsed, stays, written

HEAD = "x: (2, 3, 8)\ng = normal(8)\nb = normal(8)\ne = 0.001\ntwo = 2.0\n"
PYTORCH = """
    m = reduce_mean(x) axes=(2,)
    c = sub(x, m)
    p = pow(c, two)
    v = reduce_mean(p) axes=(2,)
    w = add(v, e)
    r = sqrt(w)
    d = div(c, r)
"""
TENSORFLOW = """
    m = reduce_mean(x) axes=(2,)
    c = sub(x, m)
    p = mul(c, c)
    v = reduce_mean(p) axes=(2,)
    w = add(v, e)
    r = sqrt(w)
    i = reciprocal(r)
    f = mul(i, g)
    xf = mul(x, f)
    mf = mul(m, f)
    o = sub(b, mf)
    y = add(xf, o)
    -> y
"""
MOMENTS = """
    m = reduce_mean(x) axes=(2,)
    q = mul(x, x)
    s = reduce_mean(q) axes=(2,)
    mm = mul(m, m)
    v = sub(s, mm)
    w = add(v, e)
    r = sqrt(w)
    c = sub(x, m)
    d = div(c, r)
"""
RMS = """
    p = mul(x, x)
    v = reduce_mean(p) axes=(2,)
    w = add(v, e)
    r = sqrt(w)
"""
BOTH = "n = mul(d, g)\ny = add(n, b)\n-> y"
FORMS = {
    "PyTorch": (PYTORCH + BOTH, "layer_norm(x, y.scale, y.bias)"),
    "without affine": (PYTORCH + "y = neg(d)\n-> y", "layer_norm(x, y.scale)"),
    "without bias": (PYTORCH + "y = mul(g, d)\n-> y", "layer_norm(x, y.scale)"),
    "TensorFlow": (TENSORFLOW, "layer_norm(x, y.scale, y.bias)"),
    "twice subtracted": (
        PYTORCH.replace("pow(c, two)", "mul(k, k)").replace("    p =", "    k = sub(x, m)\n    p =")
        + BOTH,
        "layer_norm(x, y.scale, y.bias)",
    ),
    "by moments": (MOMENTS + BOTH, "layer_norm(x, y.scale, y.bias)"),
    "RMS, T5": (
        RMS + "i = reciprocal(r)\nd = mul(x, i)\ny = mul(g, d)\n-> y",
        "rms_norm(x, y.scale)",
    ),
    "RMS, divided": (RMS + "d = div(x, r)\ny = mul(d, g)\n-> y", "rms_norm(x, y.scale)"),
    "RMS, bare": (RMS + "y = div(x, r)\n-> y", "rms_norm(x, y.scale)"),
}


@pytest.mark.parametrize(("text", "one"), FORMS.values(), ids=FORMS)
def test_every_spelling_becomes_the_one_operator(text: str, one: str) -> None:
    graph = parsed(HEAD + text)
    after = simplify(graph).graph
    assert written(after) == f"y = {one} axis=2 epsilon=0.0010000000474974513"
    assert_equivalent(graph, after)


def test_scale_and_bias_are_the_constants_to_the_last_bit() -> None:
    graph = parsed(HEAD + PYTORCH + BOTH)
    after = simplify(graph).graph
    np.testing.assert_array_equal(after.constants["y.scale"], graph.constants["g"])
    np.testing.assert_allclose(
        after.constants["y.bias"], graph.constants["b"], rtol=1e-6, atol=1e-7
    )


def test_text_of_a_layer_norm_whose_mean_is_an_output() -> None:
    before = HEAD + PYTORCH + BOTH.replace("-> y", "-> y, m")
    after = """
        m = reduce_mean(x) axes=(2,)
        c = sub(x, m)
        n = rms_norm(c, n.scale) axis=2 epsilon=0.0010000000474974513
        y = add(n, b)
    """
    found = simplify(parsed(before)).graph
    assert written(found) == dedent(after).strip()
    assert_equivalent(parsed(before), found)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("axis", [1, 2])
def test_text_of_a_written_out_softmax(largest: bool, axis: int) -> None:
    shift = f"m = reduce_max(x) axes=({axis},)\nc = sub(x, m)\n" if largest else ""
    before = f"""
        x: (2, 3, 8)
        {shift}
        p = exp({"c" if largest else "x"})
        t = reduce_sum(p) axes=({axis},)
        y = div(p, t)
        -> y
    """
    becomes((NormalPattern(), DeadNodes()), before, f"y = softmax(x) axis={axis}")


CENTRED = """
    m = reduce_mean(x) axes=(2,)
    c = sub(x, m)
    p = mul(c, c)
    v = reduce_mean(p) axes=(2,)
"""
SQUARED = "p = mul(x, x)\nv = reduce_sum(p) axes=(2,)\n"
SMALL = "small = 1e-9\nfifty = 50.0\n"
CLIPPED = "k = clip(x) min=-50.0 max=50.0\n"
EXPONENTIAL = "p = exp(x)\nt = reduce_sum(p) axes=(2,)\n"
OTHERS = {
    "over rows": PYTORCH.replace("axes=(2,)", "axes=(1,)") + BOTH,
    "another power": PYTORCH.replace("two)", "e)") + BOTH,
    "without root": PYTORCH.replace("div(c, r)", "div(x, w)") + BOTH,
    "root of a clip": CENTRED + "w = clip(v) min=1e-5 max=1e30\nr = sqrt(w)\ny = div(c, r)\n-> y",
    "root of the larger": CENTRED + "w = maximum(v, e)\nr = sqrt(w)\ny = div(c, r)\n-> y",
    "epsilon behind the root": CENTRED + SMALL + "r = sqrt(v)\nw = add(r, small)\ny = div(c, w)\n-> y",
    "L2, clipped": SQUARED + "r = sqrt(v)\nw = clip(r) min=1e-12 max=1e30\ny = div(x, w)\n-> y",
    "L2, the larger": SQUARED + SMALL + "w = maximum(v, small)\nr = sqrt(w)\ny = div(x, r)\n-> y",
    "L2, epsilon behind the root": SQUARED + SMALL + "r = sqrt(v)\nw = add(r, small)\ny = div(x, w)\n-> y",
    "softmax with epsilon": EXPONENTIAL + SMALL + "w = add(t, small)\ny = div(p, w)\n-> y",
}  # fmt: skip


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_formulas_stay(text: str) -> None:
    stays(NormalPattern(), HEAD + text)


CLIPS = {
    "layer_norm": CLIPPED + PYTORCH.replace("(x", "(k") + BOTH,
    "softmax": CLIPPED + EXPONENTIAL.replace("exp(x)", "exp(k)") + "y = div(p, t)\n-> y",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), CLIPS.items(), ids=CLIPS)
def test_a_clip_before_a_normalisation_stays(kind: str, text: str) -> None:
    graph = parsed(HEAD + text)
    after = simplify(graph).graph
    assert [op.kind.value for op in after.ops] == ["clip", kind]
    x = 100 * normal(0, 2, 3, 8)
    assert_equivalent(graph, after, fed={"x": x})


SPREADS = (0.0, 1e-10, 1e-4, 1e6)
"""Of rows that are fed; 0 makes them constant."""


@pytest.mark.parametrize("level", [0.0, 1.0, 1e-3])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    "text", [*(text for text, _ in FORMS.values()), *OTHERS.values()], ids=[*FORMS, *OTHERS]
)
def test_all_formulas_compute_the_same_of_narrow_wide_and_constant_rows(
    text: str, spread: float, level: float
) -> None:
    graph = parsed(HEAD + text)
    x = np.float32(spread) * (normal(0, 2, 3, 8) + np.float32(level)) if spread else np.full(
        (2, 3, 8), level, np.float32
    )  # fmt: skip
    after = NormalPattern().run(graph).graph
    with np.errstate(all="ignore"):
        assert_equivalent(graph, after, 1e-4, 1e-5, {"x": x})


WITHIN = (
    "r = sqrt(v)",
    "w = add(v, n)\nr = sqrt(w)",
    "w = maximum(v, n)\nr = sqrt(w)",
    "r = add(v, n)",
)
BEHIND = ("q = mul(r, one)", "q = add(r, n)", "q = maximum(r, n)", "q = mul(r, n)")
LAST = ("y = mul(d, g)", "y = add(d, n)", "y = maximum(d, n)", "y = minimum(d, n)")


@given(
    *(st.sampled_from(choices) for choices in (("c", "x"), ("mean", "sum"), WITHIN, BEHIND, LAST)),
    st.sampled_from([1e-12, 1e-9, 1e-5, 0.5, 50.0, 65504.0]),
    st.sampled_from([0.0, 1e-10, 1e-5, 1.0, 1e6]),
    st.sampled_from([0.0, 1.0]),
)
def test_drawn_fragments_compute_the_same(
    rows: str,
    total: str,
    within: str,
    behind: str,
    last: str,
    number: float,
    spread: float,
    level: float,
) -> None:
    graph = parsed(f"""
        x: (2, 3, 8)
        g = normal(8)
        n = {number}
        one = 1.0
        m = reduce_mean(x) axes=(2,)
        c = sub(x, m)
        p = mul({rows}, {rows})
        v = reduce_{total}(p) axes=(2,)
    """ + "\n".join((within, behind, f"d = div({rows}, q)", last, "-> y")))  # fmt: skip
    x = np.float32(spread or 1) * (normal(0, 2, 3, 8) * bool(spread) + np.float32(level))
    with np.errstate(all="ignore"):
        (wanted,) = evaluate(graph, {"x": x}).values()
        (found,) = evaluate(NormalPattern().run(graph).graph, {"x": x}).values()
    np.testing.assert_allclose(
        found, wanted, 1e-4, 1e-5 * np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    )


def by_factor(factor: float, epsilon: str, scale: str, size: int = 10) -> str:
    """A layer normalisation of rows whose means are sums times a number."""
    return f"""
        x: (2, {size})
        g = normal({size})
        inverse = {factor!r}
        e = {epsilon}
        t = reduce_sum(x) axes=(1,)
        m = mul(t, inverse)
        c = sub(x, m)
        p = mul(c, c)
        s = reduce_sum(p) axes=(1,)
        v = mul(inverse, s)
        w = add(v, e)
        r = sqrt(w)
        d = div(c, r)
        {scale}
        -> {"y" if scale else "d"}
    """


@pytest.mark.parametrize("epsilon", ["1e-5", "1e-12", "0.0"])
@pytest.mark.parametrize("scale", ["", "y = mul(d, g)"])
@pytest.mark.parametrize("size", [2, 10, 49, 98, 103, 107, 196])
def test_a_mean_by_a_rounded_factor_is_a_mean(size: int, scale: str, epsilon: str) -> None:
    graph = parsed(by_factor(1 / size, epsilon, scale, size))
    after = simplify(graph).graph
    assert [op.kind for op in after.ops] == [K.LAYER_NORM]
    assert_equivalent(graph, after)


@pytest.mark.parametrize("size", [10, 49])
def test_a_sum_of_numbers_times_a_rounded_factor_is_a_mean_beside_an_epsilon(size: int) -> None:
    text = by_factor(1 / size, "1e-5", "", size)
    summed, times = "t = reduce_sum(x) axes=(1,)", "m = mul(t, inverse)"
    text = text.replace(times, "m = reduce_sum(t) axes=(1,)").replace(summed, "t = mul(x, inverse)")
    after = simplify(parsed(text)).graph
    assert [op.kind for op in after.ops] == [K.LAYER_NORM]
    assert_equivalent(parsed(text), after)


@pytest.mark.parametrize("factor", [0.1000001, 0.0999999, 0.0999, 0.125])
def test_a_sum_by_another_factor_is_no_mean(factor: float) -> None:
    ops = simplify(parsed(by_factor(factor, "1e-12", ""))).graph.ops
    assert K.LAYER_NORM not in {op.kind for op in ops}


def test_a_root_mean_square_without_epsilon_has_none() -> None:
    text = (
        "x: (2, 8)\np = mul(x, x)\nv = reduce_mean(p) axes=(1,)\nr = sqrt(v)\ny = div(x, r)\n-> y"
    )
    after = simplify(parsed(text)).graph
    assert written(after) == "y = rms_norm(x, y.scale) axis=1 epsilon=0.0"
    with np.errstate(all="ignore"):
        assert_equivalent(parsed(text), after, fed={"x": np.zeros((2, 8), np.float32)})


def test_rows_of_unequal_scales_stay_behind_the_normalisation() -> None:
    graph = parsed(HEAD.replace("g = normal(8)", "g = normal(3, 1)") + PYTORCH + BOTH)
    after = simplify(graph).graph
    assert [op.kind for op in after.ops] == [K.LAYER_NORM, K.MUL, K.ADD]
    assert_equivalent(graph, after)


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization_of_opset_23_is_one_operator(axis: int) -> None:
    node = helper.make_node("RMSNormalization", ["x", "s"], ["y"], axis=axis, epsilon=1e-4)
    scale = normal(1, *((3, 8)[axis - 1 :] if axis > 0 else (8,)))
    model = model_of([node], {"x": [2, 3, 8]}, ["y"], {"s": scale}, opset=23)
    graph = simplify(imported(model)).graph
    assert [op.kind for op in graph.ops] == [K.RMS_NORM]
    x = normal(0, 2, 3, 8)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)
