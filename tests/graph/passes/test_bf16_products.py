"""Networks in bfloat16, as ONNX files have them: what is multiplied and stored in that format, and that the
numbers are ONNX's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from autotune.frontend.export.model import export_model
from autotune.frontend.importing import translate
from autotune.graph.accuracy import Accuracy
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.bf16_products import LEAST_COLUMNS
from autotune.isa.formats import (
    ALL_FORMATS,
    CACHED_BF16_FORMATS,
    CACHED_FORMATS,
    FLOAT32_ONLY,
    Format,
    Formats,
)
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from tests.graph.passes.test_narrow_products import model

BF16, HALF = ml_dtypes.bfloat16, DType.BFLOAT16
BOTH = TensorProto.BFLOAT16, TensorProto.FLOAT


def rounded(x: str) -> tuple[onnx.NodeProto, ...]:
    """The pair of casts that rounds a float32 tensor; its result is called ``x.rounded``."""
    steps = (x, f"{x}.narrow", f"{x}.rounded")
    pairs = zip(steps, steps[1:], BOTH, strict=False)
    return tuple(helper.make_node("Cast", [a], [b], to=to) for a, b, to in pairs)


def widened(w: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [w], [f"{w}.wide"], to=TensorProto.FLOAT)


def matrices(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(0, 3, (5, 24)).astype(np.float32), rng.normal(0, 1, (24, 7)).astype(BF16)


def opened(
    made: onnx.ModelProto, formats: Formats, layout: Layout = Layout.CHANNELS_FIRST
) -> Graph:
    return simplify(translate(made, "g", {}), layout, formats=formats).graph


def multiplied(graph: Graph) -> list[Format]:
    return [op.multiplied for op in graph.ops if op.kind in (OpKind.MATMUL, OpKind.CONV)]


def storage(graph: Graph, kind: OpKind) -> tuple[Format, ...]:
    op = next(op for op in graph.ops if op.kind is kind)
    return tuple(graph.types[x].storage for x in op.inputs)


@pytest.mark.parametrize(
    "formats",
    [ALL_FORMATS, CACHED_BF16_FORMATS, CACHED_FORMATS, FLOAT32_ONLY],
    ids=lambda f: f.text,
)
@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("kind", ["MatMul", "Conv"])
def test_rounded_factors_give_onnx_numbers_and_are_multiplied_as_the_machine_does(
    formats: Formats, layout: Layout, kind: str
) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(0, 3, (5, 24)).astype(np.float32)
    w = rng.normal(0, 1, (24, 17)).astype(BF16)
    if kind == "Conv":
        x = rng.normal(0, 3, (2, 6, 9, 8)).astype(np.float32)
        w = rng.normal(0, 1, (16, 6, 3, 3)).astype(BF16)
    product = helper.make_node(kind, ["x.rounded", "w.wide"], ["y"])
    made = model(product, {"x": x}, {"w": w}, *rounded("x"), widened("w"))
    graph = opened(made, formats, layout)
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": x})
    (got,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    unrounded = np.abs(evaluate(graph, {"x": x * 1.001})[graph.outputs[0]] - wanted).max()
    assert unrounded > 0  # what would be a mistake is seen
    narrow = Format.BF16 in formats.multiplied
    assert multiplied(graph) == [Format.BF16 if narrow else Format.FP32]
    weights = narrow or (Format.BF16 in formats.stored and kind == "MatMul")
    first = Format.BF16 if narrow else Format.FP32
    product_kind = OpKind.MATMUL if kind == "MatMul" else OpKind.CONV
    stored = storage(graph, product_kind)
    assert stored == (first, Format.BF16 if weights else Format.FP32)


def test_weights_alone_are_stored_in_bf16_and_multiplied_in_float32() -> None:
    x, w = matrices(np.random.default_rng(4))
    made = model(
        helper.make_node("MatMul", ["x", "w.wide"], ["y"]), {"x": x}, {"w": w}, widened("w")
    )
    for formats in (ALL_FORMATS, CACHED_FORMATS):
        graph = opened(made, formats)
        assert multiplied(graph) == [Format.FP32]
        assert storage(graph, OpKind.MATMUL) == (Format.FP32, Format.BF16)
        (got,) = evaluate(graph, {"x": x}).values()
        np.testing.assert_allclose(got, x @ w.astype(np.float32), rtol=1e-4, atol=1e-4)


def test_a_network_of_type_bfloat16_rounds_the_factors_of_its_products() -> None:
    """Results of other operators keep their digits, as in any network of narrow floats."""
    rng = np.random.default_rng(5)
    x, w = matrices(rng)
    x, v = x.astype(BF16), rng.normal(0, 1, (7, 6)).astype(BF16)
    first = helper.make_node("MatMul", ["x", "w"], ["h"])
    relu = helper.make_node("Relu", ["h"], ["r"])
    made = model(
        helper.make_node("MatMul", ["r", "v"], ["y"]), {"x": x}, {"w": w, "v": v}, first, relu
    )
    graph = opened(made, ALL_FORMATS)
    assert multiplied(graph) == [Format.BF16] * 2
    wide = np.maximum(x.astype(np.float32) @ w.astype(np.float32), 0)
    wanted = wide.astype(BF16).astype(np.float32) @ v.astype(np.float32)
    (got,) = evaluate(graph, {"x": x.astype(np.float32)}).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)
    assert OpKind.BF16 not in {op.kind for op in opened(made, FLOAT32_ONLY).ops}


def test_float32_networks_store_no_bf16_though_a_weight_would_fit() -> None:
    x = np.ones((2, 8), np.float32)
    w = np.ones((8, 4), np.float32)
    made = model(helper.make_node("MatMul", ["x", "w"], ["y"]), {"x": x}, {"w": w})
    graph = opened(made, ALL_FORMATS)
    assert {kind.storage for kind in graph.types.values()} == {Format.FP32}


def test_weights_that_a_pass_would_change_stay_bf16() -> None:
    """A scale behind the product is not folded into weights of two bytes."""
    x, w = matrices(np.random.default_rng(6))
    scale = np.linspace(0.3, 0.7, 7, dtype=np.float32)
    product = helper.make_node("MatMul", ["x.rounded", "w.wide"], ["h"])
    made = model(helper.make_node("Mul", ["h", "scale"], ["y"]), {"x": x},
                 {"w": w, "scale": scale}, *rounded("x"), widened("w"), product)  # fmt: skip
    assert multiplied(opened(made, ALL_FORMATS)) == [Format.BF16]


def test_winograd_leaves_products_of_bf16_alone() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(0, 1, (1, 16, 20, 20)).astype(np.float32)
    w = rng.normal(0, 1, (16, 16, 3, 3)).astype(BF16)
    product = helper.make_node("Conv", ["x.rounded", "w.wide"], ["y"])
    made = model(product, {"x": x}, {"w": w}, *rounded("x"), widened("w"))
    graph = simplify(
        translate(made, "g", {}), Layout.CHANNELS_LAST, Accuracy.FAST, formats=ALL_FORMATS
    )
    assert multiplied(graph.graph) == [Format.BF16]


def test_an_exported_network_rounds_as_the_graph_does() -> None:
    x, w = matrices(np.random.default_rng(8))
    made = model(helper.make_node("MatMul", ["x.rounded", "w.wide"], ["y"]), {"x": x}, {"w": w},
                 *rounded("x"), widened("w"))  # fmt: skip
    graph = opened(made, ALL_FORMATS)
    (got,) = ReferenceEvaluator(onnx.load_from_string(export_model(graph))).run(None, {"x": x})
    (wanted,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


def test_a_machine_that_multiplies_by_constants_stores_what_such_products_read() -> None:
    """Through views and concatenations, and where sums read it too; what a product of two variables reads
    stays float32, and so does what a softmax reads beside."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("g")
    x, w = b.input("x", (6, 24)), b.constant(rng.normal(0, 1, (24, 24)).astype(BF16), "w", HALF)
    read = b.add(OpKind.BF16, b.add(OpKind.ABS, x))
    viewed = b.add(OpKind.RESHAPE, read, shape=(2, 3, 24))
    first = b.add(OpKind.MATMUL, viewed, w)
    shared = b.add(OpKind.BF16, b.add(OpKind.RELU, first))
    joint = b.add(OpKind.CONCAT, shared, b.add(OpKind.BF16, b.add(OpKind.NEG, first)), axis=0)
    both = b.add(OpKind.ADD, b.add(OpKind.MATMUL, joint, w), joint)
    last = b.add(OpKind.BF16, b.add(OpKind.ABS, both))
    product = b.add(OpKind.MATMUL, last, last, trans_b=1)
    beside = b.add(OpKind.BF16, b.add(OpKind.NEG, both))
    third = b.add(OpKind.MATMUL, beside, b.constant(np.ones((24, 24), np.float32), "v", HALF))
    ends = product, third, b.add(OpKind.SOFTMAX, beside, axis=2)
    graph = simplify(b.build(list(ends)), formats=CACHED_BF16_FORMATS).graph
    assert multiplied(graph) == [Format.BF16, Format.BF16, Format.FP32, Format.FP32]
    stored = {x for x, kind in graph.types.items() if kind.storage is Format.BF16}
    assert stored - {read, viewed, joint} == {"w", "v", *graph.producer[joint].inputs}
    assert not stored & {last, beside}
    assert CACHED_BF16_FORMATS.text != CACHED_FORMATS.text


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("columns", [LEAST_COLUMNS - 1, LEAST_COLUMNS])
def test_constants_of_few_columns_are_multiplied_in_float32_on_cpus(
    columns: int, turned: int
) -> None:
    b = GraphBuilder("g")
    shape = (columns, 24) if turned else (24, columns)
    w = b.constant(np.ones(shape, np.float32), "w", HALF)
    y = b.add(OpKind.MATMUL, b.add(OpKind.BF16, b.input("x", (6, 24))), w, trans_b=turned)
    few = columns < LEAST_COLUMNS
    for formats, wanted in (
        (CACHED_BF16_FORMATS, Format.FP32 if few else Format.BF16),
        (ALL_FORMATS, Format.BF16),
    ):
        assert multiplied(simplify(b.build([y]), formats=formats).graph) == [wanted]


