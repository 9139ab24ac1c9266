"""Quantised files: right for other runtimes, near the float32 network, and judged by inputs held out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import autotune
from autotune.datasets import light_seeded
from autotune.errors import AutotuneError, InputError, ModelError
from autotune.quantisation.loss import Loss, loss_of
from autotune.quantisation.products import Network
from autotune.quantisation.quantize import quantize
from autotune.quantisation.result import QuantizeResult
from autotune.quantisation.source import read_source
from autotune.quantisation.target_costs import TargetCosts
from autotune.runtime.session.opening import open_network
from tests.datasets.small_networks import SMALL, feeds
from tests.networks.test_quantised import assert_near, on_cpu, peer

RUNS = 8


def saved(name: str, folder: Path) -> tuple[Path, Path]:
    """A small network and inputs of it."""
    path, data = folder / f"{name}.onnx", folder / "data.npz"
    onnx.save(SMALL[name](), path)
    graph = open_network(path)
    draws = [feeds(graph, seed) for seed in range(RUNS)]
    np.savez(data, **{x: np.stack([draw[x] for draw in draws]) for x in draws[0]})
    return path, data


def made(name: str, folder: Path, **options: Any) -> tuple[QuantizeResult, Path]:
    path, data = saved(name, folder)
    return quantize(path, data, folder / "q.onnx", **options), path


def kinds(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


WRITTEN = {
    "convolutions": ("resnext50", {}),
    "depth-wise convolutions": ("mobilenet_v2", {"activations": "uint8"}),
    "transposed convolutions": ("unet", {"method": "minmax"}),
    "attention": ("bert_layer", {"method": "percentile"}),
    "a decoder": ("gpt2_step", {"per_channel": False}),
    "weights only": ("llama_step", {"weights_only": True}),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_the_file_is_valid_and_other_runtimes_compute_what_we_do(case: str, tmp_path: Path) -> None:
    name, options = WRITTEN[case]
    result, _ = made(name, tmp_path, **options)
    onnx.checker.check_model(onnx.load(result.file), full_check=True)
    assert result.quantised == len(result.products) > 0
    assert_near(result.file, on_cpu)


@pytest.mark.parametrize("name", ["mlp", "resnext50", "gpt2_step"])
def test_the_loss_is_that_of_onnx_runtimes_outputs_on_the_runs_held_out(
    name: str, tmp_path: Path
) -> None:
    result, path = made(name, tmp_path)
    arrays = dict(np.load(tmp_path / "data.npz"))
    order = np.random.default_rng(0)
    order.permutation(1)  # the one file
    held_out = sorted(order.permutation(RUNS)[:2])
    runs = [{x: values[i] for x, values in arrays.items()} for i in held_out]
    wanted, found = ([peer(file, run) for run in runs] for file in (path, result.file))
    assert result.held_out_runs == 2
    for measure in (Loss.RELATIVE, Loss.COSINE):
        expected = loss_of(wanted, found, measure)
        assert result.losses[measure] == pytest.approx(expected, rel=0.25)
    assert 0 < result.losses[Loss.RELATIVE] < 0.2


def test_onnx_evaluator_computes_what_we_do(tmp_path: Path) -> None:
    """The evaluator has these operators from opset 19 on."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    weights = {"w": normal(4, 3, 3, 3), "b": normal(4)}
    result = quantised(model(nodes, weights, [1, 3, 8, 8], [1, 4, 8, 8], opset=19), tmp_path)
    fed = {"x": normal(1, 3, 8, 8)}
    (wanted,) = ReferenceEvaluator(str(result.file)).run(None, fed)
    step = np.min(np.diff(np.unique(wanted)))
    found = on_cpu(result.file, fed)["y"]
    assert np.abs(found - wanted).max() < 1.01 * step, "one step at a tie"
    assert np.mean(np.abs(found - wanted) > 0.01 * step) <= 0.01


