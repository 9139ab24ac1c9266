"""Networks from ONNX Runtime's own quantizer compute what ONNX Runtime computes, but for rounding ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from autotune.graph.graph import Graph
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from autotune.targets.opening import target as open_target
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.datasets.small_networks import SMALL, feeds, widened
from tests.transposed_products import Transposed, transposed

Arrays = dict[str, npt.NDArray[np.generic]]
EDGE = open_target("edge")
QUANTIZERS = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul")
Run = Callable[[Path, Arrays], Arrays]
TIED = 0.005
"""Most elements of a tensor that may round to the other side of a tie."""


class Samples(CalibrationDataReader):
    """Three draws of a network's inputs."""

    def __init__(self, graph: Graph) -> None:
        self._draws: Iterator[Arrays] = iter([feeds(graph, seed) for seed in range(3)])

    def get_next(self) -> Arrays | None:
        return next(self._draws, None)


def saved(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(SMALL[name](), path)
    return path


def static(
    name: str,
    folder: Path,
    per_channel: bool = False,
    activations: QuantType = QuantType.QUInt8,
    form: QuantFormat = QuantFormat.QDQ,
) -> Path:
    source, made = saved(name, folder), folder / "quantised.onnx"
    quantize_static(
        source,
        made,
        Samples(open_network(source)),
        quant_format=form,
        per_channel=per_channel,
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )
    return made


def dynamic(name: str, folder: Path, weights: QuantType = QuantType.QInt8) -> Path:
    """Quantise to weights of seven bits: ONNX Runtime's sums of two products saturate on AVX2 with eight."""
    made = folder / "quantised.onnx"
    quantize_dynamic(saved(name, folder), made, weight_type=weights, reduce_range=True)
    return made


def exposed(path: Path) -> tuple[Path, list[str]]:
    """The model with every quantised activation as an output, and their names in order."""
    model = onnx.load(path)
    names = [node.output[0] for node in model.graph.node if node.op_type in QUANTIZERS]
    for name in names:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    typed = onnx.shape_inference.infer_shapes(model)
    onnx.save(typed, path.with_name("exposed.onnx"))
    return path.with_name("exposed.onnx"), names


def peer(path: Path, fed: Arrays) -> Arrays:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, fed), strict=True))


def on_cpu(path: Path, fed: Arrays) -> Arrays:
    with Session(path, target="cpu") as session:
        return session.run(fed)


def on_edge(path: Path, fed: Arrays) -> Arrays:
    graph = open_network(path, formats=EDGE.spec.formats)
    adapter = IoAdapter(graph)
    adapter.to_float32(fed)
    choices = tuple(heuristic_choices(graph, EDGE.spec))
    table = compile_table(graph, choices, EDGE.spec, ProgramCache())
    return adapter.from_float32(dict(execute(table, EDGE, widened(fed))[0]))


def has_tie(got: Mapping[str, npt.NDArray], wanted: Arrays, names: list[str]) -> bool:
    """Whether quantised tensors differ; the first that does, in a few elements by one step."""
    for name in names:
        step = np.abs(got[name].astype(np.int64) - wanted[name].astype(np.int64))
        if step.any():
            assert step.max() == 1 and np.mean(step) <= max(TIED, 1.5 / step.size), name
            return True
    return False


def assert_near(path: Path, run: Run) -> None:
    fed = feeds(open_network(path), seed=9)
    whole, names = exposed(path)
    tied = has_tie(run(whole, fed), peer(whole, fed), names)
    for name, wanted in peer(path, fed).items():
        got = run(path, fed)[name]
        assert got.dtype == wanted.dtype
        if not tied:
            scale = float(np.abs(wanted).max())
            np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * scale)


STATIC = {
    "per tensor": ("mixer_s16", False, QuantType.QUInt8),
    "per channel": ("resnext50", True, QuantType.QUInt8),
    "signed activations": ("unet", True, QuantType.QInt8),
    "attention": ("bert_layer", True, QuantType.QUInt8),
    "decoder": ("gpt2_step", False, QuantType.QInt8),
}


@pytest.mark.parametrize("case", STATIC)
def test_static_quantisation_computes_what_onnx_runtime_does(case: str, tmp_path: Path) -> None:
    assert_near(static(STATIC[case][0], tmp_path, *STATIC[case][1:]), on_cpu)


@pytest.mark.parametrize("name", ["mlp", "gpt2_step", "whisper_encoder", "vit_tiny", "lstm"])
def test_dynamic_quantisation_computes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    assert_near(dynamic(name, tmp_path), on_cpu)


def test_unsigned_weights_of_dynamic_quantisation(tmp_path: Path) -> None:
    assert_near(dynamic("bert_layer", tmp_path, QuantType.QUInt8), on_cpu)


def test_quantised_networks_run_on_an_emulated_machine(tmp_path: Path) -> None:
    assert_near(static("unet", tmp_path, True, QuantType.QInt8), on_edge)
    assert_near(dynamic("mlp", tmp_path), on_edge)