@pytest.mark.parametrize("is_shared", [False, True])
def test_an_input_of_the_type_is_given_in_bf16_where_products_alone_read_it(
    is_shared: bool,
) -> None:
    b = GraphBuilder("g")
    x, w = b.input("x", (6, 24), HALF), b.constant(np.ones((24, 32), np.float32), "w", HALF)
    ends = [b.add(OpKind.MATMUL, x, w), *[b.add(OpKind.SOFTMAX, x, axis=1)] * is_shared]
    graph = simplify(b.build(ends), formats=CACHED_BF16_FORMATS).graph
    wanted = Format.FP32 if is_shared else Format.BF16
    assert (graph.types[x].storage, *multiplied(graph)) == (wanted, wanted)


@pytest.mark.parametrize("is_read_beside", [False, True])
def test_a_weight_is_packed_for_one_format_alone(is_read_beside: bool) -> None:
    """Two products by it, of which one cannot be in bf16: neither is, but another weight's is."""
    b = GraphBuilder("g")
    w, v = (b.constant(np.ones((24, 24), np.float32), name, HALF) for name in "wv")
    x, y, z = (b.add(OpKind.BF16, b.add(OpKind.ABS, b.input(name, (6, 24)))) for name in "xyz")
    ends = [b.add(OpKind.MATMUL, x, w), b.add(OpKind.MATMUL, y, w), b.add(OpKind.MATMUL, z, v)]
    ends += [b.add(OpKind.SOFTMAX, y, axis=1)] * is_read_beside
    graph = simplify(b.build(ends), formats=CACHED_BF16_FORMATS).graph
    shared = Format.FP32 if is_read_beside else Format.BF16
    assert multiplied(graph) == [shared, shared, Format.BF16]
