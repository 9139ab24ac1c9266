"""``InferenceSession`` answers as ONNX Runtime's does, model by model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autotune
from autotune import InferenceSession, InputError, SessionOptions

ort = pytest.importorskip("onnxruntime")
rng = np.random.default_rng(7)


def model(*, batch: int | str = 2) -> onnx.ModelProto:
    """Two inputs, three outputs; extents of the batch may be open."""
    weights = rng.standard_normal((4, 3)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("ArgMax", ["product"], ["best"], axis=1, keepdims=0),
        helper.make_node("Mul", ["positive", "scale"], ["scaled"]),
    ]
    graph = helper.make_graph(
        nodes,
        "heads",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4]),
            helper.make_tensor_value_info("scale", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("scaled", TensorProto.FLOAT, [batch, 3]),
            helper.make_tensor_value_info("best", TensorProto.INT64, [batch]),
            helper.make_tensor_value_info("product", TensorProto.FLOAT, [batch, 3]),
        ],
        [onnx.numpy_helper.from_array(weights, "w")],
        doc_string="three heads",
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tests", ir_version=9
    )
    proto.model_version = 3
    proto.metadata_props.add(key="author", value="nobody")
    return proto


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "heads.onnx"
    onnx.save(proto, path)
    return path


FEED = {"x": rng.standard_normal((2, 4)).astype(np.float32), "scale": np.array(0.5, np.float32)}
Source = Callable[[onnx.ModelProto, Path], str | bytes | Path]
SOURCES: dict[str, Source] = {
    "path": saved,
    "text": lambda proto, folder: str(saved(proto, folder)),
    "bytes": lambda proto, folder: proto.SerializeToString(),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("batch", [2, "batch"])
@pytest.mark.parametrize("names", [None, [], ["best"], ["product", "scaled", "product"]])
def test_runs_as_onnx_runtime_does(
    source: str, batch: int | str, names: list[str] | None, tmp_path: Path
) -> None:
    given = SOURCES[source](model(batch=batch), tmp_path)
    ours, theirs = InferenceSession(given), ort.InferenceSession(given)
    got, wanted = ours.run(names, FEED), theirs.run(names, FEED)
    assert isinstance(got, list) and len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [2, "batch"])
def test_inputs_and_outputs_are_described_as_by_onnx_runtime(
    batch: int | str, tmp_path: Path
) -> None:
    path = saved(model(batch=batch), tmp_path)
    ours, theirs = InferenceSession(path), ort.InferenceSession(path)
    for got, wanted in (
        (ours.get_inputs(), theirs.get_inputs()),
        (ours.get_outputs(), theirs.get_outputs()),
    ):
        assert [(x.name, x.shape, x.type) for x in got] == [
            (x.name, x.shape, x.type) for x in wanted
        ]


@pytest.mark.parametrize("source", SOURCES)
def test_metadata_is_that_of_onnx_runtime(source: str, tmp_path: Path) -> None:
    given = SOURCES[source](model(), tmp_path)
    got, wanted = (
        InferenceSession(given).get_modelmeta(),
        ort.InferenceSession(given).get_modelmeta(),
    )
    for name in (
        "producer_name",
        "graph_name",
        "domain",
        "description",
        "graph_description",
        "version",
        "custom_metadata_map",
    ):
        assert getattr(got, name) == getattr(wanted, name), name


def test_nested_lists_are_converted_to_the_type_of_the_input(tmp_path: Path) -> None:
    session = InferenceSession(saved(model(), tmp_path))
    feed = {"x": FEED["x"].tolist(), "scale": 0.5}
    for a, b in zip(session.run(None, feed), session.run(None, FEED), strict=True):
        np.testing.assert_array_equal(a, b)


def test_threads_are_those_of_the_options(tmp_path: Path) -> None:
    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(saved(model(), tmp_path), options)
    assert session.session.target.spec.cores == 1
    assert session.get_session_options() is options


def test_options_of_onnx_runtime_itself_are_accepted(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(saved(model(), tmp_path), options, ["CPUExecutionProvider"])
    assert session.session.target.spec.cores == 1


def test_dimension_overrides_bind_open_dimensions(tmp_path: Path) -> None:
    path = saved(model(batch="batch"), tmp_path)
    ours, theirs = SessionOptions(), ort.SessionOptions()
    for options in (ours, theirs):
        options.add_free_dimension_override_by_name("batch", 2)
    got = InferenceSession(path, ours).get_inputs()[0]
    assert got.shape == ort.InferenceSession(path, theirs).get_inputs()[0].shape == [2, 4]


def test_unknown_providers_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    path = saved(model(), tmp_path)
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not available"):
        session = InferenceSession(
            path, providers=[("CUDAExecutionProvider", {}), "CPUExecutionProvider"]
        )
    assert session.get_providers() == ort.InferenceSession(path).get_providers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        InferenceSession(path, providers=autotune.get_available_providers())


@pytest.mark.parametrize("field", ["enable_profiling", "optimized_model_filepath"])
def test_files_that_no_session_writes_are_warned_of(field: str, tmp_path: Path) -> None:
    options = SessionOptions()
    setattr(options, field, type(getattr(options, field))(1))
    with pytest.warns(UserWarning, match=f"{field} writes no file"):
        InferenceSession(saved(model(), tmp_path), options)


def test_mistakes_are_input_errors_that_name_the_remedy(tmp_path: Path) -> None:
    session = InferenceSession(saved(model(), tmp_path))
    with pytest.raises(InputError, match="no output 'nothing'; the network has 'scaled'"):
        session.run(["nothing"], FEED)
    with pytest.raises(InputError, match="input 'scale' is missing"):
        session.run(None, {"x": FEED["x"]})
    with pytest.raises(InputError, match="float64, expected float32"):
        session.run(None, FEED | {"x": FEED["x"].astype(np.float64)})
    with pytest.raises(AttributeError):
        SessionOptions().intra_op_threads = 2  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="custom operators are not supported"):
        SessionOptions().register_custom_ops_library("ops.so")


def test_every_field_of_our_options_is_one_of_onnx_runtime() -> None:
    theirs = ort.SessionOptions()
    ours = {name for name in SessionOptions.__dataclass_fields__ if name[0] != "_"} - {"dims"}
    assert {name for name in ours if not hasattr(theirs, name)} == set()
    assert {x for x in dir(autotune.GraphOptimizationLevel) if x.startswith("ORT")} == {
        x for x in dir(ort.GraphOptimizationLevel) if x.startswith("ORT")
    }


def test_bytes_serve_integers_that_need_the_model_again() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.INT64, [3])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [3])
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["y"])], "squares", [value], [out]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    content, feed = proto.SerializeToString(), {"x": np.array([3, 5_000, 2**20], np.int64)}
    got, wanted = (
        kind(content).run(None, feed)[0] for kind in (InferenceSession, ort.InferenceSession)
    )
    np.testing.assert_array_equal(got, wanted)


def test_sequences_are_lists_of_arrays(tmp_path: Path) -> None:
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, ["rows", 2])
    )
    graph = helper.make_graph(
        [helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0)],
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
        [helper.make_value_info("rows", sequence)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    ours, theirs = (
        kind(saved(proto, tmp_path)) for kind in (InferenceSession, ort.InferenceSession)
    )
    assert ours.get_outputs()[0].type == theirs.get_outputs()[0].type == "seq(tensor(float))"
    feed = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
    np.testing.assert_array_equal(ours.run(None, feed)[0], theirs.run(None, feed)[0])
