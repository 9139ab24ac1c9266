"""Operators over integers and truth values mean what ONNX's reference evaluator says, and keep types."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from autotune.errors import InputError, ModelError
from autotune.graph.evaluation import evaluate
from autotune.graph.intervals import intervals_of
from autotune.operators.interval import Interval
from autotune.runtime.execution.io_adapter import IoAdapter
from tests.frontend.onnx_case import imported, single

I8, I32, I64, U8, U16 = np.int8, np.int32, np.int64, np.uint8, np.uint16
RNG = np.random.default_rng(11)
SIGNED = RNG.integers(-90, 90, (3, 5))
SMALL = RNG.integers(0, 7, (3, 5))
DIVISORS = np.where(RNG.integers(-9, 9, 5) == 0, 3, RNG.integers(1, 9, 5)) * [1, -1, 1, -1, 1]
TRUTH = RNG.integers(0, 2, (3, 5)) > 0
FLOATS = (4 * RNG.standard_normal((3, 5))).astype(np.float32)

# operator, inputs, opset, attributes
CASES = [
    *(("Div", [SIGNED.astype(t), DIVISORS.astype(t)], 14, {}) for t in (I8, I32, I64)),
    ("Div", [SMALL.astype(U8), np.abs(DIVISORS).astype(U8)], 14, {}),
    *(("Mod", [SIGNED.astype(t), DIVISORS.astype(t)], 13, {}) for t in (I8, I32, I64)),
    ("Mod", [SIGNED, DIVISORS], 13, {"fmod": 1}),
    ("Pow", [SIGNED.astype(I32), np.int32(3)], 13, {}),
    ("Pow", [DIVISORS.astype(I32), SMALL], 13, {}),
    *(("BitShift", [SMALL.astype(t), SMALL[1].astype(t)], 11, {"direction": d})
      for t in (U8, U16) for d in ("LEFT", "RIGHT")),
    ("BitwiseNot", [SIGNED.astype(I8)], 18, {}),
    ("BitwiseNot", [SMALL.astype(U8)], 18, {}),
    *((f, [SIGNED, SIGNED[::-1].copy()], 16, {})
      for f in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")),
    *((f, [TRUTH, TRUTH[1]], 9, {}) for f in ("And", "Or", "Xor")),
    ("Not", [TRUTH], 9, {}),
    ("Where", [TRUTH, SIGNED, SIGNED[1]], 16, {}),
    ("Where", [TRUTH, FLOATS, FLOATS[1]], 16, {}),
    ("Equal", [TRUTH, TRUTH[::-1].copy()], 13, {}),
    ("IsNaN", [FLOATS], 13, {}),
    ("IsInf", [FLOATS], 20, {}),
    ("ArgMax", [SIGNED.astype(I32)], 13, {"axis": 1}),
    ("ArgMin", [FLOATS], 13, {"axis": 0, "keepdims": 0}),
    ("ReduceMin", [SIGNED], 13, {"axes": [1]}),
    ("ReduceProd", [SMALL.astype(I32)], 13, {"axes": [0]}),
    ("ReduceL1", [SIGNED.astype(I32)], 13, {"axes": [1]}),
    ("ReduceSumSquare", [SIGNED], 13, {"axes": [0]}),
    ("Abs", [SIGNED.astype(I8)], 13, {}),
    ("Sign", [SIGNED], 13, {}),
    *(("Cast", [FLOATS], 13, {"to": to}) for to in (onnx.TensorProto.INT32, onnx.TensorProto.BOOL)),
    ("Cast", [SIGNED], 13, {"to": onnx.TensorProto.BOOL}),
    ("Cast", [TRUTH], 13, {"to": onnx.TensorProto.INT64}),
]  # fmt: skip


def typed(case: tuple) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The one-node model with the element types of its inputs."""
    operator, inputs, opset, attrs = case
    model, feeds = single(operator, [np.asarray(x) for x in inputs], opset, (), **attrs)
    for value in model.graph.input:
        kind = helper.np_dtype_to_tensor_dtype(feeds[value.name].dtype)
        value.type.tensor_type.elem_type = kind
    return model, feeds


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_values_and_types_are_those_of_onnx(case: tuple) -> None:
    model, feeds = typed(case)
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    graph = imported(model)
    adapter = IoAdapter(graph)
    (found,) = adapter.from_float32(evaluate(graph, adapter.to_float32(feeds))).values()
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_a_shift_by_fewer_than_none_or_more_than_all_bits_leaves_the_sign(direction: str) -> None:
    x, places = np.array([-8, 5, -1, 7], I8), np.array([-1, 8, 100, -128], I8)
    model, feeds = typed(("BitShift", [x, places], 11, {"direction": direction}))
    graph = imported(model)
    adapter = IoAdapter(graph)
    (found,) = adapter.from_float32(evaluate(graph, adapter.to_float32(feeds))).values()
    np.testing.assert_array_equal(found, [0, 0, 0, 0] if direction == "LEFT" else [-1, 0, -1, 0])


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_sums_are_those_of_numpy(axis: int, reverse: int, exclusive: int) -> None:
    x = RNG.integers(-9, 9, (2, 4, 3)).astype(np.float32)
    model, feeds = single(
        "CumSum", [x, np.asarray(axis)], 14, (1,), reverse=reverse, exclusive=exclusive
    )
    turned = np.flip(x, axis) if reverse else x
    wanted = np.cumsum(turned, axis) - (turned if exclusive else 0)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.flip(wanted, axis) if reverse else wanted)


