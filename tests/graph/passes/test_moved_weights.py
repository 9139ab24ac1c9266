"""Weights that are moved stay narrow: transposed convolutions in the QDQ form compute what ONNX's evaluator does, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from tests.graph.passes.test_narrow_products import (
    assert_as_onnx,
    model,
    narrow,
    products,
    scales,
    whole,
)
from tests.transposed_products import Transposed, transposed


def zeros(graph: Graph) -> list[tuple[int, int] | None]:
    return [op.zeros for op in graph.ops if op.kind is OpKind.CONV]


def computed(graph: Graph, case: Transposed) -> np.ndarray:
    fed = {x: v.astype(np.float32) for x, v in case.fed.items()}
    (got,) = evaluate(graph, fed).values()
    return got


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(transposed())
def test_any_transposed_convolution_of_bytes_is_exact(case: Transposed) -> None:
    for layout in Layout:
        np.testing.assert_array_equal(computed(narrow(case.model, layout), case), case.wanted)


@settings(deadline=None)
@given(transposed(groups=(1,)))
def test_onnx_evaluator_computes_the_same(case: Transposed) -> None:
    """Its groups are wrong: it takes one channel of each."""
    (wanted,) = ReferenceEvaluator(case.model).run(None, case.fed)
    np.testing.assert_array_equal(wanted, case.wanted)


def qdq(rng: np.random.Generator, held: dict[str, np.ndarray], **attrs: object) -> onnx.ModelProto:
    """A transposed convolution of bytes [1, 4, 5, 6], dequantised and quantised; ``held`` are the weight's numbers."""
    fed = {"x": whole(rng, np.uint8, (1, 4, 5, 6))}
    held = {
        "xs": scales(rng),
        "xz": np.uint8(7),
        "ys": np.float32(9.0),
        "yz": np.uint8(100),
        **held,
    }
    before = [
        helper.make_node("DequantizeLinear", [x, f"{x}s", f"{x}z"], [f"{x}d"], axis=axis)
        for x, axis in (("x", 0), ("w", 1))
    ]
    made = helper.make_node("ConvTranspose", ["xd", "wd"], ["s"], **attrs)
    before += [made, helper.make_node("QuantizeLinear", ["s", "ys", "yz"], ["q"])]
    last = helper.make_node("DequantizeLinear", ["q", "ys", "yz"], ["y"])
    return model(last, fed, held, *before)


@pytest.mark.parametrize("channels", [3, 300])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (4, 2), (3, 1), (1, 3), (5, 3)])
def test_products_are_narrow_and_their_phases_are_moved_as_bytes(
    channels: int, kernel: int, stride: int
) -> None:
    rng = np.random.default_rng(kernel)
    held = {
        "w": whole(rng, np.int8, (4, channels, kernel, kernel)),
        "ws": scales(rng, channels), "wz": np.zeros(channels, np.int8),
    }  # fmt: skip
    graph = narrow(qdq(rng, held, strides=[stride] * 2), Layout.CHANNELS_LAST)
    convolutions = [op for op in graph.ops if op.kind is OpKind.CONV]
    assert {op.zeros for op in convolutions} == {(7, 0)}
    assert {graph.types[x].storage for op in convolutions for x in op.inputs} == {
        Format.UINT8, Format.INT8,
    }  # fmt: skip
    kinds = (OpKind.TRANSPOSE, OpKind.SLICE, OpKind.CONCAT)
    moves = [op for op in graph.ops if op.kind in kinds and "y" not in op.output]
    assert {graph.types[op.output].storage for op in moves} <= {Format.UINT8}


def test_a_scale_per_input_channel_stays_ahead_of_the_sum() -> None:
    rng = np.random.default_rng(2)
    held = {
        "w": whole(rng, np.int8, (4, 3, 2, 2)),
        "ws": scales(rng, 4),
        "wz": np.zeros(4, np.int8),
    }
    made = qdq(rng, held, strides=[2, 2])
    made.graph.node[1].attribute[0].i = 0
    assert zeros(narrow(made)) == [None]


def test_zero_points_by_channel_beyond_8_bits_stay_ahead_of_the_sum() -> None:
    rng = np.random.default_rng(2)
    for points, wanted in (([3, 3, 3], (7, 3)), ([-3, 0, 3], None), ([0, 0, 0], (7, 0))):
        held = {"w": whole(rng, np.int8, (4, 3, 2, 2)), "ws": scales(rng, 3)}
        held["w"].flat[:2] = -128, 127
        held |= {"wz": np.asarray(points, np.int8)}
        assert zeros(narrow(qdq(rng, held, strides=[2, 2]))) == [wanted]


def test_weights_alone_stay_narrow_beside_numbers() -> None:
    rng = np.random.default_rng(3)
    fed = {"x": rng.standard_normal((1, 4, 5, 6)).astype(np.float32)}
    held = {"w": whole(rng, np.int8, (4, 3, 3, 3)), "ws": scales(rng, 3), "b": scales(rng, 3)}
    before = helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], axis=1)
    node = helper.make_node("ConvTranspose", ["x", "wd", "b"], ["y"], strides=[2, 2])
    made = model(node, fed, held, before)
    for layout in Layout:
        graph = narrow(made, layout)
        (conv,) = (op for op in graph.ops if op.kind is OpKind.CONV)
        assert graph.types[conv.inputs[1]].storage is Format.INT8
        assert_as_onnx(made, graph, fed, rtol=2e-6)


def test_a_transposed_weight_of_a_matrix_product_stays_narrow() -> None:
    """As exporters write linear layers: the weight is dequantised, then transposed."""
    rng = np.random.default_rng(4)
    fed = {"x": whole(rng, np.uint8, (3, 9))}
    held = {"xs": scales(rng), "xz": np.uint8(7), "w": whole(rng, np.int8, (5, 9)),
            "ws": scales(rng, 5), "wz": np.zeros(5, np.int8)}  # fmt: skip
    before = [
        helper.make_node("DequantizeLinear", [x, f"{x}s", f"{x}z"], [f"{x}d"], axis=0) for x in "xw"
    ]
    before.append(helper.make_node("Transpose", ["wd"], ["wt"]))
    made = model(helper.make_node("MatMul", ["xd", "wt"], ["y"]), fed, held, *before)
    graph = narrow(made)
    assert products(graph) == [(7, 0)]
    assert_as_onnx(made, graph, fed, rtol=1e-6)


def test_moved_weights_of_two_bytes_stay_so() -> None:
    rng = np.random.default_rng(5)
    fed = {"x": rng.standard_normal((1, 32, 5, 6)).astype(np.float32)}
    held = {"w": rng.standard_normal((32, 16, 2, 2)).astype(ml_dtypes.bfloat16)}
    before = [
        helper.make_node("Cast", ["x"], ["xh"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["xh"], ["xd"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["w"], ["wd"], to=TensorProto.FLOAT),
    ]
    node = helper.make_node("ConvTranspose", ["xd", "wd"], ["y"], strides=[2, 2])
    made = model(node, fed, held, *before)
    graph = narrow(made)
    (conv,) = (op for op in graph.ops if op.kind is OpKind.CONV)
    assert conv.is_bf16 and graph.types[conv.inputs[1]].storage is Format.BF16
    assert_as_onnx(made, graph, fed, rtol=2e-6)
