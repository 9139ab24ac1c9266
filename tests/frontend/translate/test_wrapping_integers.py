"""Integers that leave their type on the way, or are made of floats: as ONNX says, or refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autotune.errors import InputError, ModelError
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.runtime.execution.io_adapter import IoAdapter
from tests.frontend.onnx_case import imported

FLOAT, INT8, UINT8 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8
INT32, INT64 = TensorProto.INT32, TensorProto.INT64

Arrays = dict[str, np.ndarray]
Steps = Sequence[tuple[str, dict[str, int]]]


def model_of(
    nodes: Sequence[onnx.NodeProto], feeds: Arrays, constants: Arrays | None = None
) -> onnx.ModelProto:
    """Nodes over inputs of these arrays' types; what the last node makes leaves."""
    graph = helper.make_graph(
        list(nodes),
        "whole",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in feeds.items()
        ],
        [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, [])],  # which nobody reads
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def chain(steps: Steps, x: np.ndarray) -> onnx.ModelProto:
    """Operators one after the other; ``Add`` and ``Mul`` take their input twice."""
    nodes, last = [], "x"
    for i, (operator, attrs) in enumerate(steps):
        inputs = [last, last] if operator in ("Add", "Mul") else [last]
        nodes.append(helper.make_node(operator, inputs, [f"t{i}"], **attrs))
        last = f"t{i}"
    return model_of(nodes, {"x": x})


def ran(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    graph = simplify(imported(model)).graph
    adapter = IoAdapter(graph)
    (found,) = adapter.from_float32(evaluate(graph, adapter.to_float32(feeds))).values()
    return found


def assert_as_onnx(model: onnx.ModelProto, feeds: Arrays) -> None:
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    found = ran(model, feeds)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


CASTS = {"narrow then wide": [INT8, FLOAT], "unsigned and back": [UINT8, INT32]}


@pytest.mark.parametrize("kinds", CASTS.values(), ids=CASTS)
def test_a_narrowing_cast_wraps_where_it_leaves_or_is_refused(kinds: list[int]) -> None:
    steps = [("Cast", {"to": kind}) for kind in kinds]
    beyond, within = np.int32([300, -200, 5]), np.int32([30, 20, 5])
    assert_as_onnx(chain(steps, within), {"x": within})
    assert_as_onnx(chain(steps[:1], beyond), {"x": beyond})
    with pytest.raises(InputError, match=r"input 'x' holds -200 to 300.* tensor 't0' may leave"):
        ran(chain(steps, beyond), {"x": beyond})


def test_a_narrowing_cast_is_checked_through_views_and_casts_back() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=INT8),
        helper.make_node("Cast", ["a"], ["b"], to=INT32),
        helper.make_node("Flatten", ["b"], ["c"]),
    ]
    x = np.int32([[[30, 20], [5, 0]]])
    assert_as_onnx(model_of(nodes, {"x": x}), {"x": x})
    with pytest.raises(InputError, match="tensor 'a' may leave -128 to 127"):
        ran(model_of(nodes, {"x": x * 10}), {"x": x * 10})


@pytest.mark.parametrize("operator", ["Neg", "Abs"])
def test_the_smallest_integer_has_no_opposite(operator: str) -> None:
    steps = [(operator, {}), ("Cast", {"to": FLOAT})]
    smallest, next_to_it = np.int8([-128, 5]), np.int8([-127, 5])
    assert_as_onnx(chain(steps, next_to_it), {"x": next_to_it})
    assert_as_onnx(chain(steps[:1], smallest), {"x": smallest})
    with pytest.raises(InputError, match="tensor 't0' may leave -128 to 127"):
        ran(chain(steps, smallest), {"x": smallest})


def test_integers_made_of_floats_are_refused_where_their_product_is_not_exact() -> None:
    steps = [("Cast", {"to": INT64}), ("Mul", {})]
    exact, beyond = np.float32([4096, 2]), np.float32([4097, 2])
    assert_as_onnx(chain(steps, exact), {"x": exact})
    with pytest.raises(InputError, match=r"'x' holds 2 to 4097.*feed smaller numbers"):
        ran(chain(steps, beyond), {"x": beyond})


