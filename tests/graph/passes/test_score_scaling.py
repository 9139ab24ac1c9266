"""Scores of an attention are scaled where weights take the number, and stay as they are elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.graph.passes.affine_folding import AffineFolding
from autotune.graph.passes.score_scaling import ScoreScaling
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from tests.frontend.onnx_case import imported, model_of
from tests.graph.graph_cases import assert_equivalent
from tests.graph.passes.graph_text import becomes, parsed, stays, written

HEADS = """
    x: (6, 8)
    k: (2, 4, 6)
    w = normal(8, 8)
    c = normal(8)
    eight = 8.0
    m = matmul(x, w)
    a = add(m, c)
    r = reshape(a) shape=(6, 2, 4)
    q = transpose(r) perm=(1, 0, 2)
    p = matmul(q, k)
    d = div(p, eight)
    y = softmax(d) axis=2
    -> y
"""


def test_text_of_scaled_scores() -> None:
    after = """
        m = matmul(x, m.weight)
        a = add(m, a.offset)
        r = reshape(a) shape=(6, 2, 4)
        q = transpose(r) perm=(1, 0, 2)
        d = matmul(q, k)
        y = softmax(d) axis=2
    """
    becomes((ScoreScaling(), AffineFolding()), HEADS, after)


def test_a_power_of_two_changes_no_bit() -> None:
    graph = parsed(HEADS)
    assert_equivalent(graph, simplify(graph).graph, rtol=0, atol=0)


def test_scores_without_weights_behind_them_stay() -> None:
    text = "q: (2, 4, 8)\nk: (2, 8, 4)\nh = 0.3\np = matmul(q, k)\ny = mul(p, h)\n-> y"
    stays(ScoreScaling(), text)
    assert len(written(simplify(parsed(text)).graph).splitlines()) == 2


@pytest.mark.parametrize("number", ["normal(6)", "normal(6, 1)"])
def test_numbers_that_differ_between_scores_stay(number: str) -> None:
    stays(ScoreScaling(), HEADS.replace("eight = 8.0", f"eight = {number}"))


@pytest.mark.parametrize("number", ["0.0", "-0.0"])
def test_divisions_by_zero_stay(number: str) -> None:
    stays(ScoreScaling(), HEADS.replace("eight = 8.0", f"eight = {number}"))


@pytest.mark.parametrize("kind", ["Div", "Mul"])
def test_quotients_of_integers_are_cut_off_once(kind: str) -> None:
    rng = np.random.default_rng(0)
    w, k, x = (rng.integers(-9, 9, (8, 8)).astype(np.int32) for _ in range(3))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("MatMul", ["q", "k"], ["p"]),
        helper.make_node(kind, ["p", "s"], ["y"]),
    ]
    arrays = {"w": w, "s": np.int32(7)}
    model = model_of(
        nodes, {"x": x.shape, "k": k.shape}, ["y"], arrays, elem_type=TensorProto.INT32
    )
    graph = imported(model)
    assert ScoreScaling().run(graph).notes == ()
    (wanted,) = ReferenceEvaluator(model).run(["y"], {"x": x, "k": k})
    fed = {"x": x.astype(np.float32), "k": k.astype(np.float32)}
    np.testing.assert_array_equal(evaluate(simplify(graph).graph, fed)["y"], wanted)


def test_a_query_keeps_the_type_of_its_numbers() -> None:
    b = GraphBuilder("g")
    x, k = (b.input(n, (4, 4), DType.FLOAT16) for n in "xk")
    q = b.add(K.MATMUL, x, b.constant(np.eye(4, dtype=np.float32)))
    b.mean(q, DType.FLOAT16)
    p = b.add(K.MATMUL, q, k)
    b.mean(p, DType.FLOAT16)
    y = b.add(K.MUL, p, b.constant(0.5))
    b.mean(y, DType.FLOAT16)
    after = ScoreScaling().run(b.build([y])).graph
    assert [op.kind for op in after.ops] == [K.MATMUL, K.MUL, K.MATMUL]
    assert {after.types[op.output].dtype for op in after.ops} == {DType.FLOAT16}


@pytest.mark.parametrize("query", [0, 1, 2])
def test_one_of_three_slices_of_a_joint_product_takes_the_scale(query: int) -> None:
    """As GPT-2 is exported: one product makes queries, keys and values."""
    rng = np.random.default_rng(query)
    arrays = {
        "w": rng.standard_normal((8, 24)).astype(np.float32),
        "c": rng.standard_normal(24).astype(np.float32),
        "s": np.float32(0.35),
        "shape": np.int64([6, 2, 4]),
    }
    names = ["s0", "s1", "s2"]
    q, k, v = (f"s{(i + query) % 3}" for i in range(3))
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "c"], ["a"]),
        node("Split", ["a"], names, axis=1, num_outputs=3),
        *(node("Reshape", [n, "shape"], [f"{n}r"]) for n in names),
        node("Transpose", [f"{q}r"], ["q"], perm=[1, 0, 2]),
        node("Transpose", [f"{k}r"], ["k"], perm=[1, 2, 0]),
        node("Transpose", [f"{v}r"], ["v"], perm=[1, 0, 2]),
        node("MatMul", ["q", "k"], ["p"]),
        node("Mul", ["p", "s"], ["d"]),
        node("Softmax", ["d"], ["e"], axis=-1),
        node("MatMul", ["e", "v"], ["y"]),
    ]
    model = model_of(nodes, {"x": [6, 8]}, ["y"], arrays, 18)
    graph = simplify(imported(model)).graph
    assert not {"mul", "div"} & {op.kind.value for op in graph.ops}
    x = rng.standard_normal((6, 8)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(["y"], {"x": x})
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)