def test_weights_are_bytes_and_the_file_a_quarter(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    proto = model([node], {"w": normal(200, 300)}, [2, 200], [2, 300])
    result = quantised(proto, tmp_path)
    stored = onnx.load(result.file).graph.initializer
    assert [x.data_type for x in stored if len(x.dims) == 2] == [TensorProto.INT8]
    assert 3.5 < result.bytes_before / result.bytes_after < 4
    assert result.bytes_after == result.file.stat().st_size


def test_weights_only_needs_no_data_and_leaves_activations(tmp_path: Path) -> None:
    path, _ = saved("llama_step", tmp_path)
    result = quantize(path, None, tmp_path / "q.onnx", weights_only=True)
    assert not result.losses and "QuantizeLinear" not in kinds(result.file)
    stored = [p for p in Network(read_source(path)).products if p.weights]
    assert kinds(result.file)["DequantizeLinear"] == len(stored)
    with pytest.raises(InputError, match="data is missing"):
        quantize(path, None, tmp_path / "q.onnx")


def test_equal_arguments_make_equal_files(tmp_path: Path) -> None:
    first, path = made("resnext50", tmp_path)
    content = first.file.read_bytes()
    quantize(path, tmp_path / "data.npz", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == content


def model(
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    shape: list[int],
    result: list[int],
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(proto)
    return proto


RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def quantised(
    proto: onnx.ModelProto, folder: Path, data: np.ndarray | None = None, **options: Any
) -> QuantizeResult:
    onnx.save(proto, folder / "net.onnx")
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    np.save(folder / "data.npy", RNG.uniform(-1, 1, (40, *shape)) if data is None else data)
    return quantize(folder / "net.onnx", folder / "data.npy", folder / "q.onnx", **options)


def test_a_normalisation_is_folded_into_its_convolution(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], epsilon=1e-3),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    weights = {
        "w": normal(4, 3, 3, 3), "s": normal(4), "b": normal(4), "m": normal(4),
        "v": np.abs(normal(4)) + 0.1,
    }  # fmt: skip
    result = quantised(model(nodes, weights, [1, 3, 8, 8], [1, 4, 6, 6]), tmp_path)
    assert "BatchNormalization" not in kinds(result.file)
    assert result.losses[Loss.RELATIVE] < 0.03
    fed = {"x": RNG.uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)}
    wanted = peer(tmp_path / "net.onnx", fed)["y"]
    assert np.abs(peer(result.file, fed)["y"] - wanted).max() < 0.1 * wanted.max()


TRANSPOSED = {
    "a kernel of the stride": (1, 2, {"strides": [2, 2]}),
    "a kernel beyond the stride": (1, 3, {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "dilated taps": (1, 2, {"strides": [2, 1], "dilations": [2, 3], "auto_pad": "SAME_UPPER"}),
    "groups": (2, 3, {"strides": [2, 2], "group": 2}),
    "depth-wise": (4, 3, {"strides": [2, 2], "group": 4}),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"format": "bf16"}, {"weights_only": True}], ids=str)
@pytest.mark.parametrize("case", TRANSPOSED)
def test_forms_of_transposed_convolutions(
    case: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Each with a normalisation behind it, which becomes its weight's."""
    group, side, attrs = TRANSPOSED[case]
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "c"], ["t"], **attrs),
        helper.make_node("BatchNormalization", ["t", "s", "b", "m", "v"], ["n"], epsilon=1e-3),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    outer = 8 // group
    steps = np.geomspace(0.01, 1, outer, dtype=np.float32)[:, None, None]
    weights = {
        "w": normal(4, outer, side, side) * steps, "c": normal(8), "s": normal(8), "b": normal(8),
        "m": normal(8), "v": np.abs(normal(8)) + 0.1,
    }  # fmt: skip
    graph = model(nodes, weights, [1, 4, 5, 6], [1, 8, 1, 1])
    graph.graph.output[0].type.tensor_type.ClearField("shape")
    data = RNG.uniform(-1, 1, (8, 1, 4, 5, 6)).astype(np.float32)
    result = quantised(onnx.shape_inference.infer_shapes(graph), tmp_path, data, **options)
    assert result.quantised == 1 and "BatchNormalization" not in kinds(result.file)
    stored = {x.name: x for x in onnx.load(result.file).graph.initializer}
    if not options:
        (scale,) = (x for name, x in stored.items() if "weight_scale" in name)
        assert list(scale.dims) == ([8] if group == 1 else [])
        assert TensorProto.INT32 in {x.data_type for x in stored.values()}, "the bias"
    fed = {"x": data[0]}
    wanted, found = (peer(path, fed)["y"] for path in (tmp_path / "net.onnx", result.file))
    assert np.abs(found - wanted).max() < 0.05 * wanted.max()
    assert_near(result.file, on_cpu)


