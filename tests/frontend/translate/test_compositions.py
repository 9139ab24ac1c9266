"""Einsum, scatters, TopK, transforms and products along an axis: compositions that mean what ONNX says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from autotune.errors import ModelError
from autotune.graph.evaluation import evaluate
from autotune.graph.intervals import licence
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind
from autotune.operators.tensor import EXACT_LIMIT
from tests.frontend.onnx_case import assert_same, imported, single
from tests.frontend.translate.moving_cases import ints, normal

QUICK = settings(max_examples=30, deadline=None)
A = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1}
"""Extents of the letters of the equations."""

EQUATIONS = [
    "ab,bc->ac",
    "ab,cb->ac",
    "ba,bc->ac",
    "ab,ab->ab",
    "ab,ab->",
    "a,b->ba",
    "abc->cb",
    "abcd,abed->abce",
    "abcd,abde->cabe",
    "aab,bc->ca",
    "aaa->a",
    "ab,bc,cd->ad",
    "abc,ad",
    "ab , b -> a",
    "a...b,b...c->...ac",
    "...ab->...ba",
    "bAa,Aa->Ab",
]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_agrees_with_numpy(equation: str) -> None:
    inputs = equation.replace(" ", "").partition("->")[0].split(",")
    shapes = [[A.get(x.lower(), 2) for x in term.replace("...", "cd")] for term in inputs]
    values = [normal(*shape) for shape in shapes]
    model, feeds = single("Einsum", values, 12, equation=equation)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, np.einsum(equation, *values), rtol=1e-4, atol=1e-5)


def test_scores_of_attention_are_one_product_without_transposes() -> None:
    values = [normal(2, 3, 4, 5), normal(2, 3, 6, 5)]
    graph = imported(single("Einsum", values, 12, equation="bhqd,bhkd->bhqk")[0])
    kinds = {op.kind for op in graph.ops}
    assert OpKind.MATMUL in kinds
    assert OpKind.TRANSPOSE not in kinds


@pytest.mark.parametrize(
    ("equation", "words"),
    [("ab,bc,->ac", "does not read"), ("ab->abc", "does not read|no such result"),
     ("abc->a", "does not fit rank 2"), ("a->a", "does not fit rank 2")],
)  # fmt: skip
def test_an_equation_that_does_not_fit_is_refused(equation: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        imported(single("Einsum", [normal(2, 3)], 12, equation=equation)[0])


REDUCTIONS = ["none", "add", "mul", "max", "min"]


@QUICK
@given(
    rows=st.lists(st.integers(-5, 4), min_size=1, max_size=7),
    reduction=st.sampled_from(REDUCTIONS),
    known=st.booleans(),
)
def test_scattered_rows_agree_however_often_they_are_written(rows, reduction, known) -> None:
    if reduction == "none":  # ONNX leaves open which of several counts; here the last
        rows = list(dict.fromkeys(row % 5 for row in rows))
    known = known or reduction not in ("none", "add")
    inputs = [normal(5, 3), ints(*rows).reshape(-1, 1), normal(len(rows), 3)]
    model, feeds = single("ScatterND", inputs, 18, (1,) if known else (), reduction=reduction)
    expected = inputs[0].copy()
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for row, update in zip(rows, inputs[2], strict=True):
        expected[row] = (
            update if reduction == "none" else function[reduction](expected[row], update)
        )
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("constant", [(1,), ()])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scattered_elements_agree_along_any_axis(axis: int, constant: tuple[int, ...]) -> None:
    places = np.argsort(normal(2, 3, 4), axis=axis)
    inputs = [normal(3, 3, 5), places, normal(2, 3, 4)]
    assert_same(*single("ScatterElements", inputs, 18, constant, axis=axis))


@pytest.mark.parametrize("constant", [(1,), ()])
def test_scattered_blocks_agree(constant: tuple[int, ...]) -> None:
    places = ints(0, 1, 1, -1, 2, 0).reshape(3, 2)
    assert_same(*single("ScatterND", [normal(3, 4, 5), places, normal(3, 5)], 18, constant))


@pytest.mark.parametrize("constant", [(1,), ()])
def test_infinities_are_added_to_the_rows_that_they_are_for(constant: tuple[int, ...]) -> None:
    updates = np.float32([[np.inf, 1, np.inf], [-np.inf, 2, 3], [np.nan, -np.inf, 5], [7, 8, 9]])
    rows = ints(0, 1, 3, 0).reshape(-1, 1)
    inputs = [normal(5, 3), rows, updates]
    assert_same(*single("ScatterND", inputs, 18, constant, reduction="add"))
    both = [normal(5, 3), ints(2, 2, 2, 4).reshape(-1, 1), updates]
    assert_same(*single("ScatterND", both, 18, constant, reduction="add"))


@pytest.mark.parametrize("constant", [(1,), ()])
def test_indices_of_more_than_the_data_off_the_axis_are_refused(constant: tuple[int, ...]) -> None:
    inputs = [normal(2, 3), np.zeros((1, 4), np.int64), normal(1, 4)]
    with pytest.raises(ModelError, match=r"\[1, 4\] at \[1, 4\] into \[2, 3\]; they do not fit"):
        imported(single("ScatterElements", inputs, 18, constant, axis=0)[0])
    longer = [normal(2, 3), ints(1, 0, 1).reshape(3, 1), normal(3, 1)]
    assert_same(*single("ScatterElements", longer, 18, constant, axis=0, reduction="add"))


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_takes_its_updates_from_a_start_per_batch(mode: str) -> None:
    start = ints(1, 4) if mode == "circular" else ints(1, 3)
    inputs = [normal(2, 3, 5, 4), normal(2, 3, 2, 4), start]
    model, feeds = single("TensorScatter", inputs, 24, mode=mode)
    expected = inputs[0].copy()
    for batch, first in enumerate(start):
        for step in range(2):
            expected[batch, :, (first + step) % 5] = inputs[1][batch, :, step]
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, expected)


@QUICK
@given(
    extent=st.integers(1, 30), wanted=st.integers(1, 30), largest=st.integers(0, 1),
    axis=st.integers(-3, 2), seed=st.integers(0, 99), lowest=st.booleans(),
)  # fmt: skip
def test_top_k_agrees_with_ties_and_infinities(extent, wanted, largest, axis, seed, lowest) -> None:
    rng = np.random.default_rng(seed)
    shape = [2, 3, 2]
    shape[axis] = extent
    x = rng.integers(-4, 5, shape).astype(np.float32)
    if lowest:
        x[x < 0] = -np.inf if largest else np.inf
    k = min(wanted, extent)
    model, feeds = single("TopK", [x, ints(k)], 11, (1,), axis=axis, largest=largest)
    model.graph.node[0].output.append("places")
    model.graph.output.append(helper.make_tensor_value_info("places", 7, []))
    order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(k), axis)
    found = evaluate(imported(model), feeds)
    np.testing.assert_array_equal(found["places"], order)
    np.testing.assert_array_equal(found["y"], np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_of_integers_is_proved_exact_up_to_the_limit(largest: int, dtype: type) -> None:
    low, high = max(-EXACT_LIMIT, np.iinfo(dtype).min), min(EXACT_LIMIT, np.iinfo(dtype).max)
    x = np.full((2, 40), low if largest else high, dtype)
    x[0, [3, 30]], x[1, 7] = high - 1, low + 1
    model, feeds = single("TopK", [x, ints(4)], 11, (1,), largest=largest)
    model.graph.node[0].output.append("places")
    model.graph.output.append(helper.make_tensor_value_info("places", 7, []))
    graph = imported(model)
    proved = licence(graph)
    assert proved is not None and proved["i0"] == Interval(low, high)
    signed = x.astype(np.int64)
    order = np.argsort(-signed if largest else signed, axis=1, kind="stable")[:, :4]
    found = evaluate(graph, feeds)
    np.testing.assert_array_equal(found["places"], order)
    np.testing.assert_array_equal(found["y"], np.take_along_axis(x, order, 1))


def test_top_k_of_more_pairs_than_are_compared_is_refused_with_the_limit() -> None:
    model, _ = single("TopK", [np.zeros((1, 9000), np.float32), ints(4000)], 11, (1,))
    model.graph.node[0].output.append("places")
    with pytest.raises(ModelError, match="up to 16777216 pairs are compared: take fewer than 1125"):
        imported(model)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulated_products_agree(axis: int, reverse: int, exclusive: int) -> None:
    x = normal(3, 5, 7)
    model, feeds = single(
        "CumProd", [x, np.asarray(axis)], 26, (1,), reverse=reverse, exclusive=exclusive
    )
    turn = (lambda v: np.flip(v, axis)) if reverse else (lambda v: v)
    expected = np.cumprod(turn(x), axis)
    if exclusive:
        first = np.ones_like(expected.take([0], axis))
        rest = expected.take(range(x.shape[axis] - 1), axis)
        expected = np.concatenate([first, rest], axis)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, turn(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((2, 3, 9), {"kernel_shape": [4], "strides": [3], "ceil_mode": 1}),
        ((2, 3, 7, 9), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]}),
        ((1, 2, 5, 6, 4), {"kernel_shape": [2, 3, 2], "dilations": [2, 1, 1]}),
    ],
)
def test_norms_of_windows_agree_with_their_definition(shape, attrs, order: int) -> None:
    x = normal(*shape)
    model, feeds = single("LpPool", [x], 22, p=order, **attrs)
    powers = np.abs(x).astype(np.float64) ** order
    ones = np.ones((1, 1, *attrs["kernel_shape"]))
    images = powers.reshape(-1, 1, *shape[2:])
    plain = {k: v for k, v in attrs.items() if k not in ("kernel_shape", "ceil_mode")}
    if attrs.get("ceil_mode"):
        images = np.pad(images, ((0, 0), (0, 0), (0, 1)))
    sums, feed = single("Conv", [images, ones], 11, (1,), **plain)
    (total,) = ReferenceEvaluator(sums).run(None, feed)
    expected = (total ** (1 / order)).reshape(*shape[:2], *total.shape[2:])
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_norms_of_whole_images_agree(order: int) -> None:
    x = normal(2, 3, 4, 5)
    model, feeds = single("GlobalLpPool", [x], 22, p=order)
    expected = (np.abs(x) ** order).sum(axis=(2, 3), keepdims=True) ** (1 / order)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 5, 9])
@pytest.mark.parametrize("axis", [1, 2])
def test_transforms_agree_with_numpy(axis: int, length: int | None, parts: int) -> None:
    x = normal(2, 7, 6, parts)
    size = None if length is None else np.asarray(length)
    constant = (2,) if length is None else (1, 2)
    signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    for half in range(2 if parts == 1 else 1):
        model, feeds = single("DFT", [x, size, np.asarray(axis)], 20, constant, onesided=half)
        expected = (np.fft.rfft if half else np.fft.fft)(signal, length, axis)
        (found,) = evaluate(imported(model), feeds).values()
        np.testing.assert_allclose(
            found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("length", [8, 9])
def test_one_side_of_a_spectrum_makes_the_signal_again(length: int) -> None:
    signal = normal(2, length)
    half = np.fft.rfft(signal)
    x = np.stack([half.real, half.imag], axis=-1).astype(np.float32)
    inputs = [x, np.asarray(length), np.asarray(1)]
    model, feeds = single("DFT", inputs, 20, (1, 2), onesided=1, inverse=1)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found[..., 0], signal, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "length", "words"),
    [((2, 1, 2), None, "makes 0 points; state a dft_length"), ((2, 5, 2), 0, "makes 0 points"),
     ((2, 5, 1), 8, "pairs are what goes back")],
)  # fmt: skip
def test_one_side_of_nothing_or_of_real_numbers_is_refused(
    shape: tuple[int, ...], length: int | None, words: str
) -> None:
    size = None if length is None else np.asarray(length)
    inputs = [normal(*shape), size, np.asarray(1)]
    constant = (2,) if length is None else (1, 2)
    with pytest.raises(ModelError, match=words):
        imported(single("DFT", inputs, 20, constant, onesided=1, inverse=1)[0])


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_of_a_signal_are_windowed_and_transformed(onesided: int) -> None:
    signal, window = normal(2, 20, 1), np.hanning(8).astype(np.float32)
    inputs = [signal, np.asarray(3), window, np.asarray(8)]
    model, feeds = single("STFT", inputs, 17, (1, 3), onesided=onesided)
    frames = np.stack([signal[:, i : i + 8, 0] * window for i in range(0, 13, 3)], axis=1)
    expected = (np.fft.rfft if onesided else np.fft.fft)(frames)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("axis", "opset"), [(1, 11), (-1, 13), (0, 13)])
def test_logarithms_of_softmax_are_finite_where_shares_vanish(axis: int, opset: int) -> None:
    x = np.float32([[0, 200, -200], [3, 1, 2]])
    model, feeds = single("LogSoftmax", [x], opset, axis=axis)
    wide = x.astype(np.float64)
    expected = wide - np.log(np.exp(wide).sum(axis=axis, keepdims=True))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("attrs", [{"axis": 1}, {"axis": -1}, {}])
def test_compress_takes_what_a_known_condition_names(attrs: dict) -> None:
    condition = np.asarray([False, True, True, False])
    assert_same(*single("Compress", [normal(3, 4, 4), condition], 11, (1,), **attrs))


def test_dropout_that_drops_nothing_says_so() -> None:
    x = normal(3, 4)
    inputs = [x, np.float32(0), np.asarray(True)]
    model, feeds = single("Dropout", inputs, 13, (1, 2))
    model.graph.node[0].output.append("mask")
    model.graph.output.append(helper.make_tensor_value_info("mask", 9, []))
    found = evaluate(imported(model), feeds)
    np.testing.assert_array_equal(found["y"], x)
    np.testing.assert_array_equal(found["mask"], np.ones((3, 4)))
