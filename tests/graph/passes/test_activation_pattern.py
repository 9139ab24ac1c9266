"""Activation functions are recognised in every form that exporters write, and nothing else is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.activation_pattern import OVERFLOWS, ActivationPattern
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.operators.op import OpKind as K
from tests.graph.graph_cases import assert_equivalent
from tests.graph.passes.graph_text import becomes, stays, written

ROOT, PI = 2**0.5, (2 / math.pi) ** 0.5
FORMS = {
    "gelu(x)": {
        "PyTorch": "x / 1.4142135 -> a; erf a -> b; b + 1.0 -> c; x * c -> d; d * 0.5 -> y",
        "TensorFlow": "x * 0.70710678 -> a; erf a -> b; 1.0 + b -> c; 0.5 * x -> d; d * c -> y",
        "Keras": "x / 1.4142135 -> a; erf a -> b; b + 1.0 -> c; c * 0.5 -> d; x * d -> y",
        "halved": "x / 1.41421 -> a; erf a -> b; b * x -> c; c + x -> d; d / 2.0 -> y",
        "spread": "x * 0.70710678 -> a; erf a -> b; b * 0.5 -> c; c + 0.5 -> d; d * x -> y",
    },
    "gelu_tanh(x)": {
        "GPT-2": f"x ^ 3.0 -> a; a * 0.044715 -> b; x + b -> c; c * {PI} -> d; tanh d -> e; "
        "e + 1.0 -> f; x * 0.5 -> g; g * f -> y",
        "x x x": f"x * x -> p; p * x -> a; 0.044715 * a -> b; b + x -> c; {PI} * c -> d; tanh d -> e; "
        "1.0 + e -> f; f * 0.5 -> g; x * g -> y",
        "factored": "x * 0.7978845608 -> a; x * x -> p; p * 0.044715 -> b; b + 1.0 -> c; a * c -> d; "
        "tanh d -> e; e + 1.0 -> f; f * x -> g; g * 0.5 -> y",
    },
    "sigmoid(x)": {
        "division": "neg x -> a; exp a -> b; b + 1.0 -> c; 1.0 / c -> y",
        "reciprocal": "neg x -> a; exp a -> b; 1.0 + b -> c; reciprocal c -> y",
        "tanh": "x * 0.5 -> a; tanh a -> b; b + 1.0 -> c; c * 0.5 -> y",
    },
    "softplus(x)": {"written out": "exp x -> a; a + 1.0 -> b; log b -> y"},
    "relu(x)": {"larger": "x | 0.0 -> y", "smaller": "neg x -> a; a & 0.0 -> b; neg b -> y"},
    "leaky_relu(x) alpha=0.20000000298023224": {"larger": "x * 0.2 -> a; x | a -> y"},
    "clip(x) max=6.0 min=0.0": {
        "relu first": "relu x -> a; a & 6.0 -> y",
        "both": "x | 0.0 -> a; a & 6.0 -> y",
        "of 6 less": "6.0 & x -> a; relu a -> y",
    },
}  # fmt: skip
"""By the operator that they are: spellings of it, with their exporter."""

KINDS = {"+": K.ADD, "-": K.SUB, "*": K.MUL, "/": K.DIV, "^": K.POW, "|": K.MAXIMUM, "&": K.MINIMUM}


def spelt(form: str) -> Graph:
    """The graph of a spelling over x: (3, 40)."""
    b = GraphBuilder("g")
    b.input("x", (3, 40))
    for line in form.split("; "):
        formula, output = line.split(" -> ")
        words = formula.split()
        kind = K(words[0]) if len(words) == 2 else KINDS[words[1]]
        read = words[1:] if len(words) == 2 else (words[0], words[2])
        operands = [w if b.has(w) else b.constant(float(w)) for w in read]
        b.add(kind, *operands, name=output, output=output)
    return b.build(["y"])


CASES = [
    pytest.param(form, one, id=f"{one.split('(')[0]}, {who}")
    for one, forms in FORMS.items()
    for who, form in forms.items()
]


@pytest.mark.parametrize(("form", "one"), CASES)
def test_every_spelling_becomes_the_one_operator(form: str, one: str) -> None:
    graph = spelt(form)
    after = simplify(graph).graph
    assert written(after) == f"y = {one}"
    assert_equivalent(graph, after, rtol=2e-5, atol=2e-6)


BOUNDS = (65504.0, 1e9, 1e35, float(np.finfo(np.float32).max))
"""Of float16, of masks and of float32: no usual activation reaches them."""
FAR = np.float32(
    [v * s for v in (1e-10, 1, 1e4, 7e4, 2e5, 1e6, 1e10, 1e36, math.inf) for s in (-1, 1)]
)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("relu x -> a; a & {bound} -> y", ["clip"]),
        ("x | -{bound} -> a; a & {bound} -> y", ["clip"]),
        ("x * 0.2 -> a; x | a -> b; b & {bound} -> y", ["leaky_relu", "clip"]),
        ("x / 1.4142135 -> a; erf a -> b; b + 1.0 -> c; x * c -> d; d * 0.5 -> e; e & {bound} -> y",
         ["gelu", "clip"]),
        ("x & {bound} -> e; exp e -> a; a + 1.0 -> b; log b -> y", ["clip", "softplus"]),
    ],
)  # fmt: skip
def test_bounds_that_are_far_away_are_kept(form: str, kinds: list[str], bound: float) -> None:
    graph = spelt(form.format(bound=bound))
    after = simplify(graph).graph
    assert [op.kind.value for op in after.ops] == kinds
    x = {"x": np.resize(FAR, (3, 40))}
    with np.errstate(all="ignore"):
        if "softplus" in kinds:
            assert evaluate(after, x)["y"].max() == np.float32(bound)
        else:
            assert_equivalent(graph, after, rtol=2e-5, atol=2e-6, fed=x)


@pytest.mark.parametrize("least", [1e-12, 1e-8, 1e-7, 1e-6])
@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("sigmoid x -> a; a + {least} -> y", ["sigmoid", "add"]),
        ("sigmoid x -> a; a | {least} -> y", ["sigmoid", "clip"]),
        ("neg x -> a; exp a -> b; b + 1.0 -> c; 1.0 / c -> d; d + {least} -> y", ["sigmoid", "add"]),
        ("exp x -> a; a + 1.0 -> b; log b -> c; c + {least} -> y", ["softplus", "add"]),
        ("relu x -> a; a + {least} -> y", ["relu", "add"]),
        ("x | {least} -> y", ["clip"]),
    ],
)  # fmt: skip
def test_small_numbers_that_keep_a_logarithm_finite_are_kept(
    form: str, kinds: list[str], least: float
) -> None:
    graph = spelt(form.format(least=least))
    after = simplify(graph).graph
    assert [op.kind.value for op in after.ops] == kinds
    ends = [np.linspace(*ends, 60, dtype=np.float32) for ends in ((-80, -60), (1, 80))]
    x = {"x": np.concatenate(ends).reshape(3, 40)}
    wanted, found = evaluate(graph, x)["y"], evaluate(after, x)["y"]
    np.testing.assert_allclose(np.log(found), np.log(wanted), rtol=1e-5, atol=1e-5)


NUMBERS = [
    ("gelu(x)", "1.4142135", "1.4"),
    ("gelu(x)", "0.5", "0.4999"),
    ("gelu_tanh(x)", "0.044715", "0.0447"),
    ("gelu_tanh(x)", "3.0", "3.01"),
    ("gelu_tanh(x)", "1.0", "0.9999"),
    ("sigmoid(x)", "1.0", "1.001"),
    ("softplus(x)", "1.0", "1.0001"),
]


@pytest.mark.parametrize(("one", "number", "other"), NUMBERS)
def test_other_numbers_make_another_function(one: str, number: str, other: str) -> None:
    forms = [f for f in FORMS[one].values() if f" {number} " in f" {f} "]
    assert forms
    for form in forms:
        graph = spelt(f" {form} ".replace(f" {number} ", f" {other} ").strip())
        kind = K(one.split("(")[0])
        assert kind not in {op.kind for op in simplify(graph).graph.ops}


def test_text_of_a_gelu_between_products() -> None:
    before = """
        i: (4, 8)
        v = normal(8, 6)
        w = normal(6, 5)
        root = 1.4142135
        one = 1.0
        half = 0.5
        x = matmul(i, v)
        a = div(x, root)
        b = erf(a)
        c = add(b, one)
        d = mul(x, c)
        g = mul(d, half)
        y = matmul(g, w)
        -> y
    """
    after = """
        x = matmul(i, v)
        g = gelu(x)
        y = matmul(g, w)
    """
    becomes((ActivationPattern(), DeadNodes()), before, after)


def test_a_fragment_that_something_else_reads_stays() -> None:
    text = """
        x: (4, 8)
        one = 1.0
        e = exp(x)
        p = add(e, one)
        y = log(p)
        -> y, p
    """
    stays(ActivationPattern(), text)


def test_a_gate_of_another_tensor_or_another_shape_stays() -> None:
    gate = "h = 0.5\na = tanh(x)\nb = add(a, h)\n"
    stays(ActivationPattern(), f"x: (4, 8)\nz: (4, 8)\n{gate}y = mul(z, b)\n-> y")
    wide = "x: (1, 8)\nk = normal(4, 8)\ne = exp(x)\np = add(e, k)\ny = log(p)\n-> y"
    stays(ActivationPattern(), wide)


def test_a_relu_alone_stays_what_it_is() -> None:
    stays(ActivationPattern(), "x: (4,)\ny = relu(x)\n-> y")
    stays(ActivationPattern(), "x: (4,)\ny = clip(x) min=0.0 max=6.0\n-> y")


STEPS = ("exp", "log", "tanh", "neg", "relu", "abs", "sigmoid", "sqrt", "erf")


DRAWN = (0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 65504.0, -1e6, 1e30)


@given(st.lists(st.sampled_from([*STEPS, *KINDS]), min_size=2, max_size=7), st.data())
def test_drawn_fragments_compute_the_same(kinds: list[str], data: st.DataObject) -> None:
    b, made = GraphBuilder("g"), ["x"]
    b.input("x", (2, 40))
    for kind in kinds:
        if kind in STEPS:
            made.append(b.add(K(kind), made[-1]))
            continue
        number = b.constant(data.draw(st.sampled_from(DRAWN)))
        other = data.draw(st.sampled_from([number, *made]))
        pair = data.draw(st.permutations([made[-1], other]))
        made.append(b.add(KINDS[kind], *pair))
    graph = b.build([b.add(K.NEG, made[-1])])
    near = np.linspace(-4, 4, 80 - len(FAR), dtype=np.float32)
    x = {"x": np.concatenate([near, FAR]).reshape(2, 40)}
    with np.errstate(all="ignore"):
        (wanted,) = evaluate(graph, x).values()
        (found,) = evaluate(ActivationPattern().run(graph).graph, x).values()
    overflown = ~np.isfinite(wanted) & (np.abs(x["x"]) > OVERFLOWS)
    np.testing.assert_allclose(found[~overflown], wanted[~overflown], 1e-4, 1e-5)