def test_an_integer_input_beside_a_float_is_no_reason_to_refuse() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=INT64),
        helper.make_node("Mul", ["y", "w"], ["z"]),
    ]
    feeds = {"x": np.float32([409.7, 2]), "w": np.int64([4097, -2])}
    assert_as_onnx(model_of(nodes, feeds), feeds)
    feeds["x"] *= 10
    with pytest.raises(InputError, match=r"input 'x' holds|input 'w' holds"):
        ran(model_of(nodes, feeds), feeds)


def test_integers_made_of_float64_are_refused_where_float32_has_rounded_them() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE),
        helper.make_node("Mul", ["a", "k"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=INT64),
    ]
    constants = {"k": np.float64([1001])}
    exact, beyond = np.int64([16760, -3]), np.int64([16777, -3])
    assert_as_onnx(model_of(nodes, {"x": exact}, constants), {"x": exact})
    with pytest.raises(InputError, match=r"input 'x' holds -3 to 16777.* tensor 'b' may leave"):
        ran(model_of(nodes, {"x": beyond}, constants), {"x": beyond})


@pytest.mark.parametrize("operator", ["ReduceSum", "Einsum"])
def test_what_makes_float64_by_several_operators_is_seen_too(operator: str) -> None:
    attrs = {"equation": "ab->a"} if operator == "Einsum" else {"keepdims": 0}
    nodes = [
        helper.make_node(operator, ["x"], ["s"], **attrs),
        helper.make_node("Transpose", ["s"], ["t"]),
        helper.make_node("Cast", ["t"], ["y"], to=INT64),
    ]
    exact, beyond = np.float64([[2**22, 3.0]]), np.float64([[2**24, 1.0]])
    assert_as_onnx(model_of(nodes, {"x": exact}), {"x": exact})
    with pytest.raises(InputError, match="input 'x' holds 1 to 16777216"):
        ran(model_of(nodes, {"x": beyond}), {"x": beyond})


def test_float64_that_is_cast_without_arithmetic_is_as_onnx_says_or_refused() -> None:
    steps = [("Cast", {"to": INT64})]
    x = np.float64([2**24 - 1, -7.9, 0.1])
    assert_as_onnx(chain(steps, x), {"x": x})
    with pytest.raises(InputError, match="input 'x' holds"):
        ran(chain(steps, x), {"x": x + 2})
    halved = [
        helper.make_node("Div", ["x", "h"], ["q"]),
        helper.make_node("Cast", ["q"], ["y"], to=INT64),
    ]
    small = np.float64([2**20, -7.9, 0.1])
    assert_as_onnx(model_of(halved, {"x": small}, {"h": np.float64(0.5)}), {"x": small})


@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_a_large_integer_made_of_a_float_is_not_divided(operator: str) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=INT64),
        helper.make_node(operator, ["y", "w"], ["z"]),
    ]
    feeds = {"x": np.float32([2**30, 9]), "w": np.int64([3, 7])}
    with pytest.raises(InputError, match="tensor 'y' may leave -16777216 to 16777216"):
        ran(model_of(nodes, feeds), feeds)


def test_whole_numbers_on_the_way_from_floats_may_be_anything() -> None:
    """No integer is added or multiplied here: an infinity among the floats refuses nothing."""
    x = np.float32([[1, -np.inf, 2], [np.inf, 4, 0]])
    nodes = [helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)]
    assert_as_onnx(model_of(nodes, {"x": x}), {"x": x})


UNSIGNED = {
    "quotient": ("Div", np.uint8([7, 250]), np.uint8([2, 3])),
    "remainder": ("Mod", np.uint8([7, 250]), np.uint8([255, 3])),
    "signed remainder": ("Mod", np.int8([7, -128]), np.int8([-128, 3])),
}


@pytest.mark.parametrize("case", UNSIGNED.values(), ids=UNSIGNED)
def test_quotients_and_remainders_stay_in_their_type(
    case: tuple[str, np.ndarray, np.ndarray],
) -> None:
    operator, x, y = case
    nodes = [
        helper.make_node(operator, ["x", "y"], ["q"]),
        helper.make_node("Cast", ["q"], ["z"], to=FLOAT),
    ]
    assert_as_onnx(model_of(nodes, {"x": x, "y": y}), {"x": x, "y": y})