@pytest.mark.parametrize("per_axis", [False, True])
def test_tensors_of_six_axes_are_quantised(per_axis: bool, tmp_path: Path) -> None:
    """As the windows of a Swin transformer are; programs move five."""
    shape = (1, 4, 2, 4, 2, 6)
    scale = np.linspace(0.01, 0.02, 4, dtype=np.float32) if per_axis else np.float32(0.015)
    zero = np.arange(120, 124, dtype=np.uint8) if per_axis else np.uint8(121)
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=3),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=3),
        ],
        "windows",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        [numpy_helper.from_array(np.asarray(v), x) for x, v in (("s", scale), ("z", zero))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "windows.onnx")
    fed = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    wanted = peer(tmp_path / "windows.onnx", fed)["y"]
    np.testing.assert_array_equal(on_cpu(tmp_path / "windows.onnx", fed)["y"], wanted)


def computed(case: Transposed, folder: Path, run: Run) -> npt.NDArray[np.generic]:
    onnx.save(case.model, folder / "transposed.onnx")
    return run(folder / "transposed.onnx", case.fed)["y"]


@settings(max_examples=20, deadline=None)
@given(case=transposed())
def test_transposed_convolutions_of_bytes_are_exact(
    tmp_path_factory: pytest.TempPathFactory, case: Transposed
) -> None:
    folder = tmp_path_factory.mktemp("transposed")
    for run in (on_cpu, on_edge, peer):
        np.testing.assert_array_equal(computed(case, folder, run), case.wanted, run.__name__)


def product(depth: int, weight: npt.NDArray[np.generic]) -> onnx.ModelProto:
    """An integer product of ``depth`` terms, cast to float."""
    nodes = [
        helper.make_node("MatMulInteger", ["a", "w", "a_zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = [
        helper.make_tensor_value_info("a", TensorProto.UINT8, [3, depth]),
        helper.make_tensor_value_info("a_zero", TensorProto.UINT8, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, weight.shape[1]])]
    stored = [numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph(nodes, "product", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("value", [0.0, -0.5, 2.0, None])
def test_tensors_of_one_value_are_quantised_as_onnx_runtime_does(
    value: float | None, tmp_path: Path
) -> None:
    """Zeros among them, as behind a ReLU or of padding tokens: their scale is 1, not 0."""
    graph = helper.make_graph(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        ],
        "value",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [
            helper.make_tensor_value_info("q", TensorProto.UINT8, [2, 3]),
            helper.make_tensor_value_info("scale", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("zero", TensorProto.UINT8, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "value.onnx")
    drawn = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    fed = {"x": drawn if value is None else np.full((2, 3), value, np.float32)}
    wanted = peer(tmp_path / "value.onnx", fed)
    for run in (on_cpu, on_edge):
        for name, found in run(tmp_path / "value.onnx", fed).items():
            assert found.dtype == wanted[name].dtype, name
            np.testing.assert_allclose(found, wanted[name], rtol=1e-7, err_msg=name)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("is_direct", [True, False])
def test_padded_maxima_of_bytes(kind: type, is_direct: bool, tmp_path: Path) -> None:
    """Of bytes as such, as operator-oriented quantisers write them, and between pairs of one scale."""
    grid = ["scale", "zero"]
    between = [
        helper.make_node("DequantizeLinear", ["q", *grid], ["wide"]),
        helper.make_node("MaxPool", ["wide"], ["most"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["most", *grid], ["p"]),
    ]  # fmt: skip
    direct = [
        helper.make_node("MaxPool", ["q"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    ]
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", *grid], ["q"]),
            *(direct if is_direct else between),
            helper.make_node("DequantizeLinear", ["p", *grid], ["y"]),
        ],
        "maxima",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 5, 11, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 6, 6])],
        [numpy_helper.from_array(np.float32(0.02), "scale"), numpy_helper.from_array(kind(3), "zero")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "maxima.onnx")
    drawn = np.random.default_rng(6).standard_normal((1, 5, 11, 12)).astype(np.float32) - 1
    wanted = peer(tmp_path / "maxima.onnx", {"x": drawn})["y"]
    for run in (on_cpu, on_edge):
        found = run(tmp_path / "maxima.onnx", {"x": drawn})["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-7, err_msg=run.__name__)


@pytest.mark.parametrize("depth", [500, 900, 3000, 20000])
def test_sums_of_any_length_are_rounded_once(depth: int, tmp_path: Path) -> None:
    """Sums far beyond 2^24, odd ones among them, of which float32 holds the nearest number."""
    rng = np.random.default_rng(depth)
    weight = rng.integers(90, 128, (depth, 4)).astype(np.int8)
    fed: dict[str, np.ndarray] = {
        "a": rng.integers(200, 256, (3, depth)).astype(np.uint8),
        "a_zero": np.asarray(3, np.uint8),
    }
    onnx.save(product(depth, weight), tmp_path / "product.onnx")
    exact = (fed["a"].astype(np.int64) - 3) @ weight.astype(np.int64)
    assert depth == 500 or exact.max() > 2**24
    got = on_cpu(tmp_path / "product.onnx", fed)["y"]
    np.testing.assert_array_equal(got, exact.astype(np.float32))