def test_a_running_sum_keeps_an_infinity_behind_its_place() -> None:
    x = np.float32([1, np.inf, 2])
    model, feeds = single("CumSum", [x, np.asarray(0)], 14, (1,))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, [1, np.inf, np.inf])


def test_division_of_all_neighbours_of_multiples_is_exact() -> None:
    """Where a quotient lies nearest to a whole number: one beside a multiple."""
    y = np.arange(1, 4096, dtype=I64)
    x = (2**24 // y) * y - 1
    model, feeds = typed(("Div", [x, y], 14, {}))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, x // y)


def test_an_input_from_which_a_power_is_not_exact_is_refused_by_name() -> None:
    model, _ = typed(("Pow", [np.full(4, 2, I32), np.full(4, 3, I32)], 13, {}))
    adapter = IoAdapter(imported(model))
    adapter.to_float32({"i0": np.full(4, 2, I32), "i1": np.full(4, 24, I32)})
    with pytest.raises(InputError, match=r"i0|i1"):
        adapter.to_float32({"i0": np.full(4, 3, I32), "i1": np.full(4, 24, I32)})


def test_bitwise_not_of_a_wide_unsigned_type_is_refused() -> None:
    model, _ = typed(("BitwiseNot", [np.arange(4, dtype=np.uint32)], 18, {}))
    with pytest.raises(
        ModelError, match=r"BitwiseNot of uint32 .* use a signed or a narrower type"
    ):
        imported(model)


OF_TWO = ("Pow", "Mod", "Div", "Less", "LessOrEqual")


@pytest.mark.parametrize("operator", OF_TWO)
def test_intervals_hold_every_value_of_small_integers(operator: str) -> None:
    opset = 16
    for low, high in ((1, 4), (-3, 2), (0, 5), (-5, -2)):
        for first, last in ((0, 3), (1, 1), (2, 4)):
            divides = operator in ("Mod", "Div")
            right = np.arange(max(first, 1) if divides else first, last + 1)
            x, y = (v.ravel() for v in np.meshgrid(np.arange(low, high + 1), right))
            model, feeds = typed((operator, [x, y], opset, {}))
            graph = imported(model)
            given = {n: Interval(float(v.min()), float(v.max())) for n, v in feeds.items()}
            known = intervals_of(graph, given)
            values = evaluate(graph, feeds)
            for name, value in values.items():
                assert known[name].within(-1e9, 1e9), "no bound at all"
                assert known[name].low <= value.min() and value.max() <= known[name].high
