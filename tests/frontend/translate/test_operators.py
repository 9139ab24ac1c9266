"""Every ONNX operator of the table means what ONNX's reference evaluator says it means."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.frontend.importing import constant_operators, supported_operators
from autotune.graph.evaluation import evaluate
from autotune.operators.op import OpKind
from tests.frontend.onnx_case import assert_same, imported, single
from tests.frontend.translate.family_cases import FAMILY_CASES
from tests.frontend.translate.moving_cases import MOVING


def normal(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(abs(hash(shape)) % 2**32)
    return rng.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(normal(*shape)) + np.float32(0.1)


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def f32(value: float) -> np.ndarray:
    return np.asarray(value, dtype=np.float32)


X4 = normal(2, 4, 7, 9)
SQUARE = normal(5, 5, 3, 2)
"""As many images as channels: onnx 1.23's LRN takes the extent of the one for the other's."""
SIGNED = np.float32(
    [-np.inf, -8.5, -2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.0, np.inf, np.nan]
)
UNIT = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
WHOLE = np.float32([[-7, -3, 0, 4, 5, 8], [3, 3, 4, -4, -3, 2]])
"""Dividends, and divisors."""
TRUTH = np.float32([[0, 0, 1, 1], [0, 1, 0, 1]])
TIES = np.float32([[1, 3, 3, 2], [5, 5, 1, 5], [0, 0, 0, 0]])
"""Whose extremes come more than once."""
NORM = [positive(4), normal(4), normal(4), positive(4)]

NORMS = ("L1", "L2", "SumSquare", "LogSumExp")
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")

# operator, inputs, opset, constant positions, attributes
CASES = [
    ("Relu", [X4], 9, (), {}),
    ("LeakyRelu", [X4], 9, (), {}),
    ("LeakyRelu", [X4], 16, (), {"alpha": 0.2}),
    ("Sigmoid", [X4], 9, (), {}),
    ("Tanh", [X4], 13, (), {}),
    ("Erf", [X4], 9, (), {}),
    ("Exp", [X4], 13, (), {}),
    ("Log", [positive(3, 4)], 13, (), {}),
    ("Sqrt", [positive(3, 4)], 13, (), {}),
    ("Reciprocal", [positive(3, 4)], 13, (), {}),
    ("Neg", [X4], 13, (), {}),
    ("Abs", [X4], 13, (), {}),
    ("Gelu", [X4], 20, (), {}),
    ("Gelu", [X4], 20, (), {"approximate": "tanh"}),
    *((f, [SIGNED], 13, (), {}) for f in ("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf")),
    *((f, [3 * X4], 22, (), {}) for f in ("Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh")),
    *((f, [UNIT], 22, (), {}) for f in ("Tan", "Asin", "Acos")),
    ("Atanh", [0.9 * UNIT], 9, (), {}),
    ("Acosh", [1 + positive(3, 4)], 9, (), {}),
    ("IsInf", [SIGNED], 10, (), {"detect_negative": 0}),
    ("IsInf", [SIGNED], 20, (), {"detect_positive": 0}),
    ("IsInf", [SIGNED], 20, (), {"detect_positive": 0, "detect_negative": 0}),
    ("Elu", [X4], 9, (), {}),
    ("Elu", [X4], 22, (), {"alpha": 0.3}),
    ("Selu", [X4], 9, (), {}),
    ("Selu", [X4], 22, (), {"alpha": 2.0, "gamma": 3.0}),
    ("Celu", [X4], 12, (), {}),
    ("Celu", [X4], 12, (), {"alpha": 0.4}),
    ("Softplus", [9 * X4], 9, (), {}),
    ("Softsign", [X4], 9, (), {}),
    ("ThresholdedRelu", [X4], 10, (), {}),
    ("ThresholdedRelu", [X4], 22, (), {"alpha": -0.5}),
    ("Shrink", [X4], 9, (), {}),
    ("Shrink", [X4], 9, (), {"lambd": 0.7, "bias": 0.25}),
    ("Mish", [3 * X4], 18, (), {}),
    ("Swish", [X4], 24, (), {"alpha": 0.7}),
    ("PRelu", [X4, normal(4, 1, 1)], 9, (1,), {}),
    ("PRelu", [X4, normal(4, 1, 1)], 16, (), {}),
    ("PRelu", [X4, f32(0.3)], 16, (1,), {}),
    ("HardSigmoid", [X4], 9, (), {}),
    ("HardSigmoid", [X4], 22, (), {"alpha": 0.3, "beta": 0.4}),
    ("HardSwish", [X4], 14, (), {}),
    ("Clip", [X4], 9, (), {"min": -0.5, "max": 0.25}),
    ("Clip", [X4], 9, (), {"max": 0.25}),
    ("Clip", [X4, f32(-0.5), f32(0.25)], 11, (1, 2), {}),
    ("Clip", [X4, None, f32(0.25)], 13, (2,), {}),
    ("Clip", [X4, f32(0.1)], 13, (1,), {}),
    ("Clip", [X4, f32(-0.1), f32(0.25)], 13, (2,), {}),
    ("Clip", [X4, f32(-0.1), f32(0.25)], 13, (), {}),
    ("Add", [X4, normal(4, 1, 1)], 9, (), {}),
    ("Sub", [normal(4, 1, 1), X4], 13, (0,), {}),
    ("Mul", [X4, normal(9)], 14, (1,), {}),
    ("Div", [X4, positive(2, 1, 7, 1)], 9, (), {}),
    ("Pow", [positive(3, 4), normal(4)], 12, (), {}),
    ("Pow", [X4, f32(2.0)], 13, (1,), {}),
    ("Pow", [positive(3, 4), f32(0.5)], 9, (1,), {}),
    ("Pow", [positive(3, 4), f32(-1.0)], 13, (1,), {}),
    ("Pow", [X4, f32(1.0)], 13, (1,), {}),
    ("Pow", [X4, ints(3)], 13, (1,), {}),
    ("Mod", [WHOLE[0], WHOLE[1]], 10, (), {"fmod": 1}),
    ("Mod", [X4, normal(9)], 13, (), {"fmod": 1}),
    *((f, [np.round(X4), np.round(normal(9))], 16, (), {}) for f in COMPARISONS),
    *((f, [SIGNED, SIGNED[::-1].copy()], 16, (), {}) for f in COMPARISONS),
    ("Sum", [X4, normal(4, 1, 1), normal(9)], 9, (1,), {}),
    ("Sum", [X4], 13, (), {}),
    ("Max", [X4, normal(9), normal(2, 1, 1, 1)], 9, (), {}),
    ("Min", [X4, normal(9)], 13, (1,), {}),
    ("Mean", [X4, normal(9), normal(2, 1, 1, 1)], 9, (), {}),
    ("MatMul", [normal(3, 4), normal(4, 5)], 9, (1,), {}),
    ("MatMul", [normal(2, 1, 3, 4), normal(6, 4, 5)], 13, (), {}),
    ("MatMul", [normal(4), normal(6, 4, 5)], 13, (), {}),
    ("MatMul", [normal(6, 3, 4), normal(4)], 13, (1,), {}),
    ("MatMul", [normal(4), normal(4)], 13, (), {}),
    ("Gemm", [normal(3, 4), normal(4, 5)], 11, (1,), {}),
    ("Gemm", [normal(3, 4), normal(4, 5), normal(5)], 9, (1, 2), {"alpha": 0.5, "beta": 2.0}),
    ("Gemm", [normal(4, 3), normal(5, 4), normal(3, 1)], 13, (), {"transA": 1, "transB": 1, "alpha": 3.0, "beta": 0.5}),
    ("Gemm", [normal(3, 4), normal(4, 5), f32(2.0)], 13, (2,), {"beta": 0.0}),
    ("BatchNormalization", [X4, *NORM], 14, (1, 2, 3, 4), {"epsilon": 1e-3}),
    ("BatchNormalization", [normal(2, 4), *NORM], 15, (1, 2, 3, 4), {}),
    ("Softmax", [X4], 11, (), {"axis": -1}),
    ("Softmax", [X4], 13, (), {}),
    ("Softmax", [X4], 13, (), {"axis": 1}),
    ("LayerNormalization", [normal(2, 3, 8), normal(8), normal(8)], 17, (1, 2), {}),
    ("LayerNormalization", [normal(2, 3, 8), normal(3, 8)], 17, (), {"axis": 1, "epsilon": 1e-2}),
    ("LayerNormalization", [normal(2, 3, 8), normal(8), normal(1)], 17, (1, 2), {"axis": -2}),
    ("ReduceMean", [X4], 9, (), {"axes": [2, 3]}),
    ("ReduceMean", [X4], 11, (), {"axes": [-1], "keepdims": 0}),
    ("ReduceMean", [X4, ints(1)], 18, (1,), {}),
    ("ReduceMean", [X4], 13, (), {}),
    ("ReduceSum", [X4], 11, (), {"axes": [1], "keepdims": 0}),
    ("ReduceSum", [X4, ints(-1, 0)], 13, (1,), {"keepdims": 0}),
    ("ReduceSum", [X4], 13, (), {"noop_with_empty_axes": 1}),
    *((f"Reduce{name}", [X4], 18, (), {"noop_with_empty_axes": 1})
      for name in ("L1", "L2", "SumSquare", "LogSumExp")),
    ("ReduceLogSum", [np.abs(X4)], 18, (), {"noop_with_empty_axes": 1}),
    ("OneHot", [np.int64([0, -1, 1]), np.int64(3), f32([-2.5, 7])], 11, (1,), {}),
    ("ReduceSum", [X4], 13, (), {"keepdims": 0}),
    ("ReduceMax", [X4], 9, (), {"axes": [1, 2]}),
    ("ReduceMax", [X4, ints(2)], 18, (1,), {"keepdims": 0}),
    ("ReduceMin", [X4], 9, (), {"axes": [1, 2]}),
    ("ReduceMin", [X4, ints(2)], 18, (1,), {"keepdims": 0}),
    ("ReduceProd", [UNIT, ints(1)], 18, (1,), {"keepdims": 0}),
    ("ReduceProd", [X4], 11, (), {"axes": [0]}),
    *((f"Reduce{f}", [X4], 11, (), {"axes": [1, 3]}) for f in NORMS),
    *((f"Reduce{f}", [X4, ints(-1)], 18, (1,), {"keepdims": 0}) for f in NORMS),
    ("ReduceLogSum", [positive(3, 4, 5)], 13, (), {"axes": [1]}),
    ("ReduceLogSum", [positive(3, 4, 5), ints(0, 2)], 18, (1,), {"keepdims": 0}),
    ("ReduceLogSumExp", [100 * X4, ints(1)], 18, (1,), {}),
    *((f"Arg{f}", [TIES], 13, (), {"axis": axis}) for f in ("Max", "Min") for axis in (0, -1)),
    ("ArgMax", [TIES], 13, (), {"axis": 1, "keepdims": 0, "select_last_index": 1}),
    ("ArgMin", [TIES], 12, (), {"keepdims": 0, "select_last_index": 1}),
    ("ArgMax", [X4], 11, (), {"axis": 2}),
    ("Concat", [X4, normal(2, 3, 7, 9)], 9, (1,), {"axis": 1}),
    ("Concat", [X4, X4, X4], 13, (), {"axis": -1}),
    ("Concat", [X4], 13, (), {"axis": 0}),
    ("Reshape", [X4, ints(2, -1, 9)], 9, (1,), {}),
    ("Reshape", [X4, ints(0, -1)], 14, (1,), {}),
    ("Reshape", [X4, ints(2, 4, 7, 9)], 13, (1,), {}),
    ("Flatten", [X4], 9, (), {}),
    ("Flatten", [X4], 13, (), {"axis": -2}),
    ("Flatten", [X4], 13, (), {"axis": 0}),
    ("Transpose", [X4], 9, (), {}),
    ("Transpose", [X4], 13, (), {"perm": [0, 2, 3, 1]}),
    ("Transpose", [X4], 13, (), {"perm": [0, 1, 2, 3]}),
    ("Squeeze", [normal(1, 3, 1, 2)], 9, (), {}),
    ("Squeeze", [normal(1, 3, 1, 2)], 11, (), {"axes": [0]}),
    ("Squeeze", [normal(1, 3, 1, 2), ints(-2)], 13, (1,), {}),
    ("Unsqueeze", [normal(3, 2)], 9, (), {"axes": [0, 3]}),
    ("Unsqueeze", [normal(3, 2), ints(-1, 1)], 13, (1,), {}),
    ("Identity", [X4], 13, (), {}),
    ("Dropout", [X4], 9, (), {"ratio": 0.3}),
    ("Dropout", [X4, f32(0.3)], 13, (1,), {}),
    ("Cast", [X4], 13, (), {"to": 1}),
    ("CastLike", [X4, X4], 15, (), {}),
    ("GlobalAveragePool", [X4], 9, (), {}),
    ("GlobalAveragePool", [normal(2, 3, 5)], 9, (), {}),
    ("GlobalMaxPool", [X4], 9, (), {}),
    ("MaxPool", [X4], 9, (), {"kernel_shape": [3, 2], "strides": [2, 1]}),
    ("MaxPool", [X4], 12, (), {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "dilations": [2, 2]}),
    ("MaxPool", [X4], 12, (), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", [X4], 12, (), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("MaxPool", [X4], 12, (), {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("MaxPool", [X4], 12, (), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "VALID"}),
    ("MaxPool", [normal(2, 3, 9)], 12, (), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ("AveragePool", [X4], 9, (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", [X4], 11, (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", [X4], 11, (), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", [normal(2, 3, 9)], 11, (), {"kernel_shape": [3]}),
    ("LRN", [SQUARE], 9, (), {"size": 3}),
    ("LRN", [SQUARE], 13, (), {"size": 4, "alpha": 0.7, "beta": 0.75, "bias": 0.5}),
    ("LRN", [SQUARE], 13, (), {"size": 1, "alpha": 2.0, "beta": 0.5}),
    ("LRN", [SQUARE], 13, (), {"size": 9, "alpha": 0.3, "beta": 1.0, "bias": 2.0}),
    ("LRN", [SQUARE], 13, (), {"size": 2, "alpha": 0.9, "beta": 0.6}),
    ("Conv", [X4, normal(5, 4, 3, 3)], 9, (1,), {}),
    ("Conv", [X4, normal(6, 2, 3, 2), normal(6)], 11, (1, 2), {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]}),
    ("Conv", [X4, normal(8, 1, 3, 3)], 11, (1,), {"group": 4, "dilations": [2, 3], "kernel_shape": [3, 3]}),
    ("Conv", [X4, normal(5, 4, 3, 3)], 11, (), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", [X4, normal(5, 4, 2, 2)], 11, (), {"auto_pad": "SAME_LOWER"}),
    ("Conv", [X4, normal(5, 4, 2, 2)], 11, (), {"auto_pad": "VALID"}),
    ("Conv", [normal(2, 4, 9), normal(5, 4, 3), normal(5)], 11, (1, 2), {"pads": [1, 1], "strides": [2]}),
    *MOVING,
    *FAMILY_CASES,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c[0]}-{c[2]}" for i, c in enumerate(CASES)])
def test_import_means_what_onnx_means(case: tuple) -> None:
    operator, inputs, opset, constant, attrs = case
    assert_same(*single(operator, inputs, opset, constant, **attrs))


# Where onnx 1.23's evaluator departs from the operator's text, the text is the oracle.


def test_batch_norm_of_opset_9_is_inference_although_the_evaluator_trains() -> None:
    model, feeds = single("BatchNormalization", [X4, *NORM], 9, (1, 2, 3, 4), epsilon=1e-3)
    scale, bias, mean, var = (v.reshape(4, 1, 1) for v in NORM)
    expected = (X4 - mean) / np.sqrt(var + 1e-3) * scale + bias
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 4, 3, 5), 1), ((2, 4, 3, 5), 2), ((2, 5, 1, 1), 1), ((3, 4), 0)]
)
def test_softmax_before_opset_13_sees_a_matrix_split_at_the_axis(
    shape: tuple[int, ...], axis: int
) -> None:
    x = normal(*shape)
    model, feeds = single("Softmax", [x], 11, axis=axis)
    flat = np.exp(x.reshape(math.prod(shape[:axis]), -1))
    expected = (flat / flat.sum(axis=1, keepdims=True)).reshape(shape)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_same_lower_pads_in_front_and_rounds_the_extent_up() -> None:
    model, feeds = single(
        "MaxPool", [X4], 12, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER"
    )
    padded = np.pad(X4, ((0, 0), (0, 0), (1, 0), (1, 0)), constant_values=-np.inf)
    expected = padded.reshape(2, 4, 4, 2, 5, 2).max(axis=(3, 5))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, expected)


def test_lrn_slides_over_every_channel_of_every_image() -> None:
    model, feeds = single("LRN", [X4], 13, size=3, alpha=0.6, bias=0.5)
    squares = np.pad(X4**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, X4 / (0.5 + 0.2 * total) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("operator", ["And", "Or", "Xor"])
def test_connectives_are_those_of_truth_values(operator: str) -> None:
    model, feeds = single(operator, list(TRUTH), 9)
    left, right = TRUTH[0] > 0, TRUTH[1] > 0
    expected = {"And": left & right, "Or": left | right, "Xor": left ^ right}[operator]
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, expected)


def test_not_is_that_of_truth_values() -> None:
    model, feeds = single("Not", [TRUTH[1]], 9)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, 1 - TRUTH[1])


def test_where_takes_no_nan_and_no_infinity_from_the_branch_not_taken() -> None:
    inputs = [
        TRUTH[1],
        np.float32([np.nan, -0.0, np.inf, 0.0]),
        np.float32([-0.0, np.nan, 2, -np.inf]),
    ]
    model, feeds = single("Where", inputs, 16)
    expected = np.where(inputs[0] > 0, inputs[1], inputs[2])
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_constant_condition_may_be_boolean() -> None:
    condition = TRUTH[:1] > 0
    model, feeds = single("Where", [condition, X4[:, :, :, :4], f32(-1.0)], 16, (0, 2))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.where(condition, X4[:, :, :, :4], np.float32(-1)))


def test_mod_has_the_sign_of_the_divisor() -> None:
    model, feeds = single("Mod", [WHOLE[0], WHOLE[1]], 13)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.mod(*WHOLE.astype(np.int64)))


def test_slopes_that_fit_channels_alone_are_theirs() -> None:
    slopes = normal(4)
    model, feeds = single("PRelu", [X4, slopes], 9, (1,))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.where(X4 < 0, X4 * slopes.reshape(4, 1, 1), X4))


@pytest.mark.parametrize(
    ("slopes", "kind"), [(normal(4, 1, 1), OpKind.PRELU), (f32(0.3), OpKind.LEAKY_RELU)]
)
def test_slopes_make_one_operator(slopes: np.ndarray, kind: OpKind) -> None:
    graph = imported(single("PRelu", [X4, slopes], 16, (1,))[0])
    assert [op.kind for op in graph.ops] == [kind]


def test_log_sum_exp_of_infinities_is_no_nan() -> None:
    x = np.float32([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 2.0]])
    model, feeds = single("ReduceLogSumExp", [x, ints(1)], 18, (1,), keepdims=0)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.float32([-np.inf, np.inf, 2.0]))


APART = {
    "And",
    "Or",
    "Xor",
    "Not",
    "Where",
    "BitShift",
    "BitwiseNot",
    "CumSum",
    "RNN",
    "GRU",
    "LSTM",
    "Einsum",
    "DynamicQuantizeLinear",
    "ScatterND",
    "ScatterElements",
    "Scatter",
    "TensorScatter",
    "TopK",
    "CumProd",
    "LpPool",
    "GlobalLpPool",
    "DFT",
    "STFT",
    "LogSoftmax",
    "Compress",
}
"""Operators with tests of their own: above, and in the test modules of integers, recurrence and
compositions."""


def test_every_run_time_operator_of_the_table_has_a_case() -> None:
    assert (
        set(supported_operators()) - set(constant_operators())
        <= {case[0] for case in CASES} | APART
    )


def test_a_one_hot_of_infinities_is_a_choice_between_them() -> None:
    inputs = [np.int64([0, 2]), np.int64(3), np.float32([-np.inf, np.inf])]
    model, feeds = single("OneHot", inputs, 11, (1, 2))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.where(np.eye(3)[[0, 2]], np.inf, -np.inf))


def test_supported_operators_are_sorted_and_hold_the_promised_ones() -> None:
    promised = [
        "Conv",
        "MatMul",
        "Gemm",
        "BatchNormalization",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "Pow",
        "Sum",
        "Relu",
        "LeakyRelu",
        "Clip",
        "Sigmoid",
        "Tanh",
        "Erf",
        "Gelu",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "Softmax",
        "LayerNormalization",
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "Concat",
        "Reshape",
        "Flatten",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Dropout",
        "Identity",
        "Constant",
        "ConstantOfShape",
        "Cast",
        "Shape",
        "Gather",
    ]
    assert set(promised) <= set(supported_operators())
    assert list(supported_operators()) == sorted(supported_operators())
