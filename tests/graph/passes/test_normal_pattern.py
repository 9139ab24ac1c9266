"""Normalisations are recognised in every form that exporters write, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from graph_cases import assert_equivalent, normal
from graph_text import becomes, parsed, stays, written
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_case import imported, model_of

from autotune.graph.op import OpKind as K
from autotune.graph.passes import simplify
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.normal_pattern import NormalPattern
from autotune.graph.reference import evaluate

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
        y = rms_norm(c, y.scale) axis=2 epsilon=0.0010000000474974513
    """
    found = simplify(parsed(before)).graph
    assert [op.kind for op in found.ops][:2] == [K.REDUCE_MEAN, K.SUB]
    assert_equivalent(parsed(before), found)
    assert "rms_norm(c" in written(found) and len(found.ops) == len(after.strip().splitlines()) + 1


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


OTHERS = [
    PYTORCH.replace("axes=(2,)", "axes=(1,)") + BOTH,
    PYTORCH.replace("two)", "e)") + BOTH,
    PYTORCH.replace("div(c, r)", "div(x, w)") + BOTH,
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_formulas_stay(text: str) -> None:
    stays(NormalPattern(), HEAD + text)


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
