"""Scales and zero points that no quantised numbers have cost one line that names the node and the tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.errors import ModelError
from autotune.frontend.importing import load_onnx

FLOAT, UINT8 = TensorProto.FLOAT, TensorProto.UINT8
PAIR = [
    helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantise"),
    helper.make_node("DequantizeLinear", ["q", "t", "u"], ["y"], "dequantise"),
]
PAIR_VALUES = {"s": np.float32(0.1), "z": np.uint8(3), "t": np.float32(0.1), "u": np.uint8(3)}
NAMES = ["x", "a", "b", "w", "c", "d", "e", "f"]
PRODUCT = [helper.make_node("QLinearMatMul", NAMES, ["y"], "product")]
PRODUCT_VALUES = {
    "a": np.float32(0.1), "b": np.uint8(3), "w": np.ones((3, 3), np.int8), "c": np.float32(0.1),
    "d": np.int8(0), "e": np.float32(0.1), "f": np.uint8(0),
}  # fmt: skip
WHOLE = [helper.make_node("MatMulInteger", ["x", "w", "b", "d"], ["y"], "whole")]

BAD = {
    "a zero that divides": (PAIR, {"s": np.float32(0)}, "node 'quantise'", "'s', which is 0"),
    "a zero among channels": (
        PAIR, {"s": np.float32([1, 0, 1]), "z": np.zeros(3, np.uint8)}, "node 'quantise'", "is 0",
    ),
    "NaN": (PAIR, {"t": np.float32("nan")}, "node 'dequantise'", "'t', which is nan"),
    "infinity": (PAIR, {"s": np.float32("inf")}, "node 'quantise'", "'s', which is inf"),
    "another type": (PAIR, {"u": np.int8(3)}, "node 'dequantise'", "type int8 for numbers of type uint8"),
    "another shape": (PAIR, {"u": np.zeros(3, np.uint8)}, "node 'dequantise'", "shape [3]"),
    "a product's zero": (PRODUCT, {"e": np.float32(0)}, "node 'product'", "'e', which is 0"),
    "a product's NaN": (PRODUCT, {"c": np.float32("nan")}, "node 'product'", "'c', which is nan"),
    "a product's types": (PRODUCT, {"d": np.uint8(0)}, "node 'product'", "type uint8 for numbers of type int8"),
    "whole numbers' types": (WHOLE, {"b": np.int8(3)}, "node 'whole'", "type int8 for numbers of type uint8"),
}  # fmt: skip


def written(folder: Path, nodes: list[onnx.NodeProto], values: dict[str, np.ndarray]) -> Path:
    is_pair = nodes is PAIR
    kinds = (FLOAT, FLOAT) if is_pair else (UINT8, TensorProto.INT32 if nodes is WHOLE else UINT8)
    read = {x for node in nodes for x in node.input}
    all_values = {**(PAIR_VALUES if is_pair else PRODUCT_VALUES), **values}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kinds[0], [2, 3])],
        [helper.make_tensor_value_info("y", kinds[1], [2, 3])],
        [numpy_helper.from_array(np.asarray(v), x) for x, v in all_values.items() if x in read],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_refused(case: str, tmp_path: Path) -> None:
    nodes, values, place, told = BAD[case]
    with pytest.raises(ModelError) as refusal:
        load_onnx(written(tmp_path, nodes, values))
    line = str(refusal.value)
    assert "net.onnx" in line and place in line and told in line and "\n" not in line


@pytest.mark.parametrize("nodes", [PAIR, PRODUCT, WHOLE])
def test_good_parameters_are_not(nodes: list[onnx.NodeProto], tmp_path: Path) -> None:
    assert load_onnx(written(tmp_path, nodes, {})).outputs == ("y",)


def test_a_channel_of_zeros_may_have_scale_zero_where_nothing_divides(tmp_path: Path) -> None:
    assert load_onnx(written(tmp_path, PAIR, {"t": np.float32(0)})).outputs == ("y",)


def test_a_zero_point_beyond_its_type_is_refused(tmp_path: Path) -> None:
    model = onnx.load(written(tmp_path, PAIR, {}))
    (zero,) = (x for x in model.graph.initializer if x.name == "z")
    zero.ClearField("raw_data")
    zero.int32_data.append(300)
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="'z' holds 300, beyond 0 to 255"):
        load_onnx(tmp_path / "net.onnx")
