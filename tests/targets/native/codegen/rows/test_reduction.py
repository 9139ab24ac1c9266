"""Reductions against float64: rectangles, strides, windows, tails; what lies around stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autotune.isa.formats import Format
from autotune.isa.functions import ReduceFn
from autotune.targets.native.codegen.rows.reduction import Reduction, reduction
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

GUARD = np.float32(777.0)
MARGIN = 32
ERROR = 1e-6
ISAS = host_isas()


EXTREMES = {ReduceFn.MAX: np.maximum, ReduceFn.MIN: np.minimum}


def extent(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def view(buffer: np.ndarray, sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    steps = tuple(buffer.itemsize * stride for stride in strides)
    return np.lib.stride_tricks.as_strided(buffer[MARGIN:], sizes, steps)


def expected(spec: Reduction, src: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The results in float64 and the sums of sizes; reduced dimensions have size 1."""
    axes = tuple(d for d, size in enumerate(spec.sizes) if size > 1 and spec.dst_strides[d] == 0)
    wide = src.astype(np.float64)
    start = old[tuple(slice(0, 1) if d in axes else slice(None) for d in range(old.ndim))]
    start = start.astype(np.float64)
    if spec.fn in EXTREMES:
        fn = EXTREMES[spec.fn]
        most = fn.reduce(wide, axis=axes, keepdims=True)
        return (fn(most, start) if spec.accumulate else most), np.zeros(1)
    if spec.fn is ReduceFn.PROD:
        product = wide.prod(axis=axes, keepdims=True)
        factors = wide.size // product.size
        product = product * start if spec.accumulate else product
        return product, factors * np.abs(product)
    total, size = wide.sum(axis=axes, keepdims=True), np.abs(wide).sum(axis=axes, keepdims=True)
    return (total + start, size + np.abs(start)) if spec.accumulate else (total, size)


def check(spec: Reduction, isa: VectorIsa, low: float = -2.0) -> None:
    rng = np.random.default_rng(1)
    source = rng.uniform(low, 2, extent(spec.sizes, spec.src_strides) + 2 * MARGIN)
    if spec.fn is ReduceFn.PROD:  # of both signs, and so near 1 that no product leaves the range
        source = np.copysign(1 + np.abs(source) / 64, source)
    source = source.astype(np.float32)
    result = np.full(extent(spec.sizes, spec.dst_strides) + 2 * MARGIN, GUARD)
    written = view(result, spec.sizes, spec.dst_strides)
    written[...] = 0.5
    wanted, size = expected(spec, view(source, spec.sizes, spec.src_strides), written.copy())
    before = source.copy()
    compiled(reduction(spec, isa), isa)(result[MARGIN:], source[MARGIN:])
    assert (np.abs(written - wanted) <= ERROR * size).all()
    written[...] = GUARD
    assert (result == GUARD).all(), "wrote outside of the rectangle"
    assert (source == before).all()


def dense(sizes: tuple[int, ...], order: list[int], step: int = 1) -> tuple[int, ...]:
    strides = [0] * len(sizes)
    for d in reversed(order):
        strides[d] = step
        step *= sizes[d]
    return tuple(strides)


@st.composite
def reductions(draw: DrawFn) -> Reduction:
    rank = draw(st.integers(1, 5))
    most = {1: 700, 2: 70, 3: 20, 4: 8, 5: 5}[rank]
    sizes = tuple(draw(st.integers(1, most)) for _ in range(rank))
    order = draw(st.permutations(range(rank))) if draw(st.booleans()) else list(range(rank))
    kept = [d for d in range(rank) if draw(st.booleans())]
    dst = dense(sizes, kept, draw(st.sampled_from([1, 1, 2])))
    src = dense(sizes, order, draw(st.sampled_from([1, 1, 1, 2])))
    fn = draw(st.sampled_from(ReduceFn))
    return Reduction(fn, sizes, dst, src, draw(st.booleans()))