def test_a_choice_between_integers_stays_in_their_type() -> None:
    nodes = [
        helper.make_node("Where", ["c", "x", "y"], ["w"]),
        helper.make_node("Cast", ["w"], ["z"], to=FLOAT),
    ]
    feeds = {"c": np.array([True, False]), "x": np.int8([127, 1]), "y": np.int8([1, -128])}
    assert_as_onnx(model_of(nodes, feeds), feeds)


BEYOND = np.int64(2**24 + 1)
NUMBERS: dict[str, tuple[onnx.NodeProto, Arrays]] = {
    "padding": (helper.make_node("Pad", ["x", "p", "v"], ["y"]), {"p": np.int64([1, 1])}),
    "lower limit": (helper.make_node("Clip", ["x", "v"], ["y"]), {}),
    "upper limit": (helper.make_node("Clip", ["x", "", "v"], ["y"]), {}),
    "slope": (helper.make_node("PRelu", ["x", "v"], ["y"]), {}),
}


@pytest.mark.parametrize("case", NUMBERS.values(), ids=NUMBERS)
def test_a_constant_that_float32_does_not_hold_is_refused(
    case: tuple[onnx.NodeProto, Arrays],
) -> None:
    node, constants = case
    feeds = {"x": np.int64([-3, 2])}
    assert_as_onnx(model_of([node], feeds, {**constants, "v": np.int64(1)}), feeds)
    with pytest.raises(ModelError, match="reads 'v', which holds 16777217"):
        ran(model_of([node], feeds, {**constants, "v": BEYOND}), feeds)


def test_values_of_a_one_hot_that_float32_does_not_hold_are_refused() -> None:
    node = helper.make_node("OneHot", ["x", "d", "v"], ["y"])
    feeds, depth = {"x": np.int64([0, 2])}, np.int64(3)
    assert_as_onnx(model_of([node], feeds, {"d": depth, "v": np.int64([-5, 7])}), feeds)
    with pytest.raises(ModelError, match="reads 'v', which holds 16777217"):
        ran(model_of([node], feeds, {"d": depth, "v": np.asarray([0, BEYOND])}), feeds)


def test_the_extremes_of_a_type_clip_nothing() -> None:
    limits = np.iinfo(np.int64)
    feeds = {"x": np.int64([-3, 2])}
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    constants = {"low": np.int64(limits.min), "high": np.int64(limits.max)}
    assert_as_onnx(model_of([node], feeds, constants), feeds)


def test_a_product_with_a_slope_is_exact_or_refused() -> None:
    node = helper.make_node("PRelu", ["x", "v"], ["y"])
    feeds = {"x": np.int64([-4097, 2])}
    with pytest.raises(InputError, match="input 'x' holds -4097 to 2"):
        ran(model_of([node], feeds, {"v": np.int64(4097)}), feeds)


def test_a_quantised_product_has_its_first_scale_per_row_and_its_second_per_column() -> None:
    names = ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"]
    a, b = np.uint8([[1, 2], [3, 4], [5, 6]]), np.uint8([[5, 6], [7, 8]])
    rows, columns, zeros = np.float32([1, 2, 3]), np.float32([0.5, 1]), np.uint8([0, 1, 2])
    values = [a, rows, zeros, b, columns, np.uint8([0, 3]), np.float32(1), np.uint8(4)]
    node = helper.make_node("QLinearMatMul", names, ["y"])
    constants = dict(zip(names[1:], values[1:], strict=True))
    wide = (a.astype(int) - zeros[:, None]) * rows[:, None] @ ((b.astype(int) - [0, 3]) * columns)
    np.testing.assert_array_equal(
        ran(model_of([node], {"a": a}, constants), {"a": a}), np.rint(wide) + 4
    )


def test_integers_among_constants_wrap_or_are_refused_as_others_are() -> None:
    nodes = [
        helper.make_node("BitShift", ["c", "one"], ["d"], direction="LEFT"),
        helper.make_node("Cast", ["d"], ["e"], to=FLOAT),
        helper.make_node("Add", ["x", "e"], ["y"]),
    ]
    feeds = {"x": np.float32([1, 2])}
    constants = {"c": np.uint8([100, 3]), "one": np.uint8([1, 1])}
    assert_as_onnx(model_of(nodes, feeds, constants), feeds)
    constants["c"] = np.uint8([200, 3])
    with pytest.raises(InputError, match=r"may leave 0 to 255.*whatever is fed; use smaller"):
        ran(model_of(nodes, feeds, constants), feeds)