def test_an_old_file_with_moved_weights_is_brought_to_scales_per_channel(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "wt"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    proto = model(nodes, {"w": normal(7, 5)}, [2, 5], [2, 7], opset=9)
    result = quantised(proto, tmp_path)
    assert onnx.load(result.file).opset_import[0].version >= 13
    assert "Transpose" not in kinds(result.file) and result.quantised == 1
    assert_near(result.file, on_cpu)


@pytest.mark.slow
def test_a_network_of_an_old_operator_set_is_quantised(tmp_path: Path) -> None:
    """ONNX's converter leaves declared tensors without a type in it."""
    path = tmp_path / "net.onnx"
    onnx.save(light_seeded("light_squeezenet"), path)
    assert onnx.load(path).opset_import[0].version < 13
    data = RNG.uniform(-1, 1, (3, 1, 3, 224, 224)).astype(np.float32)
    np.save(tmp_path / "data.npy", data)
    result = quantize(path, tmp_path / "data.npy", tmp_path / "q.onnx")
    assert result.quantised == 26 and result.losses[Loss.RELATIVE] < 0.2


def test_channels_of_zeros_and_large_biases_are_held(tmp_path: Path) -> None:
    weight, bias = normal(6, 5), normal(6) * 1e6
    weight[2] = 0
    weight[3] *= 1e-12
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    proto = model([node], {"w": weight, "b": bias.astype(np.float32)}, [3, 5], [3, 6])
    result = quantised(proto, tmp_path)
    assert result.losses[Loss.RELATIVE] < 1e-5, "the bias is the output"
    stored = {x.name: numpy_helper.to_array(x) for x in onnx.load(result.file).graph.initializer}
    assert all((x > 0).all() for name, x in stored.items() if name.endswith("_scale"))
    assert_near(result.file, on_cpu)


@pytest.mark.parametrize("operator", ["Gemm", "Gemm with factors", "MatMul left", "MatMul vector"])
def test_forms_of_products(operator: str, tmp_path: Path) -> None:
    forms = {
        "Gemm": (helper.make_node("Gemm", ["x", "w"], ["y"]), normal(5, 6), [3, 5], [3, 6]),
        "Gemm with factors": (
            helper.make_node("Gemm", ["x", "w"], ["y"], alpha=0.5, transA=1),
            normal(5, 6), [5, 3], [3, 6],
        ),
        "MatMul left": (helper.make_node("MatMul", ["w", "x"], ["y"]), normal(4, 3), [3, 5], [4, 5]),
        "MatMul vector": (helper.make_node("MatMul", ["x", "w"], ["y"]), normal(5), [3, 5], [3]),
    }  # fmt: skip
    node, weight, shape, out = forms[operator]
    result = quantised(model([node], {"w": weight}, shape, out), tmp_path)
    assert result.quantised == 1 and result.losses[Loss.RELATIVE] < 0.05
    assert_near(result.file, on_cpu)


def test_a_result_that_is_an_output_and_is_read_keeps_its_name(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["z"]),
    ]
    proto = model(
        nodes, {"w": normal(3, 3, 3, 3), "v": normal(2, 3, 3, 3)}, [1, 3, 6, 6], [1, 3, 6, 6]
    )
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 2, 4, 4]))
    result = quantised(proto, tmp_path)
    assert {x.name for x in onnx.load(result.file).graph.output} == {"y", "z"}
    assert_near(result.file, on_cpu)


def test_tensors_that_are_moved_only_have_one_grid(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p", "v"], ["y"]),
    ]
    proto = model(
        nodes, {"w": normal(3, 3, 3, 3), "v": normal(2, 3, 3, 3)}, [1, 3, 8, 8], [1, 2, 3, 3]
    )
    result = quantised(proto, tmp_path)
    stored = {x.name: numpy_helper.to_array(x) for x in onnx.load(result.file).graph.initializer}
    assert stored["c_scale"] == stored["p_scale"]
    assert stored["c_zero_point"] == stored["p_zero_point"]


