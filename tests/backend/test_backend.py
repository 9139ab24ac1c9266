"""The backend against ONNX's reference evaluator, and ONNX's own suite against the backend."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from autotune import backend
from autotune.backend.conformance import Outcome, counts, run_suite
from autotune.cli.main import main
from autotune.errors import InputError


def two_layers() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((5, 7)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "layers",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 5])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 7])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_prepared_model_agrees_with_onnx_reference_however_inputs_are_given() -> None:
    model = two_layers()
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    prepared = backend.prepare(model)
    for given in ([x], (x,), {"x": x}, x):
        (made,) = prepared.run(given)
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)


def test_preparing_leaves_the_callers_model_alone() -> None:
    model = two_layers()
    before = model.SerializeToString()
    backend.prepare(model)
    assert model.SerializeToString() == before


def test_one_node_runs_by_itself() -> None:
    node = helper.make_node("Sub", ["a", "b"], ["c"])
    a, b = np.float32([1, 2, 3]), np.float32([3, 5, 8])
    (c,) = backend.run_node(node, [a, b])
    np.testing.assert_array_equal(c, a - b)


def test_too_many_inputs_are_refused() -> None:
    x = np.zeros((3, 5), np.float32)
    with pytest.raises(InputError, match="2 inputs given"):
        backend.prepare(two_layers()).run([x, x])


def test_command_counts_passed_refused_and_failed(capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "^test_(relu|string_concat|add)_cpu$"
    with pytest.raises(SystemExit) as exit_code:
        main(["bench", "conformance", "--json", "--jobs", "1", "--filter", pattern])
    told = json.loads(capsys.readouterr().out)
    assert exit_code.value.code == 0
    assert (told["passed"], told["refused"], told["failed"]) == (2, 1, 0)


def test_wrong_numbers_count_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = backend.Prepared.run
    monkeypatch.setattr(
        backend.Prepared, "run", lambda self, inputs: [x + 1 for x in run(self, inputs)]
    )
    cases = run_suite("^test_relu_cpu$")
    assert counts(cases) == {"passed": 0, "refused": 0, "failed": 1}
    assert cases[0].outcome is Outcome.FAILED
