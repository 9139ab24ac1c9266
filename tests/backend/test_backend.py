"""The backend against ONNX's reference evaluator, and ONNX's own suite against the backend."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from autotune import backend
from autotune.backend.conformance import Case, Outcome, cause, counts, run_suite
from autotune.backend.manual import rows_of
from autotune.cli.commands.bench_conformance import refusals
from autotune.cli.main import main
from autotune.errors import InputError, ModelError


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


def typed(
    node: onnx.NodeProto, inputs: dict[str, np.ndarray], opset: int = 18
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A one-node model over arrays of these types."""
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in inputs.items()
    ]
    graph = helper.make_graph([node], "typed", values, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return onnx.shape_inference.infer_shapes(model), inputs


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_integers_of_every_type_are_multiplied_exactly_and_wrap(dtype: type) -> None:
    values = np.asarray([3, 7, 100, 111], dtype)
    model, feeds = typed(helper.make_node("Mul", ["a", "b"], ["y"]), {"a": values, "b": values})
    (made,) = backend.prepare(model).run(feeds)
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, values * values)


def test_integers_beyond_what_float32_holds_are_exact_over_their_type() -> None:
    values = np.asarray([5000], np.int64)
    model, feeds = typed(helper.make_node("Mul", ["a", "b"], ["y"]), {"a": values, "b": values})
    prepared = backend.prepare(model)
    np.testing.assert_array_equal(prepared.run(feeds)[0], [25_000_000])
    large = np.asarray([2**40 + 1], np.int64)
    np.testing.assert_array_equal(prepared.run({"a": large, "b": large})[0], large * large)


def test_half_precision_is_computed_wide_and_rounded_once() -> None:
    x = np.random.default_rng(2).standard_normal((4, 9)).astype(np.float16)
    model, feeds = typed(helper.make_node("Softmax", ["x"], ["y"]), {"x": x})
    (made,) = backend.prepare(model).run(feeds)
    wide = np.exp(x.astype(np.float64))
    wide /= wide.sum(axis=1, keepdims=True)
    assert made.dtype == np.float16
    np.testing.assert_allclose(made, wide, rtol=2**-10)


def test_float64_is_computed_as_float32_and_refused_beyond_its_range() -> None:
    x = np.random.default_rng(2).standard_normal((4, 9))
    model, feeds = typed(helper.make_node("Exp", ["x"], ["y"]), {"x": x})
    prepared = backend.prepare(model)
    (made,) = prepared.run(feeds)
    assert made.dtype == np.float64
    np.testing.assert_allclose(made, np.exp(x), rtol=1e-6)
    with pytest.raises(
        InputError, match="holds 1e\\+39; float64 is computed as float32, which ends"
    ):
        prepared.run({"x": np.full((4, 9), -1e39)})
    (made,) = prepared.run({"x": np.full((4, 9), -np.inf)})
    assert not made.any()


def test_other_shapes_given_at_run_time_make_other_programs_of_one_prepared_model() -> None:
    x = np.arange(12, dtype=np.float32)
    model, _ = typed(
        helper.make_node("Reshape", ["x", "s"], ["y"]), {"x": x, "s": np.asarray([3, 4])}
    )
    prepared = backend.prepare(model)
    for wanted in ([3, 4], [2, 6], [-1, 3], [3, 4]):
        (made,) = prepared.run({"x": x, "s": np.asarray(wanted)})
        np.testing.assert_array_equal(made, x.reshape(wanted))


def test_tiny_floats_are_rounded_where_they_leave_and_not_read_before() -> None:
    x = np.float32([0.3, 1000.0, -0.01])
    narrow = helper.make_node("Cast", ["x"], ["n"], to=onnx.TensorProto.FLOAT8E4M3FN)
    wide = helper.make_node("Cast", ["n"], ["y"], to=onnx.TensorProto.FLOAT)
    graph = helper.make_graph(
        [narrow, wide],
        "squeezed",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    with pytest.raises(ModelError, match="rounded to only where it leaves"):
        backend.prepare(model)
    (made,) = backend.run_node(narrow, [x])
    assert made.astype(np.float32).tolist() == [0.3125, 448.0, -0.009765625]


def opened(operator: str, shape: list[int | str]) -> onnx.ModelProto:
    """One operator over an input of this shape."""
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])],
        "opened",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("shape", [["n", 4], [3, 4]])
def test_an_unknown_operator_is_incompatible_whether_dimensions_are_open_or_not(
    shape: list[int | str],
) -> None:
    assert not backend.is_compatible(opened("StringSplit", shape))
    with pytest.raises(ModelError, match="operator StringSplit is not supported"):
        backend.prepare(opened("StringSplit", shape))
    assert backend.is_compatible(opened("Relu", shape))
    assert backend.is_compatible(opened("MeanVarianceNormalization", [*shape, 2, 2])), "a function"


def test_options_devices_and_inputs_that_there_are_none_of_are_refused_by_name() -> None:
    model, x = opened("Relu", [3]), np.ones(3, np.float32)
    with pytest.raises(InputError, match=r"no option 'targt'; known are \['target'\]"):
        backend.prepare(model, targt="server")
    with pytest.raises(InputError, match="device 'CUDA' is not supported"):
        backend.prepare(model, "CUDA")
    assert not backend.is_compatible(model, "CUDA")
    with pytest.raises(InputError, match="no option 'fast'"):
        backend.prepare(model).run(x, fast=True)
    with pytest.raises(InputError, match="no input 'typo'"):
        backend.prepare(model).run({"x": x, "typo": x})


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (np.float32([2.7, 3.2]), "'s' is float32, expected int64"),
        (np.int64([4, 2, 3]), r"'s' has shape \[3\], expected \[2\]"),
    ],
)
def test_an_input_whose_value_decides_shapes_is_checked_as_others_are(
    shape: np.ndarray, message: str
) -> None:
    feeds = {"x": np.ones((1, 3), np.float32), "s": np.int64([2, 3])}
    model, _ = typed(helper.make_node("Expand", ["x", "s"], ["y"]), feeds)
    prepared = backend.prepare(model)
    assert prepared.run(feeds)[0].shape == (2, 3)
    with pytest.raises(InputError, match=message):
        prepared.run({**feeds, "s": shape})


def test_data_of_an_open_dimension_decides_no_shape() -> None:
    """As many elements as are fed count, not those of the declared extents alone."""
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=onnx.TensorProto.INT64),
        helper.make_node("Expand", ["w", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "large",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["k", "l"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    w = np.ones(1, np.float32)
    (made,) = backend.prepare(model).run({"x": np.float32([2, 3]), "w": w})
    assert made.shape == (2, 3)
    with pytest.raises(ModelError, match="only known at run time"):
        backend.prepare(model).run({"x": np.ones(5000, np.float32), "w": w})


LABELS = ("unnamed node #12: ", "node 'conv1': ", "node 'a; b' (in what Gelu or Mish stands for): ")


@pytest.mark.parametrize("label", LABELS)
def test_the_cause_of_a_refusal_is_the_same_whatever_node_it_names(label: str) -> None:
    reason = f"{label}Pad mode 'x' is\n not known; use | another"
    assert cause(reason) == "Pad mode 'x' is not known"


def test_page_and_command_count_refusals_of_one_cause_together() -> None:
    cases = [
        Case(f"c{i}", "node", Outcome.REFUSED, ("Pad",), f"{label}Pad to {i} axes; use fewer")
        for i, label in enumerate(LABELS)
    ]
    assert refusals(cases) == [("Pad to # axes", "3")]
    assert rows_of(cases)[0].reason == "Pad to 0 axes"
