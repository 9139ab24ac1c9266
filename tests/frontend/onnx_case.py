"""Builds one-node ONNX models and compares their import with ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autotune.frontend.importing import translate
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    elem_type: int = onnx.TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model from its parts; output shapes are not stated (neither evaluator reads them)."""
    graph = helper.make_graph(
        list(nodes),
        "case",
        [helper.make_tensor_value_info(n, elem_type, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, []) for n in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def single(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    opset: int = 17,
    constant: Sequence[int] = (),
    **attrs: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """One node over these arrays; positions in ``constant`` become initializers, None is absent."""
    names = ["" if value is None else f"i{k}" for k, value in enumerate(inputs)]
    arrays = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    fixed = {f"i{k}": arrays[f"i{k}"] for k in constant}
    feeds = {n: v for n, v in arrays.items() if n not in fixed}
    node = helper.make_node(operator, names, ["y"], name="the_node", **attrs)
    model = model_of([node], {n: v.shape for n, v in feeds.items()}, ["y"], fixed, opset)
    for value in model.graph.input:
        kind = helper.np_dtype_to_tensor_dtype(feeds[value.name].dtype)
        value.type.tensor_type.elem_type = kind
    return model, feeds


def imported(model: onnx.ModelProto, dims: Mapping[str, int] | None = None) -> Graph:
    """The graph of a copy of the model (binding dimensions changes it)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return translate(copy, "case", dims or {})


def assert_same(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], rtol: float = 1e-4, atol: float = 1e-5
) -> Graph:
    """Import and evaluate; compare every output with the reference evaluator's."""
    graph = imported(model)
    ours = evaluate(graph, feeds)
    names = [value.name for value in model.graph.output]
    theirs = ReferenceEvaluator(model).run(names, dict(feeds))
    assert list(ours) == names
    for name, expected in zip(names, theirs, strict=True):
        assert ours[name].dtype == np.float32
        assert ours[name].shape == np.shape(expected)
        np.testing.assert_allclose(ours[name], expected, rtol=rtol, atol=atol)
    return graph
