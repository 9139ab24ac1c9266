"""Padded networks compute what the network computes without padding; what may not be padded is refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from autotune.frontend.source_model import SourceModel
from autotune.graph.evaluation import evaluate
from autotune.graph.padding import rules
from autotune.graph.padding.padded_graph import PaddedGraph
from autotune.graph.padding.spans import Anchor, Unfit
from autotune.operators.op import Family
from autotune.runtime.session.buckets import Line, prove
from autotune.runtime.session.open_dims import OpenDims
from tests.runtime.control_case import model_of

NUMBERS = ", ".join(f"{0.1 * ((7 * i) % 11) - 0.5:.1f}" for i in range(64))
ATTENTION = f"""
attention (float[1, n, 8] x) => (float[1, n, 8] y, float[1, 8] last)
<float[8, 8] w = {{{NUMBERS}}}, int64[4] heads = {{1, -1, 2, 4}}, int64[3] flat = {{1, -1, 8}},
 int64[1] axes = {{1}}, int64[1] from = {{-1}}, int64[1] to = {{1000}}> {{
    key = MatMul (x, w)
    split = Reshape (key, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (split)
    k = Transpose <perm = [0, 2, 3, 1]> (split)
    scores = MatMul (q, k)
    weights = Softmax <axis = -1> (scores)
    mixed = MatMul (weights, q)
    turned = Transpose <perm = [0, 2, 1, 3]> (mixed)
    joined = Reshape (turned, flat)
    y = Tanh (joined)
    sum = ReduceSum <keepdims = 0> (y, axes)
    last = Exp (sum)
}}
"""
CAUSAL = """
causal (float[1, 2, past, 4] cache, float[1, 2, 1, 4] new) => (float[1, 2, grown, 4] kept, float[1, 2, 1, 4] y) {
    one = Constant <value = int64 {1}> ()
    three = Constant <value = int64 {2}> ()
    nought = Constant <value = int64 {0}> ()
    kept = Concat <axis = 2> (cache, new)
    turned = Transpose <perm = [0, 1, 3, 2]> (kept)
    scores = MatMul (new, turned)
    sizes = Shape (kept)
    count = Gather (sizes, three)
    places = Range (nought, count, one)
    before = Sub (count, one)
    hidden = Greater (places, before)
    low = Constant <value = float {-1000.0}> ()
    zero = Constant <value = float {0.0}> ()
    mask = Where (hidden, low, zero)
    seen = Add (scores, mask)
    weights = Softmax <axis = -1> (seen)
    y = MatMul (weights, kept)
}
"""
BATCH = f"""
batch (float[n, 6, 6] x) => (float[n, 8] y)
<float[4, 1, 3, 3] w = {{{", ".join(["0.25", "-0.5", "0.1"] * 12)}}}, float[64, 8] v = {{{", ".join(["0.3", "-0.2"] * 256)}}},
 int64[1] axes = {{1}}> {{
    image = Unsqueeze (x, axes)
    h = Conv <kernel_shape = [3, 3]> (image, w)
    r = Relu (h)
    flat = Flatten (r)
    y = MatMul (flat, v)
}}
"""
TIME = """
time (float[1, 2, t] x) => (float[1, 2, t] y, float[1, 2, 1] top)
<float[2, 2, 3] w = {0.5, -0.25, 1.0, 0.125, 2.0, -1.0, 0.5, 0.25, -0.75, 0.3, 0.2, 0.1}> {
    moved = Exp (x)
    h = Conv <kernel_shape = [3], pads = [1, 1]> (moved, w)
    g = Cos (h)
    y = Conv <kernel_shape = [3], pads = [1, 1]> (g, w)
    top = ReduceMax <axes = [2]> (y)
}
"""
BROADCAST = """
shaped (float[n, 4] x, float[1, 4] row) => (float[n, 4] y) {
    shape = Shape (x)
    ones = Constant <value = int64[2] {-1, -1}> ()
    same = Equal (shape, ones)
    units = Constant <value = int64[2] {1, 1}> ()
    target = Where (same, units, shape)
    wide = Expand (row, target)
    y = Mul (x, wide)
}
"""


def proved(text: str, bucket: int = 8) -> PaddedGraph:
    model = SourceModel(model_of(text))
    dims = OpenDims.of(model)
    assert dims is not None
    return prove(model, "case", dims, Line(dims.symbols[0], ()), bucket)


def drawn(model: onnx.ModelProto, extent: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        shape = [d.dim_value or extent for d in value.type.tensor_type.shape.dim]
        found[value.name] = rng.standard_normal(shape).astype(np.float32)
    return found


def padded_run(
    padded: PaddedGraph, inputs: Mapping[str, np.ndarray], extent: int, rubbish: float
) -> dict[str, np.ndarray]:
    """Run on inputs padded with zeros; ``rubbish`` stands in no input, but shows in what is cut off."""
    fed = {}
    for name, spans in padded.inputs.items():
        whole = np.zeros(padded.graph.shape(name), np.float32)
        places = [slice(None)] * whole.ndim
        for axis, span in spans.items():
            places[axis] = padded.anchor.place(whole.shape[axis], span.extent(extent))
        whole[tuple(places)] = inputs[name]
        fed[name] = whole
    fed |= {m.name: m.values(padded.extent, extent, padded.anchor) for m in padded.masks}
    found = {}
    for name, made in evaluate(padded.graph, fed).items():
        places = [slice(None)] * made.ndim
        for axis, span in padded.outputs[name].items():
            places[axis] = padded.anchor.place(made.shape[axis], span.extent(extent))
        found[name] = made[tuple(places)] + rubbish
    return found


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        (ATTENTION, Anchor.FIRST),
        (CAUSAL, Anchor.LAST),
        (BATCH, Anchor.FIRST),
        (TIME, Anchor.FIRST),
        (BROADCAST, Anchor.FIRST),
    ],
    ids=["attention", "decoder", "batch", "convolutions", "expand"],
)
def test_a_padded_network_equals_onnx_at_every_extent(text: str, anchor: Anchor) -> None:
    model, padded = model_of(text), proved(text)
    assert padded.anchor is anchor
    for extent in range(padded.least, padded.extent + 1):
        inputs = drawn(model, extent, seed=extent)
        expected = ReferenceEvaluator(model).run(None, inputs)
        made = padded_run(padded, inputs, extent, 0.0)
        for value, wanted in zip(model.graph.output, expected, strict=True):
            np.testing.assert_allclose(made[value.name], wanted, rtol=1e-5, atol=1e-5)


REFUSED = {
    "mean": "m (float[n, 4] x) => (float[1, 4] y) { y = ReduceMean <axes = [0]> (x) }",
    "product": "p (float[n, 4] x) => (float[1, 4] y) { y = ReduceProd <axes = [0]> (x) }",
    "normalised": """n (float[4, n] x) => (float[4, n] y) {
        m = ReduceMean <axes = [1]> (x)
        y = Sub (x, m)
    }""",
    "extent as a number": """e (float[n, 4] x) => (float[n, 4] y) {
        s = Shape (x)
        f = Cast <to = 1> (s)
        two = Constant <value = int64 {0}> ()
        c = Gather (f, two)
        r = Sqrt (c)
        y = Div (x, r)
    }""",
    "both ends": """b (float[n, 4] x, float[1, 4] z) => (float[m, 4] y) {
        y = Concat <axis = 0> (z, x, z)
    }""",
    "joined with itself": """j (float[n, 4] x) => (float[m, 4] y) { y = Concat <axis = 0> (x, x) }""",
    "turned into columns": """t (float[n, 4] x) => (float[m] y) {
        z = Transpose <perm = [1, 0]> (x)
        s = Constant <value = int64[1] {-1}> ()
        y = Reshape (z, s)
    }""",
    "halved": """h (float[n, 4] x) => (float[n, 4] y) {
        s = Shape (x)
        two = Constant <value = int64[2] {2, 1}> ()
        half = Div (s, two)
        nought = Constant <value = int64[1] {0}> ()
        one = Constant <value = int64[1] {1}> ()
        rows = Slice (half, nought, one)
        y = Slice (x, nought, rows, nought)
    }""",
    "small extents do something else": """s (float[n, 4] x) => (float[n, 4] y) {
        s = Shape (x)
        three = Constant <value = int64[2] {3, 0}> ()
        small = Less (s, three)
        f = Cast <to = 1> (small)
        nought = Constant <value = int64 {0}> ()
        g = Gather (f, nought)
        y = Add (x, g)
    }""",
    "every second row": """v (float[n, 4] x) => (float[m, 4] y) {
        a = Constant <value = int64[1] {0}> ()
        b = Constant <value = int64[1] {1000}> ()
        two = Constant <value = int64[1] {2}> ()
        y = Slice (x, a, b, a, two)
    }""",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_padding_may_reach_is_refused(text: str) -> None:
    with pytest.raises(Unfit):
        proved(text)


def test_an_open_extent_that_a_comparison_sees_only_when_it_is_small_is_refused_at_large_samples() -> (
    None
):
    """All samples of a bucket of 64 lie above the 3 that the comparison is with."""
    with pytest.raises(Unfit, match="Less"):
        proved(REFUSED["small extents do something else"], bucket=64)


def test_a_family_without_a_rule_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(rules.RULES, Family.SOFTMAX)
    with pytest.raises(Unfit, match="softmax has no rule for padding"):
        proved(ATTENTION)
    assert proved(BATCH).extent == 8