REFUSED = {
    "quantised already": ("q.onnx", {}, "quantised already: it has DequantizeLinear"),
    "nothing to quantise": ("relu.onnx", {}, "nothing to quantise: no Conv, ConvTranspose, Gemm, MatMul"),
    "an unknown method": ("net.onnx", {"method": "entropy"}, "choose among minmax"),
    "an unknown type": ("net.onnx", {"activations": "int4"}, "choose among int8, uint8"),
    "a percentile of 0": ("net.onnx", {"percentile": 0}, "percentile is 0"),
    "all runs held out": ("net.onnx", {"hold_out": 1.0}, "hold_out is 1.0"),
    "one run": ("net.onnx", {"runs": 1}, "runs = 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_quantised_is_refused(case: str, tmp_path: Path) -> None:
    name, options, told = REFUSED[case]
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    quantised(model([product], {"w": normal(3, 3)}, [2, 3], [2, 3]), tmp_path)
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {}, [2, 3], [2, 3])
    onnx.save(relu, tmp_path / "relu.onnx")
    with pytest.raises(AutotuneError) as refusal:
        quantize(tmp_path / name, tmp_path / "data.npy", tmp_path / "new.onnx", **options)
    assert told in str(refusal.value) and "\n" not in str(refusal.value)
    assert not (tmp_path / "new.onnx").exists()


def test_products_of_infinities_stay_in_float32(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Log", ["x"], ["l"]),
        helper.make_node("MatMul", ["l", "w"], ["a"]),
        helper.make_node("Greater", ["a", "none"], ["g"]),
        helper.make_node("Cast", ["g"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    weights = {"w": np.abs(normal(3, 3)), "v": normal(3, 3), "none": np.float32(0).reshape(())}
    proto = model(nodes, weights, [2, 3], [2, 3])
    result = quantised(proto, tmp_path, np.zeros((4, 2, 3), np.float32))
    assert [one.type for one in result.products] == ["float32", "int8"]
    assert "not finite" in (result.products[0].reason or "")


def test_outputs_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Log", ["a"], ["y"]),
    ]
    with pytest.raises(InputError, match="output 'y' is not finite"):
        quantised(model(nodes, {"w": normal(3, 3)}, [2, 3], [2, 3]), tmp_path)


def test_an_open_dimension_is_quantised_row_by_row(tmp_path: Path) -> None:
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": normal(3, 4)}, [2, 3], [2, 4]
    )
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    result = quantised(proto, tmp_path, normal(6, 3))
    assert (result.calibration_runs, result.held_out_runs) == (4, 2)
    with autotune.Session(result.file) as session:
        assert session.run(normal(5, 3))["y"].shape == (5, 4)


def open_batch(width: int) -> onnx.ModelProto:
    """Two products of ``width`` columns for any number of rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    weights = {name: normal(width, width) for name in ("w", "v")}
    proto = model(nodes, weights, [2, width], [2, width])
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    return proto


def test_rows_of_a_bound_dimension_are_cut_into_runs_of_its_extent(tmp_path: Path) -> None:
    result = quantised(open_batch(8), tmp_path, normal(64, 8), dims={"batch": 4})
    assert result.calibration_runs + result.held_out_runs == 16
    with pytest.raises(InputError, match=r"no stack of runs of \[4, 8\]"):
        quantised(open_batch(8), tmp_path, normal(6, 8), dims={"batch": 4})


@pytest.mark.parametrize("dims", [None, {"batch": 4}])
def test_a_target_prices_an_open_dimension_as_the_first_run_has_it(
    dims: dict[str, int] | None, tmp_path: Path
) -> None:
    result = quantised(
        open_batch(256), tmp_path, normal(64, 256), dims=dims, max_loss="90%", target="edge"
    )
    assert result.gain_unit == "predicted seconds saved on edge"
    assert all(point.seconds is not None and point.seconds > 0 for point in result.front)


def test_a_network_that_no_narrow_product_makes_faster_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": normal(32, 64)}, [4, 32], [4, 64]
    )

    def narrow_is_dearer(_: TargetCosts, made: onnx.ModelProto, dims: dict[str, int]) -> float:
        return 1.0 + sum(node.op_type == "QuantizeLinear" for node in made.graph.node)

    monkeypatch.setattr(TargetCosts, "seconds", narrow_is_dearer)
    monkeypatch.setattr(
        TargetCosts, "savings", lambda _, network, own, *rest: dict.fromkeys(own, 1.0)
    )
    with pytest.raises(InputError, match="no product makes the whole network faster on edge"):
        quantised(proto, tmp_path, normal(64, 32), max_loss="90%", target="edge")


def test_a_network_with_control_flow_is_quantised_outside_of_it(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("MatMul", ["a", "v"], ["b"])], "twice", [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])],
    )  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("ReduceSum", ["a"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "none"], ["g"]),
        helper.make_node("If", ["g"], ["y"], then_branch=branch, else_branch=branch),
    ]
    weights = {"w": normal(3, 3), "v": normal(3, 3), "none": np.float32(0).reshape(())}
    result = quantised(model(nodes, weights, [2, 3], [2, 3]), tmp_path)
    assert result.quantised == 1 and result.losses[Loss.RELATIVE] < 0.05
    fed = {"x": normal(2, 3)}
    np.testing.assert_allclose(
        on_cpu(result.file, fed)["y"], peer(result.file, fed)["y"], atol=2e-2
    )


def test_the_library_and_a_shell_show_the_result(tmp_path: Path) -> None:
    path, data = saved("mlp", tmp_path)
    result = autotune.quantize(path, data, tmp_path / "q.onnx")
    assert repr(result).startswith("<quantised mlp: file ")
    assert "relative loss" in repr(result) and "Gemm" in result._repr_html_()


def test_a_missing_network_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.onnx"):
        quantize(tmp_path / "nothing.onnx", tmp_path, tmp_path / "q.onnx")