@given(reductions(), st.sampled_from(ISAS))
def test_a_reduction_is_exact_to_rounding_and_touches_nothing_else(
    spec: Reduction, isa: VectorIsa
) -> None:
    check(spec, isa)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("fn", ReduceFn)
@pytest.mark.parametrize("length", [*range(2, 36), 127, 129, 1023, 1111])
def test_rows_of_every_length(length: int, fn: ReduceFn, isa: VectorIsa) -> None:
    check(Reduction(fn, (3, length), (1, 0), (length, 1)), isa)
    check(Reduction(fn, (length, 3), (0, 1), (3, 1), accumulate=True), isa)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("fn", ReduceFn)
@pytest.mark.parametrize(("channels", "window"), [(5, 3), (16, 3), (70, 3), (24, 7)])
def test_pooling_windows(channels: int, window: int, fn: ReduceFn, isa: VectorIsa) -> None:
    row = 40 * channels
    sizes = (4, 5, channels, window, window)
    spec = Reduction(
        fn, sizes, (5 * channels, channels, 1, 0, 0), (2 * row, 2 * channels, 1, row, channels)
    )
    check(spec, isa)


@given(st.data(), st.sampled_from([Format.INT8, Format.UINT8]), st.sampled_from(ISAS))
def test_reductions_of_bytes_are_exact_and_saturate(
    data: st.DataObject, format: Format, isa: VectorIsa
) -> None:
    """Extremes and sums of whole numbers, to bytes or to fp32; what lies around stays."""
    spec = data.draw(reductions().filter(lambda spec: spec.fn is not ReduceFn.PROD))
    kind = np.int8 if format is Format.INT8 else np.uint8
    result = Format.FP32 if spec.accumulate else data.draw(st.sampled_from([Format.FP32, format]))
    spec = replace(spec, formats=(result, format))
    rng = np.random.default_rng(1)
    limits = np.iinfo(kind)
    count = extent(spec.sizes, spec.src_strides) + 2 * MARGIN
    source = rng.integers(limits.min, limits.max + 1, count).astype(kind)
    stored = kind if result is format else np.float32
    whole = np.full(extent(spec.sizes, spec.dst_strides) + 2 * MARGIN, 77, stored)
    written = view(whole, spec.sizes, spec.dst_strides)
    written[...] = 5
    wanted, _ = expected(spec, view(source, spec.sizes, spec.src_strides), written.copy())
    compiled(reduction(spec, isa), isa)(whole[MARGIN:], source[MARGIN:])
    if result is format:
        wanted = np.clip(wanted, limits.min, limits.max)
    assert (written == wanted).all()
    written[...] = 77
    assert (whole == 77).all(), "wrote outside of the rectangle"


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("columns", [1, 5])
def test_long_sums_lose_no_digits(columns: int, isa: VectorIsa) -> None:
    sizes = (3, 65535, columns)
    check(Reduction(ReduceFn.SUM, sizes, (0, 0, 1), (65535 * columns, columns, 1)), isa, low=1.0)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("place", [0, 5, 40, 66])
def test_a_maximum_of_nan_is_nan(place: int, isa: VectorIsa) -> None:
    values, result = np.full(67, -5, np.float32), np.zeros(1, np.float32)
    values[place] = np.nan
    compiled(reduction(Reduction(ReduceFn.MAX, (67,), (0,), (1,)), isa), isa)(result, values)
    assert np.isnan(result[0])


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_a_maximum_of_minus_infinities_is_minus_infinity(isa: VectorIsa) -> None:
    values, result = np.full(67, -np.inf, np.float32), np.zeros(1, np.float32)
    compiled(reduction(Reduction(ReduceFn.MAX, (67,), (0,), (1,)), isa), isa)(result, values)
    assert result[0] == -np.inf


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_a_reduction_becomes_code_of_every_machine(isa: VectorIsa) -> None:
    spec = Reduction(ReduceFn.MAX, (9, 37, 300), (37, 1, 0), (37 * 300, 300, 1))
    assert CodeGenerator(GENERIC[isa]).object(reduction(spec, isa))
