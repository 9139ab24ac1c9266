"""Scales and zero points that no quantised numbers have are refused in one line that names node, parameter and way out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.errors import ModelError
from autotune.frontend.importing import translate


def network() -> onnx.ModelProto:
    """A product whose factors are dequantised, the first one quantised before."""
    parameters = {
        "s": np.float32(0.1), "z": np.uint8(3), "w": np.ones((4, 3), np.int8),
        "ws": np.float32(0.1), "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="to bytes"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="to numbers"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        helper.make_node("MatMul", ["d", "wd"], ["y"]),
    ]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in parameters.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def with_parameter(name: str, value: object) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        (stored,) = (one for one in model.graph.initializer if one.name == name)
        stored.CopyFrom(numpy_helper.from_array(np.asarray(value), name))

    return change


def beyond_its_type(model: onnx.ModelProto) -> None:
    """A zero point of uint8 stored as 300, as int32_data can."""
    (stored,) = (one for one in model.graph.initializer if one.name == "z")
    stored.raw_data = b""
    stored.int32_data.append(300)


def of_another_type(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[2] = "wz"


BAD = {
    "zero scale": (with_parameter("s", np.float32(0)), "'s', which is 0, and divides by it"),
    "NaN scale": (with_parameter("s", np.float32(np.nan)), "'s', which is nan; quantise"),
    "infinite scale": (with_parameter("ws", np.float32(np.inf)), "'ws', which is inf; quantise"),
    "zero point out of range": (beyond_its_type, "'z' holds 300, beyond 0 to 255"),
    "zero point of a wide type": (with_parameter("z", np.int32(300)), "QuantizeLinear to int32"),
    "mixed types": (of_another_type, "'wz' of type int8 for numbers of type uint8"),
    "zero points by channel, one scale": (
        with_parameter("z", np.array([3, 4], np.uint8)),
        "of shape [2] and the scale 's' of shape []",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_parameters_that_no_quantised_numbers_have_are_refused(case: str) -> None:
    change, told = BAD[case]
    model = network()
    translate(model, "g", {})
    change(model)
    with pytest.raises(ModelError) as refusal:
        translate(model, "g", {})
    text = str(refusal.value)
    assert told in text and "\n" not in text
