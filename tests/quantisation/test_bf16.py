"""Networks written with casts to bfloat16: what other runtimes compute, chosen within a limit, without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from autotune.errors import InputError
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.loss import Loss, loss_of
from autotune.quantisation.observation import opened_model, run_all
from autotune.quantisation.qdq import Scheme, write_qdq
from autotune.quantisation.quantize import quantize
from autotune.quantisation.switched import with_switches
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from tests.networks.test_quantised import TIED, assert_near, feeds, on_cpu, peer
from tests.quantisation.test_precision import quantiser
from tests.quantisation.test_quantize import kinds, made, model, normal, saved

BF16: dict[str, Any] = {"format": "bf16"}
WEIGHTS_ONLY = BF16 | {"weights_only": True}


@pytest.mark.parametrize("options", [BF16, WEIGHTS_ONLY], ids=["both", "weights only"])
@pytest.mark.parametrize(
    "name", ["resnext50", "mobilenet_v2", "unet", "bert_layer", "gpt2_step", "llama_step"]
)
def test_onnx_runtime_computes_what_we_do(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    result, _ = made(name, tmp_path, **options)
    onnx.checker.check_model(onnx.load(result.file), full_check=True)
    assert result.quantised == len(result.products) > 0
    assert {one.type for one in result.products} == {"bf16"}
    if not differs_by_a_tie(result.file):
        assert_near(result.file, on_cpu)


def differs_by_a_tie(path: Path) -> bool:
    """Whether a number that both engines compute alike lies between two of bf16, and each rounds it to another.

    All numbers before the first such one are alike; it is one of few.
    """
    graph = onnx.load(path)
    held = {one.name for one in graph.graph.initializer}
    names = [
        node.input[0]
        for node in graph.graph.node
        if node.op_type == "Cast" and node.attribute[0].i == TensorProto.BFLOAT16
    ]
    names = [
        x for x in dict.fromkeys(names) if x not in {*held, *(i.name for i in graph.graph.input)}
    ]
    known = {one.name for one in graph.graph.output}
    graph.graph.output.extend(onnx.ValueInfoProto(name=x) for x in names if x not in known)
    whole = path.with_name("exposed.onnx")
    onnx.save(onnx.shape_inference.infer_shapes(graph), whole)
    fed = feeds(open_network(path), seed=9)
    got, wanted = on_cpu(whole, fed), peer(whole, fed)
    for name in names:
        if wanted[name].dtype != np.float32:
            continue
        scale = float(np.abs(wanted[name]).max())
        np.testing.assert_allclose(got[name], wanted[name], rtol=0, atol=2e-6 * scale)
        apart = got[name].astype(ml_dtypes.bfloat16) != wanted[name].astype(ml_dtypes.bfloat16)
        if apart.any():
            assert np.mean(apart) <= max(TIED, 1.5 / apart.size), name
            return True
    return False


def test_a_concatenation_rounds_images_that_a_pool_reads_too(tmp_path: Path) -> None:
    """The image across a U-Net: it stays in float32 for the pool, beside the product's bf16."""
    weights = {"w": normal(24, 8, 3, 3), "g": normal(24, 24, 2, 2), "v": normal(32, 48, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ConvTranspose", ["p", "g"], ["t"], strides=[2, 2]),
        helper.make_node("Concat", ["r", "t"], ["j"], axis=1),
        helper.make_node("Conv", ["j", "v"], ["y"]),
    ]
    onnx.save(model(nodes, weights, [1, 8, 16, 16], [1, 32, 16, 16]), tmp_path / "net.onnx")
    quantize(tmp_path / "net.onnx", None, tmp_path / "q.onnx", **BF16)
    fed = {"x": normal(1, 8, 16, 16)}
    wanted = peer(tmp_path / "q.onnx", fed)["y"]
    found = on_cpu(tmp_path / "q.onnx", fed)["y"]
    assert np.abs(found - wanted).max() < 2**-7 * np.abs(wanted).max(), "ties of rounding aside"


@pytest.mark.parametrize("target", ["cpu", "edge", "server", "gemmini-like"])
def test_every_machine_computes_what_onnx_evaluator_and_numpy_do(
    target: str, tmp_path: Path
) -> None:
    weights = {"w": normal(24, 40), "b": normal(40), "v": normal(40, 12)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    path, x = tmp_path / "net.onnx", normal(9, 24)
    onnx.save(model(nodes, weights, [9, 24], [9, 12]), path)
    result = quantize(path, None, tmp_path / "q.onnx", **BF16)
    (by_onnx,) = ReferenceEvaluator(str(result.file)).run(None, {"x": x})
    half = lambda value: value.astype(ml_dtypes.bfloat16).astype(np.float32)  # noqa: E731
    hidden = half(np.maximum(half(x) @ half(weights["w"]) + weights["b"], 0))
    by_numpy = hidden @ half(weights["v"])
    with Session(result.file, target) as session:
        found = session.run({"x": x})["y"]
    exact = np.maximum(x @ weights["w"] + weights["b"], 0) @ weights["v"]
    assert np.abs(by_numpy - exact).max() > 1e-3 * np.abs(exact).max(), "rounding is seen"
    for wanted in (by_onnx, by_numpy):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_weights_take_two_bytes_and_no_data_is_needed(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = tmp_path / "net.onnx"
    onnx.save(model([node], {"w": normal(200, 300)}, [2, 200], [2, 300]), path)
    result = quantize(path, None, tmp_path / "q.onnx", **BF16)
    stored = onnx.load(result.file).graph.initializer
    assert [x.data_type for x in stored] == [TensorProto.BFLOAT16]
    assert 1.9 < result.bytes_before / result.bytes_after < 2
    assert kinds(result.file)["Cast"] == 3 and not result.losses
    alone = quantize(path, None, tmp_path / "w.onnx", **WEIGHTS_ONLY)
    assert kinds(alone.file)["Cast"] == 1


@pytest.mark.parametrize("name", ["mlp", "bert_layer"])
def test_switches_compute_what_the_file_of_the_same_products_does(
    name: str, tmp_path: Path
) -> None:
    plain = quantiser(name, tmp_path)
    half = NarrowFormat.BF16
    scheme = Scheme(formats=(half,))
    names = [p.name for p in plain.network.products]
    switched = with_switches(plain.network, {half: names}, {}, scheme)
    runs = plain.samples.held_out
    with opened_model(plain.network.model, {}) as session:
        wanted = run_all(session, runs)
    with opened_model(switched.model, {}) as session:
        assert loss_of(wanted, switched.outputs(session, {}, runs), Loss.RELATIVE) < 1e-5
        for chosen in (dict.fromkeys(names, half), dict.fromkeys(names[::2], half)):
            with opened_model(write_qdq(plain.network, chosen, {}, scheme), {}) as file:
                exact = run_all(file, runs)
            found = switched.outputs(session, chosen, runs)
            loss = loss_of(wanted, exact, Loss.RELATIVE)
            assert loss > 1e-4 and loss_of(exact, found, Loss.RELATIVE) < 0.6 * loss


def test_no_loss_is_beyond_its_limit_on_inputs_held_out(tmp_path: Path) -> None:
    path, data = saved("resnext50", tmp_path)
    whole = quantize(path, data, tmp_path / "whole.onnx", **BF16)
    int8 = quantize(path, data, tmp_path / "int8.onnx")
    assert 0 < whole.losses[Loss.RELATIVE] < int8.losses[Loss.RELATIVE]
    limit = whole.losses[Loss.RELATIVE] * 0.7
    result = quantize(path, data, tmp_path / "q.onnx", max_loss=limit, target="server", **BF16)
    assert result.losses[Loss.RELATIVE] <= limit
    assert 0 < result.quantised < whole.quantised
    assert {one.type for one in result.products} == {"bf16", "float32"}
    assert result.gain_unit == "predicted seconds saved on server"
    seconds = [one.seconds for one in result.front if one.seconds is not None]
    assert len(seconds) == len(result.front) and seconds[0] < seconds[-1], "bf16 is faster there"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"activations": "uint8"}, "activations uint8 is for int8"),
        ({"per_channel": False}, "per_channel False is for int8"),
        ({"method": "minmax"}, "method minmax is for int8"),
        ({"percentile": 99.0}, "percentile 99.0 is for int8"),
        ({"max_loss": 0.1}, "data is missing"),
    ],
)
def test_settings_of_scales_are_refused(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    path, _ = saved("mlp", tmp_path)
    with pytest.raises(InputError, match=told):
        quantize(path, None, tmp_path / "q.onnx", **BF16, **options)
    assert not (tmp_path / "q.onnx").exists()


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    path, data = saved("mlp", tmp_path)
    with pytest.raises(InputError, match="format is 'fp16'; choose among int8, bf16"):
        quantize(path, data, tmp_path / "q.onnx", format="fp16")
