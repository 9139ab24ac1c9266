"""ONNX operators that rearrange: whatever their parameters, they mean what ONNX's evaluator says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from autotune.errors import ModelError
from autotune.frontend.translate.rearrangement import runs_of
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.operators.op import OpKind
from tests.frontend.onnx_case import assert_same, imported, model_of, single
from tests.frontend.translate.moving_cases import X4, ints, normal

QUICK = settings(max_examples=40, deadline=None)


@QUICK
@given(extent=st.integers(1, 7), start=st.integers(-9, 9), end=st.integers(-9, 9),
       step=st.sampled_from([-3, -2, -1, 1, 2, 3]))  # fmt: skip
def test_slices_agree_for_any_ends_and_steps(extent, start, end, step) -> None:
    x = normal(2, extent)
    assume(x[:, start:end:step].size)
    parameters = [ints(v) for v in (start, end, 1, step)]
    assert_same(*single("Slice", [x, *parameters], 13, (1, 2, 3, 4)))


@QUICK
@given(indices=st.lists(st.integers(-4, 3), min_size=1, max_size=12), axis=st.integers(0, 2))
def test_gathers_agree_for_any_known_indices(indices, axis) -> None:
    assert_same(*single("Gather", [normal(4, 4, 4), ints(*indices)], 13, (1,), axis=axis))


@QUICK
@given(extent=st.integers(1, 6), scale=st.floats(0.3, 4), mode=st.sampled_from(["nearest", "linear", "cubic"]),
       coordinates=st.sampled_from(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]),
       rounding=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))  # fmt: skip
def test_resizing_agrees_in_every_mode(extent, scale, mode, coordinates, rounding) -> None:
    scale = float(np.float32(scale))
    assume(int(extent * scale) >= 1)
    scales = np.asarray([1, 1, scale], np.float32)
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    x = normal(1, 2, extent)
    assert_same(*single("Resize", [x, None, scales], 13, (2,), **attrs), atol=1e-4)


def scattered(x: np.ndarray, w: np.ndarray, stride: int, dilation: int, group: int) -> np.ndarray:
    """ConvTranspose by its definition, one axis: every input element adds its taps."""
    outputs, inputs = w.shape[1], x.shape[1] // group
    reach = (w.shape[2] - 1) * dilation + 1
    y = np.zeros((x.shape[0], outputs * group, (x.shape[2] - 1) * stride + reach))
    for g in range(group):
        taken = slice(g * inputs, (g + 1) * inputs)
        for i in range(x.shape[2]):
            for k in range(w.shape[2]):
                added = x[:, taken, i] @ w[taken, :, k]
                y[:, g * outputs : (g + 1) * outputs, i * stride + k * dilation] += added
    return y


@QUICK
@given(extent=st.integers(1, 5), kernel=st.integers(1, 5), stride=st.integers(1, 4),
       dilation=st.integers(1, 3), group=st.integers(1, 2), before=st.integers(0, 2), extra=st.integers(0, 3))  # fmt: skip
def test_transposed_convolution_scatters(
    extent, kernel, stride, dilation, group, before, extra
) -> None:
    x, w = normal(2, 2 * group, extent), normal(2 * group, 3, kernel)
    expected = np.pad(scattered(x, w, stride, dilation, group), ((0, 0), (0, 0), (0, extra)))
    assume(expected.shape[2] > before)
    model, feeds = single(
        "ConvTranspose", [x, w], 11, (1,), strides=[stride], dilations=[dilation], group=group,
        pads=[before, 0], output_padding=[extra],
    )  # fmt: skip
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_allclose(found, expected[:, :, before:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("opset", "attrs", "sizes"),
    [(11, {"split": [1, 3, 3]}, None), (13, {}, [2, 4, 1]), (18, {"num_outputs": 3}, None)],
)
def test_every_output_of_a_split_is_its_part(opset, attrs, sizes) -> None:
    names = ["a", "b", "c"]
    node = helper.make_node("Split", ["x", *(["s"] if sizes else [])], names, axis=2, **attrs)
    constants = {"s": ints(*sizes)} if sizes else {}
    assert_same(model_of([node], {"x": X4.shape}, names, constants, opset), {"x": X4})


def test_an_empty_slice_is_refused() -> None:
    model, _ = single("Slice", [X4, ints(3), ints(3)], 13, (1, 2))
    with pytest.raises(ModelError, match="leaves an empty tensor"):
        imported(model)


def test_negative_widths_cut_off_what_padding_would_put_around() -> None:
    """onnx 1.23's evaluator does not know them."""
    model, feeds = single("Pad", [X4, ints(0, 1, -2, 2, 0, 0, 3, -1)], 13, (1,))
    expected = np.pad(X4[:, :, 2:, :-1], ((0, 0), (1, 0), (0, 3), (2, 0)))
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, expected)