def test_an_integer_that_becomes_a_float_output_does_not_leave_as_the_integer_before() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["p"]),
        helper.make_node("Cast", ["p"], ["f"], to=FLOAT),
        helper.make_node("Add", ["f", "zero"], ["y"]),
    ]
    feeds, constants = {"x": np.int8([11, -3])}, {"zero": np.float32(0)}
    assert_as_onnx(model_of(nodes, feeds, constants), feeds)
    feeds = {"x": np.int8([12, -3])}
    with pytest.raises(InputError, match="tensor 'p' may leave -128 to 127"):
        ran(model_of(nodes, feeds, constants), feeds)


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2"])
def test_floats_beyond_few_bits_keep_the_low_ones_known_at_import_or_not(kind: str) -> None:
    """As ONNX Runtime's do; ml_dtypes, and so ONNX's evaluator, differ between their versions."""
    if not hasattr(TensorProto, kind):
        pytest.skip(f"this onnx has no {kind}")
    cast = [helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, kind))]
    x = np.float32([-300, -17, -9, -3, 0.5, 5, 9.75, 20, 300])
    unit = 2 ** int(kind[-1])
    low = np.trunc(x).astype(np.int64) % unit
    expected = low if kind.startswith("U") else low - unit * (low >= unit // 2)
    run = ran(model_of(cast, {"x": x}), {"x": x})
    cast.append(helper.make_node("Cast", ["y"], ["f"], to=FLOAT))
    zero = {"zero": np.zeros(9, np.float32)}
    cast.append(helper.make_node("Add", ["f", "zero"], ["z"]))
    known = ran(model_of(cast, zero, {"x": x}), zero)
    for found in (run, known):
        np.testing.assert_array_equal(found.astype(np.int64), expected)


def test_an_output_known_at_import_keeps_its_type_or_is_refused() -> None:
    nodes = [helper.make_node("Identity", ["c"], ["k"]), helper.make_node("Relu", ["x"], ["y"])]
    x = np.float32([1, -2])
    model = model_of(nodes, {"x": x}, {"c": np.int64([7, -5])})
    model.graph.output.append(helper.make_tensor_value_info("k", INT64, [2]))
    graph = simplify(imported(model)).graph
    adapter = IoAdapter(graph)
    made = adapter.from_float32(evaluate(graph, adapter.to_float32({"x": x})))
    assert made["k"].dtype == np.int64 and made["k"].tolist() == [7, -5]
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.int64([2**24 + 1]), "c"))
    with pytest.raises(ModelError, match="the network gives 'k', which holds 16777217"):
        imported(model)


STEPS = [("Cast", {"to": kind}) for kind in (INT8, UINT8, INT32, INT64, FLOAT)]
STEPS += [("Neg", {}), ("Abs", {}), ("Add", {}), ("Mul", {})]


@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=5),
    st.lists(st.integers(-300, 300), min_size=2, max_size=2),
    st.sampled_from([np.float32, np.int8, np.int32, np.int64]),
)
def test_chains_of_integer_operators_are_as_onnx_or_refused(
    steps: list[tuple[str, dict[str, int]]], values: list[int], kind: type
) -> None:
    x = np.asarray(values).astype(kind)
    model = chain(_defined(steps, x), x)
    try:
        found = ran(model, {"x": x})
    except InputError:
        return
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(found, wanted)


def _defined(steps: Steps, x: np.ndarray) -> list[tuple[str, dict[str, int]]]:
    """Without what ONNX has not: unsigned negation, and a cast of a float beyond the integer."""
    kept: list[tuple[str, dict[str, int]]] = []
    for operator, attrs in steps:
        (now,) = ReferenceEvaluator(chain([*kept, ("Identity", {})], x)).run(None, {"x": x})
        if operator == "Neg" and now.dtype.kind == "u":
            continue
        if operator == "Cast" and now.dtype.kind == "f" and attrs["to"] != FLOAT:
            limits = np.iinfo(helper.tensor_dtype_to_np_dtype(attrs["to"]))
            if now.min() < limits.min or now.max() > limits.max:
                continue
        kept.append((operator, attrs))
    return kept or [("Identity", {})]
