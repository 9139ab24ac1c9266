"""Quantised operators become products of 8-bit integers, and compute what ONNX's evaluator computes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autotune.frontend.importing import translate
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.storage import storage_of
from autotune.isa.formats import ALL_FORMATS, FLOAT32_ONLY, Format
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind

Arrays = dict[str, np.ndarray]
TYPES = (np.int8, np.uint8)
LAYOUTS = tuple(Layout)


def model(
    node: onnx.NodeProto, fed: Arrays, held: Arrays, *before: onnx.NodeProto
) -> onnx.ModelProto:
    """One node behind others; arrays that are fed or stored."""
    inputs = [
        helper.make_tensor_value_info(x, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for x, v in fed.items()
    ]
    stored = [numpy_helper.from_array(v, x) for x, v in held.items()]
    outputs = [onnx.ValueInfoProto(name=node.output[0])]
    graph = helper.make_graph([*before, node], "g", inputs, outputs, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


def narrow(made: onnx.ModelProto, layout: Layout = Layout.CHANNELS_FIRST) -> Graph:
    return simplify(translate(made, "g", {}), layout, formats=ALL_FORMATS).graph


def products(graph: Graph) -> list[tuple[int, int] | None]:
    return [op.zeros for op in graph.ops if op.kind in (OpKind.MATMUL, OpKind.CONV)]


def assert_as_onnx(made: onnx.ModelProto, graph: Graph, fed: Arrays, rtol: float = 0.0) -> None:
    (wanted,) = ReferenceEvaluator(made).run(None, fed)
    (got,) = evaluate(graph, {x: v.astype(np.float32) for x, v in fed.items()}).values()
    scale = np.abs(wanted.astype(np.float64)).max() + 1e-9
    np.testing.assert_allclose(got, wanted.astype(np.float64), rtol=0, atol=rtol * scale)


def whole(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return rng.integers(low, high + 1, shape).astype(dtype)


drawn_types = st.tuples(*[st.sampled_from(TYPES)] * 2)


@settings(deadline=None)
@given(drawn_types, st.integers(0, 99), st.integers(1, 3))
def test_matmul_integer_is_exact(types: tuple[type, type], seed: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (2,) * (rank - 1) + (5, 7), (7, 4)
    fed, held = {"a": whole(rng, types[0], a)}, {"b": whole(rng, types[1], b)}
    held |= {"az": whole(rng, types[0], ()), "bz": whole(rng, types[1], ())}
    made = model(helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"]), fed, held)
    graph = narrow(made)
    assert products(graph) == [(int(held["az"]), int(held["bz"]))]
    assert_as_onnx(made, graph, fed)


@settings(deadline=None)
@given(drawn_types, st.integers(0, 99), st.sampled_from(LAYOUTS), st.integers(0, 2))
def test_conv_integer_pads_with_the_zero_point(
    types: tuple[type, type], seed: int, layout: Layout, pad: int
) -> None:
    rng = np.random.default_rng(seed)
    fed = {"x": whole(rng, types[0], (2, 3, 6, 5))}
    held = {"w": whole(rng, types[1], (4, 3, 3, 3)), "xz": whole(rng, types[0], ())}
    held["wz"] = whole(rng, types[1], ())
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[pad] * 4)
    made = model(node, fed, held)
    graph = narrow(made, layout)
    assert products(graph) == [(int(held["xz"]), int(held["wz"]))]
    # by hand: the evaluator pads with 0 instead of the zero point (onnx/onnx#2811)
    x = np.pad(
        fed["x"].astype(np.float32),
        ((0, 0), (0, 0), (pad, pad), (pad, pad)),
        constant_values=float(held["xz"]),
    )
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"])
    apart = model(node, {"x": x.astype(types[0])}, held)
    (wanted,) = ReferenceEvaluator(apart).run(None, {"x": x.astype(types[0])})
    (got,) = evaluate(graph, {"x": fed["x"].astype(np.float32)}).values()
    np.testing.assert_array_equal(got, wanted)


def scales(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(0.01, 0.2, shape).astype(np.float32)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv_has_a_narrow_product_with_its_bias(layout: Layout, per_channel: bool) -> None:
    rng = np.random.default_rng(3)
    fed = {"x": whole(rng, np.uint8, (1, 3, 6, 6))}
    held = {
        "xs": scales(rng), "xz": np.uint8(7), "w": whole(rng, np.int8, (4, 3, 3, 3)),
        "ws": scales(rng, *(4,) * per_channel), "wz": np.zeros((4,) * per_channel, np.int8),
        "ys": np.float32(9.0), "yz": np.uint8(100), "b": rng.integers(-5000, 5000, 4).astype(np.int32),
    }  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", *held], ["y"], pads=[1] * 4)
    made = model(node, fed, held)
    graph = narrow(made, layout)
    assert products(graph) == [(7, 0)]
    (conv,) = (op for op in graph.ops if op.kind is OpKind.CONV)
    assert len(conv.inputs) == 3
    assert_as_onnx(made, graph, fed)


def dequantised(x: str, axis: int = 0) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [x, f"{x}s", f"{x}z"], [f"{x}d"], axis=axis)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_quantised_and_dequantised_convolutions_scale_behind_the_sum(layout: Layout) -> None:
    rng = np.random.default_rng(4)
    fed = {"x": whole(rng, np.uint8, (1, 3, 6, 6))}
    held = {
        "xs": scales(rng), "xz": np.uint8(7), "w": whole(rng, np.int8, (4, 3, 3, 3)),
        "ws": scales(rng, 4), "wz": np.zeros(4, np.int8), "b": rng.integers(-5000, 5000, 4).astype(np.int32),
        "bs": scales(rng, 4), "bz": np.zeros(4, np.int32),
    }  # fmt: skip
    node = helper.make_node("Conv", ["xd", "wd", "bd"], ["y"], pads=[1] * 4, strides=[2, 2])
    made = model(node, fed, held, *map(dequantised, "xwb"))
    graph = narrow(made, layout)
    assert products(graph) == [(7, 0)]
    assert_as_onnx(made, graph, fed, rtol=1e-6)
    stored = {held.storage for x, held in graph.types.items() if graph.shape(x)[1:]}
    assert {Format.UINT8, Format.INT8} <= stored


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zero", [0, 7])
def test_depthwise_convolutions_read_integers(layout: Layout, zero: int) -> None:
    rng = np.random.default_rng(14)
    fed = {"x": whole(rng, np.uint8, (1, 4, 6, 6))}
    held = {
        "xs": scales(rng), "xz": np.uint8(zero), "w": whole(rng, np.int8, (4, 1, 3, 3)),
        "ws": scales(rng, 4), "wz": np.zeros(4, np.int8), "b": rng.normal(0, 9, 4).astype(np.float32),
    }  # fmt: skip
    node = helper.make_node("Conv", ["xd", "wd", "b"], ["y"], pads=[1] * 4, group=4)
    made = model(node, fed, held, *map(dequantised, "xw"))
    graph = narrow(made, layout)
    (conv,) = (op for op in graph.ops if op.kind is OpKind.CONV)
    assert conv.zeros is None
    weight = graph.constants[conv.inputs[1]]
    np.testing.assert_array_equal(weight, np.rint(weight))
    before = graph.producer.get(conv.inputs[0])
    while before is not None and before.kind in (OpKind.TRANSPOSE, OpKind.RESHAPE):
        before = graph.producer.get(before.inputs[0])
    assert (before is None) == (zero == 0), "no scale ahead of the sums"
    assert_as_onnx(made, graph, fed, rtol=1e-6)


@pytest.mark.parametrize("turned", [0, 1])
def test_gemm_of_dequantised_factors_keeps_a_scale_per_column(turned: int) -> None:
    rng = np.random.default_rng(5)
    fed = {"x": whole(rng, np.int8, (6, 8))}
    held = {
        "xs": scales(rng),
        "xz": np.int8(-9),
        "w": whole(rng, np.int8, (5, 8) if turned else (8, 5)),
    }
    held |= {"ws": scales(rng, 5), "wz": np.zeros(5, np.int8), "b": scales(rng, 5)}
    axis = 1 - turned
    node = helper.make_node("Gemm", ["xd", "wd", "b"], ["y"], transB=turned)
    made = model(node, fed, held, dequantised("x"), dequantised("w", axis))
    graph = narrow(made)
    assert products(graph) == [(-9, 0)]
    assert_as_onnx(made, graph, fed, rtol=1e-6)


def left_alone(held: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    rng = np.random.default_rng(6)
    values = {"az": np.uint8(3), "b": whole(rng, np.int8, (7, 4)), "bz": np.int8(1)}
    values |= {x: np.asarray(v) for x, v in held.items()}
    node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
    return model(node, {"a": whole(rng, np.uint8, (5, 7))}, values)


def test_zero_points_by_row_leave_a_product_in_float32() -> None:
    assert products(narrow(left_alone({"bz": np.full(4, 3, np.int8)}))) == [(3, 3)]
    assert products(narrow(left_alone({"az": np.arange(5, dtype=np.uint8)}))) == [None]


def test_sums_that_may_leave_int32_stay_in_float32() -> None:
    rng = np.random.default_rng(7)
    for depth, fits in ((33_000, True), (40_000, False)):
        fed = {"a": whole(rng, np.uint8, (1, depth)), "b": np.zeros((depth, 1), np.uint8)}
        held = {"as": scales(rng), "az": np.uint8(0), "bs": scales(rng), "bz": np.uint8(0)}
        node = helper.make_node("MatMul", ["ad", "bd"], ["y"])
        made = model(node, fed, held, dequantised("a"), dequantised("b"))
        assert products(narrow(made)) == [(0, 0) if fits else None]


def test_machines_of_float32_alone_get_the_graph_that_they_had() -> None:
    made = left_alone({})
    graph = translate(made, "g", {})
    plain = simplify(graph).graph
    assert plain.fingerprint == simplify(graph, formats=FLOAT32_ONLY).graph.fingerprint
    assert products(plain) == [None]
    assert storage_of(plain, FLOAT32_ONLY) == {}
    assert {held.storage for held in plain.types.values()} == {Format.FP32}


def test_results_that_may_leave_their_type_are_not_stored_in_it() -> None:
    """Integers wrap around only where they leave the network; a store would saturate."""
    rng = np.random.default_rng(8)
    fed = {x: whole(rng, np.int8, (3, 4)) for x in "ab"}
    made = model(helper.make_node("Add", ["a", "b"], ["y"]), fed, {})
    graph = narrow(made)
    assert {x: held.storage for x, held in graph.types.items()} == {
        "a": Format.INT8, "b": Format.INT8, "y": Format.FP32,
    }  # fmt: skip


@pytest.mark.parametrize("depth", [500, 900, 3000, 20_000])
def test_long_sums_are_one_product_again(depth: int) -> None:
    """An importer cuts them into two and more pieces, of which float32 holds the sums."""
    rng = np.random.default_rng(depth)
    weight = rng.integers(90, 128, (depth, 4)).astype(np.int8)
    fed = {"a": rng.integers(200, 256, (3, depth)).astype(np.uint8)}
    node = helper.make_node("MatMulInteger", ["a", "b", "az"], ["s"])
    made = model(node, fed, {"b": weight, "az": np.uint8(3)})
    cut = products(simplify(translate(made, "g", {})).graph)
    assert len(cut) == 1 if depth == 500 else len(cut) > 1
    graph = narrow(made)
    assert products(graph) == [(3, 0)]
    exact = (fed["a"].astype(np.int64) - 3) @ weight.astype(np.int64)
    (got,) = evaluate(graph, {"a": fed["a"].astype(np.float32)}).values()
    np.testing.assert_array_equal(got, exact.astype(np.float32))


def test_a_long_convolution_is_one_product_again() -> None:
    rng = np.random.default_rng(9)
    fed = {"x": whole(rng, np.uint8, (1, 200, 5, 5))}
    held = {"w": rng.integers(90, 128, (3, 200, 3, 3)).astype(np.int8), "xz": np.uint8(11)}
    made = model(helper.make_node("ConvInteger", ["x", "w", "xz"], ["y"]), fed, held)
    assert len(products(simplify(translate(made, "g", {})).graph)) > 1
    graph = narrow(made)
    assert products(graph) == [(11, 0)]
    (wanted,) = ReferenceEvaluator(made).run(None, fed)
    (got,) = evaluate(graph, {"x": fed["x"].astype(np.float32)}).values()
    np.testing.assert_array_equal(got, wanted.astype(np.float32))


@settings(deadline=None)
@given(st.integers(0, 99), st.sampled_from((7, 300, 700)))
def test_a_zero_point_of_the_run_is_subtracted_behind_the_sum(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    fed = {"x": rng.normal(rng.uniform(-3, 3), 2, (4, depth)).astype(np.float32)}
    weight = np.clip(rng.normal(0, 30, (depth, 5)), -127, 127).round().astype(np.int8)
    before = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    node = helper.make_node("MatMulInteger", ["q", "w", "z"], ["y"])
    made = model(node, fed, {"w": weight}, before)
    graph = narrow(made)
    assert products(graph) == [(128, 0)]
    (plain,) = evaluate(simplify(translate(made, "g", {})).graph, fed).values()
    (got,) = evaluate(graph, fed).values()
    np.testing.assert_array_equal(got, plain)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("group", [1, 2, 4])
def test_weights_stay_narrow_beside_numbers(layout: Layout, group: int) -> None:
    rng = np.random.default_rng(11)
    fed = {"x": rng.standard_normal((1, 4, 6, 6)).astype(np.float32)}
    held = {
        "w": whole(rng, np.int8, (8, 4 // group, 3, 3)),
        "ws": scales(rng, 8),
        "b": scales(rng, 8),
    }
    before = helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], axis=0)
    node = helper.make_node("Conv", ["x", "wd", "b"], ["y"], pads=[1] * 4, group=group)
    made = model(node, fed, held, before)
    graph = narrow(made, layout)
    (conv,) = (op for op in graph.ops if op.kind is OpKind.CONV)
    assert graph.types[conv.inputs[1]].storage is Format.INT8
    assert_as_onnx(made, graph, fed, rtol=2e-6)


def test_weights_of_a_matrix_product_stay_narrow_beside_numbers() -> None:
    rng = np.random.default_rng(12)
    fed = {"x": rng.standard_normal((3, 2, 9)).astype(np.float32)}
    held = {"w": whole(rng, np.uint8, (9, 4)), "ws": scales(rng, 4)}
    before = helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], axis=1)
    made = model(helper.make_node("MatMul", ["x", "wd"], ["y"]), fed, held, before)
    graph = narrow(made)
    assert [op.kind for op in graph.ops] == [OpKind.MATMUL, OpKind.MUL]
    assert graph.types[graph.ops[0].inputs[1]].storage is Format.UINT8
    assert_as_onnx(made, graph, fed, rtol=2e-6)
