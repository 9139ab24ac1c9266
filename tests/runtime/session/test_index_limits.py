"""Indices beyond the end of an axis are refused, as ONNX Runtime refuses them; the last ones are taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from autotune.errors import InputError
from autotune.frontend.importing import load_onnx
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.session.session import Session

TABLE = np.arange(30, dtype=np.float32).reshape(2, 5, 3)
UPDATES = np.ones((1, 3), np.float32)

# node, a legal index array, and where an index of the axis of five stands in it
CASES = {
    "Gather": (("Gather", ["d", "i"], {"axis": 1}), np.array([[4, -5], [0, 1]]), (0, 0)),
    "of a scalar": (("Gather", ["d", "i"], {"axis": 1}), np.array(-5), ()),
    "of int32": (("Gather", ["d", "i"], {"axis": 1}), np.array([4, -5], np.int32), (1,)),
    "GatherElements": (
        ("GatherElements", ["d", "i"], {"axis": 1}),
        np.full((2, 2, 3), 4),
        (1, 0, 2),
    ),
    "GatherND": (("GatherND", ["d", "i"], {}), np.array([[1, 4], [-2, -5]]), (0, 1)),
    "ScatterND": (("ScatterND", ["d", "i", "u"], {}), np.array([[1, 4]]), (0, 1)),
    "ScatterElements": (
        ("ScatterElements", ["d", "i", "v"], {"axis": 1}),
        np.full((1, 1, 3), 4),
        (0, 0, 1),
    ),
}


def saved(case: str, folder: Path) -> Path:
    (operator, names, attrs), indices, _ = CASES[case]
    kind = helper.np_dtype_to_tensor_dtype(indices.dtype)
    stored = {"d": TABLE, "u": UPDATES, "v": UPDATES[None]}
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attrs)],
        "indices",
        [helper.make_tensor_value_info("i", kind, indices.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(stored[x], x) for x in names if x != "i"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "indices.onnx")
    return folder / "indices.onnx"


def with_index(case: str, index: int) -> dict[str, npt.NDArray[np.generic]]:
    _, indices, place = CASES[case]
    changed = indices.copy()
    changed[place] = index
    return {"i": changed}


@pytest.mark.parametrize("case", CASES)
def test_indices_outside_of_an_axis_are_refused_as_by_onnx_runtime(
    case: str, tmp_path: Path
) -> None:
    path = saved(case, tmp_path)
    peer = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with Session(path, target="cpu") as session:
        for index in (4, -5, 0):
            fed = with_index(case, index)
            np.testing.assert_array_equal(session.run(fed)["y"], peer.run(None, fed)[0])
        for index in (5, 7, -6, -9):
            with pytest.raises((Fail, InvalidArgument, RuntimeException)):
                peer.run(None, with_index(case, index))
            with pytest.raises(InputError, match=f"index {index}, .* axis of 5 .* feed -5 to 4"):
                session.run(with_index(case, index))


def test_transposed_indices_are_checked(tmp_path: Path) -> None:
    """As token numbers that a network wants sequence first."""
    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
            helper.make_node("Gather", ["d", "t"], ["y"], axis=1),
        ],
        "transposed",
        [helper.make_tensor_value_info("i", TensorProto.INT64, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(TABLE, "d")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "transposed.onnx")
    legal = np.array([[0, 4, -5], [1, -1, 2]])
    with Session(tmp_path / "transposed.onnx", target="cpu") as session:
        np.testing.assert_array_equal(session.run(legal)["y"], np.take(TABLE, legal.T, 1))
        with pytest.raises(InputError, match=r"index 5, .* axis of 5 .* feed -5 to 4"):
            session.run(np.array([[0, 4, -5], [1, -1, 5]]))


@pytest.mark.parametrize("operator", ["Gather", "GatherElements"])
def test_indices_of_an_axis_of_one_element_are_checked(operator: str, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node(operator, ["d", "i"], ["y"], axis=1)],
        "one",
        [helper.make_tensor_value_info("i", TensorProto.INT64, (2, 1))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(TABLE[:, :1, 0], "d")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "one.onnx")
    peer = onnxruntime.InferenceSession(model.SerializeToString())
    with Session(tmp_path / "one.onnx", target="cpu") as session:
        legal = {"i": np.array([[0], [-1]])}
        np.testing.assert_array_equal(session.run(legal)["y"], peer.run(None, legal)[0])
        for index in (1, -2):
            with pytest.raises(InputError, match=f"index {index}, .* axis of 1 elements"):
                session.run({"i": np.array([[0], [index]])})


def test_indices_are_checked_at_the_border_of_every_target(tmp_path: Path) -> None:
    adapter = IoAdapter(load_onnx(saved("Gather", tmp_path)))
    adapter.to_float32(with_index("Gather", -5))
    with pytest.raises(InputError, match="index -6"):
        adapter.to_float32(with_index("Gather", -6))