def test_resize_of_opset_10_takes_the_element_below() -> None:
    """onnx 1.23's evaluator reads its scales as what later operator sets have there."""
    model, feeds = single("Resize", [X4, np.asarray([1, 1, 2, 0.6], np.float32)], 10, (1,))
    (found,) = evaluate(imported(model), feeds).values()
    columns = (np.arange(5) / np.float32(0.6)).astype(int)
    np.testing.assert_array_equal(found, X4[:, :, np.arange(14) // 2][..., columns])


def test_doubling_an_image_by_nearest_is_no_arithmetic() -> None:
    scales = np.asarray([1, 1, 2, 2], np.float32)
    graph = assert_same(*single("Resize", [X4, None, scales], 13, (2,)))
    assert {op.kind for op in graph.ops} <= {OpKind.RESHAPE, OpKind.EXPAND}


def test_a_transposed_convolution_multiplies_no_zeros_where_strides_divide_the_kernel() -> None:
    graph = assert_same(
        *single("ConvTranspose", [X4, normal(4, 3, 4, 4)], 11, (1,), strides=[2, 2])
    )
    (conv,) = (op for op in graph.ops if op.kind is OpKind.CONV)
    assert graph.shape(conv.inputs[1]) == (3 * 4, 4, 2, 2)


WHOLE = st.lists(st.integers(-4, 3), min_size=6, max_size=6)


def at_run_time(operator: str, data: np.ndarray, indices: np.ndarray, **attrs: int) -> None:
    """Indices that are fed as numbers mean what known ones mean."""
    known, feeds = single(operator, [data, indices], 13, (1,), **attrs)
    (want,) = evaluate(imported(known), feeds).values()
    fed, feeds = single(operator, [data, indices.astype(np.float32)], 13, **attrs)
    (found,) = evaluate(imported(fed), feeds).values()
    np.testing.assert_array_equal(found, want)


@QUICK
@given(indices=WHOLE, axis=st.integers(0, 2))
def test_rows_by_numbers_known_at_run_time_only(indices, axis) -> None:
    at_run_time("Gather", normal(4, 4, 4), ints(*indices).reshape(2, 3), axis=axis)


@QUICK
@given(indices=WHOLE, axis=st.integers(0, 1))
def test_elements_by_numbers_known_at_run_time_only(indices, axis) -> None:
    at_run_time("GatherElements", normal(4, 4), ints(*indices).reshape(2, 3), axis=axis)


@QUICK
@given(indices=WHOLE, batch=st.integers(0, 1), depth=st.integers(1, 2))
def test_blocks_by_numbers_known_at_run_time_only(indices, batch, depth) -> None:
    data = normal(2, 4, 4) if batch else normal(4, 4, 4)
    shape = (2, 3 // depth, depth) if batch else (6 // depth, depth)
    wanted = ints(*indices)[: int(np.prod(shape))].reshape(shape)
    at_run_time("GatherND", data, wanted, batch_dims=batch)


def test_many_scattered_indices_are_one_look_up() -> None:
    indices = np.random.default_rng(3).permutation(60)
    graph = assert_same(*single("Gather", [normal(60, 3), indices], 13, (1,)))
    assert OpKind.GATHER in {op.kind for op in graph.ops}
    assert len(graph.ops) <= 2


def test_grid_sample_knows_the_modes_by_their_first_names() -> None:
    grid = np.tanh(normal(2, 3, 5, 2))
    for old, new in (("bilinear", "linear"), ("bicubic", "cubic")):
        first, feeds = single("GridSample", [X4, grid], 16, mode=old)
        second, _ = single("GridSample", [X4, grid], 20, mode=new)
        (found,), (want,) = (evaluate(imported(m), feeds).values() for m in (first, second))
        np.testing.assert_array_equal(found, want)


def test_a_linear_weight_of_a_grid_sample_takes_no_operator_for_a_term_of_0() -> None:
    model, _ = single("GridSample", [X4, np.tanh(normal(2, 3, 5, 2))], 20, padding_mode="border")
    kinds = [op.kind for op in simplify(imported(model)).graph.ops]
    assert kinds.count(OpKind.FLOOR) == 2, "one per axis"
    # per axis a scaled grid and 1 − ratio, then four pixels' weights, two rows, four shares
    assert kinds.count(OpKind.MUL) == 2 + 2 + 4 + 2 + 4


def test_the_nearest_pixel_to_infinity_is_the_last() -> None:
    grid = np.float32([[[[np.inf, 0.0], [-np.inf, 0.0]]]])
    x = np.float32([[[[1, 2, 3]]]])
    model, feeds = single("GridSample", [x, grid], 20, mode="nearest", padding_mode="border")
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, [[[[3, 1]]]])


def test_an_infinity_that_a_crop_leaves_out_leaves_nothing_behind() -> None:
    x, roi = np.float32([[[[1, 2, 3, np.inf]]]]), np.float32([0, 0, 0, 0, 1, 1, 1, 2])
    inputs = [x, roi, None, ints(1, 1, 1, 4)]
    mode = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize"}
    assert_same(*single("Resize", inputs, 13, (1, 3), **mode, extrapolation_value=7.0))


class Counted(list[int]):
    """A list that knows how often it was looked into."""

    looks = 0

    def __getitem__(self, place):
        self.looks += 1
        return super().__getitem__(place)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=40))
def test_runs_are_the_indices_again_and_each_index_is_looked_at_a_few_times(
    indices: list[int],
) -> None:
    counted = Counted(indices)
    runs = runs_of(counted, len(indices))
    assert runs is not None
    assert [run.start + i * run.step for run in runs for i in range(run.size)] == indices
    assert counted.looks <= 6 * len(indices)
    assert runs_of(indices, len(runs)) == runs and runs_of(indices, len(runs) - 1) is None


def test_too_many_runs_are_not_looked_for_to_the_end() -> None:
    counted = Counted(np.random.default_rng(5).permutation(10_000).tolist())
    assert runs_of(counted, 16) is None
    assert counted.looks < 200
