"""Networks in float16, as ONNX files have them: what is stored in two bytes, and that the numbers are ONNX's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autotune.frontend.importing import translate
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.isa.formats import CACHED_FORMATS, CONVERTED_FORMATS, FLOAT32_ONLY, Format, Formats
from autotune.operators.op import OpKind
from autotune.runtime.session.session import Session

KINDS = {"FP16": TensorProto.FLOAT16, "FP32": TensorProto.FLOAT}


def network(seed: int = 0) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Two products with a bias, an activation and a residual sum, all of float16."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: np.asarray(rng.normal(0, 1, shape), np.float16)  # noqa: E731
    weights = {"w": draw(24, 40), "b": draw(40), "v": draw(40, 24)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["p"]),
        helper.make_node("Add", ["p", "x"], ["y"]),
    ]
    info = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)  # noqa: E731
    made = helper.make_graph(
        nodes,
        "g",
        [info("x", [9, 24])],
        [info("y", [9, 24])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": draw(9, 24), **weights}


def opened(formats: Formats) -> Graph:
    return simplify(translate(network()[0], "g", {}), formats=formats).graph


def by_rule(values: dict[str, np.ndarray]) -> np.ndarray:
    """Sums of fp32; rounded where a product reads and where the network ends."""
    x, w, b, v = (values[name].astype(np.float32) for name in "xwbv")
    hidden = np.maximum(x @ w + b, 0).astype(np.float16).astype(np.float32)
    return (hidden @ v + x).astype(np.float16)


def test_every_tensor_takes_two_bytes_where_transfers_convert() -> None:
    graph = opened(CONVERTED_FORMATS)
    stored = {graph.types[x].storage for x in (*graph.inputs, *graph.outputs)}
    assert stored == {Format.FP16}
    for op in graph.ops:
        if op.kind is OpKind.MATMUL:
            assert [graph.types[x].storage for x in op.inputs] == [Format.FP16] * 2
            assert op.multiplied is Format.FP32
    roundings = [op for op in graph.ops if op.kind is OpKind.FP16]
    assert len(roundings) == 2, (
        "the hidden layer and the result; not between element-wise operators"
    )


def test_weights_alone_take_two_bytes_on_a_machine_with_caches() -> None:
    graph = opened(CACHED_FORMATS)
    narrow = {x for x, kind in graph.types.items() if kind.storage is Format.FP16}
    assert narrow == {op.inputs[1] for op in graph.ops if op.kind is OpKind.MATMUL}
    assert OpKind.FP16 not in {op.kind for op in graph.ops}
    assert {k.storage for k in opened(FLOAT32_ONLY).types.values()} == {Format.FP32}


@pytest.mark.parametrize("formats", [CONVERTED_FORMATS, CACHED_FORMATS, FLOAT32_ONLY])
def test_numbers_are_onnx_evaluators_within_roundings(formats: Formats) -> None:
    model, values = network(3)
    graph = simplify(translate(model, "g", {}), formats=formats).graph
    (got,) = evaluate(graph, {"x": values["x"].astype(np.float32)}).values()
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": values["x"]})
    step = 2.0**-11 * np.abs(wanted).max()
    np.testing.assert_allclose(got, wanted.astype(np.float32), rtol=0, atol=8 * step)


@pytest.mark.parametrize("target", ["edge", "mobile", "server", "gemmini-like", "cpu"])
def test_every_machine_runs_it(target: str, tmp_path: Path) -> None:
    model, values = network(4)
    path = tmp_path / "half.onnx"
    onnx.save(model, path)
    with Session(path, target) as session:
        (got,) = session.run({"x": values["x"]}).values()
    assert got.dtype == np.float16
    wanted = by_rule(values).astype(np.float32)
    step = 2.0**-11 * np.abs(wanted).max()
    np.testing.assert_allclose(got.astype(np.float32), wanted, rtol=0, atol=2 * step)


@pytest.mark.parametrize("kind", ["FP16", "FP32"])
def test_a_cast_rounds_as_onnx_does(kind: str) -> None:
    x = np.array([0, -0.0, 1.0004, 65504, 65519, 65520, -1e6, 2.0**-24, 3e-8, 1e-9, 6.1e-5, np.inf,
                  np.nan], np.float32)  # fmt: skip
    cast = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16)]
    last = helper.make_node("Cast", ["h"], ["y"], to=KINDS[kind])
    made = helper.make_graph(
        [*cast, last]
        if kind == "FP32"
        else [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [len(x)])],
        [helper.make_tensor_value_info("y", KINDS[kind], [len(x)])],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with np.errstate(over="ignore"):
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    (got,) = evaluate(translate(model, "g", {}), {"x": x}).values()
    np.testing.assert_array_equal(got, wanted.astype(np.float32))


def test_constants_behind_a_cast_stay_two_bytes() -> None:
    """A float16 file whose weights are widened by Cast: exporters write it so."""
    w = np.random.default_rng(1).normal(0, 1, (32, 48)).astype(np.float16)
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    made = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 48])],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph = simplify(translate(model, "g", {}), formats=CACHED_FORMATS).graph
    (op,) = (op for op in graph.ops if op.kind is OpKind.MATMUL)
    assert graph.types[op.inputs[1]].storage is Format.FP16
    assert graph.types[op.inputs[0]].storage is Format.FP32


def test_a_normalisation_leaves_weights_of_float16_alone() -> None:
    """Scaled by channel they would be none any more: the scale goes behind the product."""
    rng = np.random.default_rng(7)
    draw = lambda *shape: np.asarray(rng.normal(0, 1, shape), np.float16)  # noqa: E731
    values = {"w": draw(8, 4, 3, 3), "s": draw(8), "b": draw(8), "m": draw(8), "v": np.abs(draw(8))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["h", "s", "b", "m", "v"], ["y"]),
    ]
    made = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 4, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 8, 6, 6])],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = draw(1, 4, 6, 6)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    for formats, stored in ((CONVERTED_FORMATS, Format.FP16), (CACHED_FORMATS, Format.FP32)):
        graph = simplify(translate(model, "g", {}), formats=formats).graph
        (op,) = (op for op in graph.ops if op.kind is OpKind.CONV)
        assert graph.types[op.inputs[1]].storage is stored
        (got,) = evaluate(graph, {"x": x.astype(np.float32)}).values()
        step = 2.0**-11 * np.abs(wanted).max()
        np.testing.assert_allclose(got, wanted.astype(np.float32), rtol=0, atol=8 * step)
