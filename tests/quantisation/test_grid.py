"""Ranges against closed forms: minimum and maximum, percentiles, and the least squared error by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.quantisation.grid import (
    Activations,
    Grid,
    Method,
    activation_grid,
    quantise_weight,
    spread,
    weight_scales,
)
from autotune.quantisation.histogram import HALF_BINS, Histogram

BOTH = list(Activations)


def seen(*arrays: np.ndarray) -> Histogram:
    histogram = Histogram()
    for array in arrays:
        histogram.add(array)
    return histogram


def rounded(values: np.ndarray, grid: Grid, kind: Activations) -> np.ndarray:
    """What ONNX defines: quantised and dequantised."""
    steps = np.clip(np.rint(values / grid.scale) + grid.zero, *kind.limits)
    return (steps - grid.zero) * grid.scale


@pytest.mark.parametrize("kind", BOTH)
@given(low=st.floats(-1e6, 1e6, width=32), high=st.floats(-1e6, 1e6, width=32))
def test_every_number_between_the_ends_is_within_one_step(
    kind: Activations, low: float, high: float
) -> None:
    low, high = min(low, high), max(low, high)
    values = np.linspace(low, high, 301, dtype=np.float32)
    grid = activation_grid(seen(values), kind, Method.MINMAX, 0)
    assert rounded(np.zeros(1), grid, kind) == 0, "zero is a number of every grid"
    assert np.abs(rounded(values, grid, kind) - values).max() <= grid.scale * 1.001
    span = max(high, 0) - min(low, 0)
    if span > 1e-20:
        assert grid.scale == pytest.approx(span / 255, rel=1e-5)


def test_a_histogram_counts_as_numpy_does_however_its_range_grew() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(5000).astype(np.float32) * size for size in (0.1, 1, 30, 2)]
    found = seen(*arrays)
    ends = np.linspace(-found.bound, found.bound, 2 * HALF_BINS + 1)
    wanted, _ = np.histogram(np.concatenate(arrays), ends)
    assert found.counts.sum() == 20000 and found.bound == 128
    # an element of the first arrays is in the bin of its first, finer histogram: both agree but at ends
    assert np.abs(np.cumsum(found.counts) - np.cumsum(wanted)).max() <= 2


def test_tensors_of_zeros_have_scale_one() -> None:
    for kind in BOTH:
        for method in Method:
            grid = activation_grid(seen(np.zeros(7)), kind, method, 99)
            assert float(grid.scale) == 1 and grid.zero == 0


def test_infinities_are_told() -> None:
    assert not seen(np.asarray([1.0, np.inf])).is_finite


def test_a_percentile_leaves_the_outermost_elements_out() -> None:
    values = np.random.default_rng(2).standard_normal(200_000).astype(np.float32)
    values[:3] = (40, 50, -60)
    low, high = np.percentile(values, [0.5, 99.5])
    grid = activation_grid(seen(values), Activations.INT8, Method.PERCENTILE, 99)
    assert float(grid.scale) * 255 == pytest.approx(high - low, rel=0.02)
    everything = activation_grid(seen(values), Activations.INT8, Method.PERCENTILE, 100)
    assert float(everything.scale) * 255 == pytest.approx(110, rel=0.001)


def test_the_least_squared_error_is_near_that_of_all_ranges() -> None:
    rng = np.random.default_rng(3)
    for values in (
        rng.standard_normal(20_000),
        np.maximum(rng.standard_normal(20_000), 0),
        rng.standard_t(3, 20_000),
        np.append(rng.standard_normal(20_000), 30.0),
    ):
        array = values.astype(np.float32)
        kind = Activations.UINT8
        grid = activation_grid(seen(array), kind, Method.MSE, 0)

        def error(one: Grid, array: np.ndarray = array, kind: Activations = kind) -> float:
            return float(((rounded(array, one, kind) - array) ** 2).sum())

        widest = activation_grid(seen(array), kind, Method.MINMAX, 0)
        ends = [(a, b) for a in np.linspace(0.02, 1, 50) for b in np.linspace(0.02, 1, 50)]
        least = min(
            error(Grid(scale, round(-min(array.min(), 0) * a / scale)))
            for a, b in ends
            if (scale := np.float32((max(array.max(), 0) * b - min(array.min(), 0) * a) / 255))
        )
        assert error(grid) <= error(widest)
        assert error(grid) <= 1.1 * least


@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_weights_are_within_half_a_step_of_their_channel(axis: int | None) -> None:
    weight = np.random.default_rng(4).standard_normal((3, 4, 5)).astype(np.float32)
    weight[1] = 0
    scales = weight_scales(weight, axis, Method.MINMAX)
    assert scales.shape == (() if axis is None else (weight.shape[axis],))
    wide = spread(scales, axis, 3)
    narrow = quantise_weight(weight, scales, axis)
    assert np.abs(narrow * wide - weight).max(initial=0) <= wide.max() / 2 * 1.0001
    assert (np.abs(narrow * wide - weight) <= wide / 2 * 1.0001).all()
    largest = np.abs(narrow).max(axis=tuple(i for i in range(3) if i != axis))
    assert set(np.ravel(largest)) <= {127, 0}
    squared = quantise_weight(weight, weight_scales(weight, axis, Method.MSE), axis)
    finer = squared * spread(weight_scales(weight, axis, Method.MSE), axis, 3)
    assert ((finer - weight) ** 2).sum() <= ((narrow * wide - weight) ** 2).sum()
