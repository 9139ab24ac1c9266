"""Native GEMM kernels equal numpy in float64 within their rounding, and write nothing but c."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.targets.native.codegen.gemm import panels
from autotune.targets.native.codegen.gemm.blocking import best_blocking, row_tiles
from autotune.targets.native.codegen.gemm.gemm import gemm
from autotune.targets.native.codegen.gemm.loops import loops_of
from autotune.targets.native.codegen.gemm.panels import ROW_VECTORS, goes_in_blocks, panel_width
from autotune.targets.native.codegen.gemm.shape import (
    PANEL_FORMATS,
    BiasAxis,
    GemmShape,
    VectorAxis,
    vector_axis,
)
from autotune.targets.native.compiling.object_code import LIBRARY, CodeGenerator, undefined
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import AVX512, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.gemm.gemm_case import (
    GUARD,
    GUARDS,
    Case,
    shapes,
    view,
    with_panels,
)
from tests.targets.native.codegen.generated_code import compiled, host_isas

# rows of pixels follow each other in memory, so that the generator may take them as one
POINTWISE = GemmShape(
    m=16, n1=3, n0=5, k0=8, a_m=1, a_k0=16, b_k0=1, b_n1=40, b_n0=8, c_m=1, c_n1=80, c_n0=16
)  # fmt: skip
PLANES = GemmShape(
    m=6, n1=3, n0=5, k0=8, a_m=8, a_k0=1, b_k0=15, b_n1=5, b_n0=1, c_m=15, c_n1=5, c_n0=1
)  # fmt: skip
RUNNABLE = host_isas()
SEEDS = st.integers(0, 2**32 - 1)


def check(shape: GemmShape, isa: VectorIsa, seed: int = 0, *, c_is_r: bool = False) -> None:
    """Run one kernel on each trip that matters, against the oracle."""
    run, case = compiled(gemm(shape, isa), isa), Case.of(shape, seed)
    for trip in sorted({0, 1, shape.last}) if shape.numbers else (0,):
        c = case.c.copy()
        operands = case.operands(c)
        r = case.r
        if c_is_r:
            operands[-1], r = c[GUARDS:], case.c[GUARDS:]
        run(*operands, numbers=(trip,) if shape.numbers else ())
        expected, bound = case.expected(trip, r)
        got = view(c[GUARDS:], shape, "c").copy()
        assert (abs(got - expected) <= bound).all(), (shape, trip, abs(got - expected).max())
        view(c[GUARDS:], shape, "c")[...] = GUARD
        assert (c == GUARD).all(), (shape, trip, "wrote outside of c")


def dense(m: int, n: int, k: int, **rest: object) -> GemmShape:
    """c[m,n] = a[m,k]·b[k,n], all dense."""
    return GemmShape(
        m=m, n0=n, k0=k, a_m=k, a_k0=1, b_k0=n, b_n0=1, c_m=n, c_n0=1, r_m=n, r_n0=1, **rest
    )


def convolution(size: int, channels: int, outputs: int, **rest: object) -> GemmShape:
    """3×3 over a channels-last image with a border: m are output channels."""
    line = (size + 2) * channels
    return GemmShape(
        m=outputs, n1=size, n0=size, k2=3, k1=3, k0=channels,
        a_m=1, a_k2=3 * channels * outputs, a_k1=channels * outputs, a_k0=outputs,
        b_k2=line, b_k1=channels, b_k0=1, b_n1=line, b_n0=channels,
        c_m=1, c_n1=size * outputs, c_n0=outputs, r_m=1, r_n1=size * outputs, r_n0=outputs, **rest,
    )  # fmt: skip


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@settings(max_examples=60, deadline=None)
@given(shape=shapes(), seed=SEEDS)
def test_any_matmul_equals_numpy(isa: VectorIsa, shape: GemmShape, seed: int) -> None:
    check(shape, isa, seed)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@settings(max_examples=40, deadline=None)
@given(shape=shapes(), seed=SEEDS, vectors=st.integers(0, 5))
def test_panels_equal_numpy(isa: VectorIsa, shape: GemmShape, seed: int, vectors: int) -> None:
    width = vectors * isa.lanes or panel_width(with_panels(shape, isa.lanes), isa)
    check(with_panels(shape, width), isa, seed)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@settings(max_examples=40, deadline=None)
@given(shape=shapes(), seed=SEEDS, format=st.sampled_from(PANEL_FORMATS[1:]))
def test_panels_of_bytes_equal_numpy(
    isa: VectorIsa, shape: GemmShape, seed: int, format: Format
) -> None:
    shape = replace(with_panels(shape, isa.lanes), panel_format=format)
    check(replace(shape, panel=panel_width(shape, isa)), isa, seed)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1000, 70), (16, 2100, 64), (14, 500, 2100), (40, 64, 9)]
)
def test_large_panels_of_bytes_equal_numpy(isa: VectorIsa, m: int, n: int, k: int) -> None:
    shape = dense(m, n, k, panel=isa.lanes, panel_format=Format.INT8, epilogue=When.ALWAYS)
    check(replace(shape, panel=panel_width(shape, isa)), isa)


def test_panels_of_bytes_round_as_those_of_floats() -> None:
    isa = RUNNABLE[0]
    shape = dense(5, 100, 300, panel=isa.lanes, panel_format=Format.UINT8)
    narrow = Case.of(shape, 7)
    wide = replace(narrow, shape=replace(shape, panel_format=Format.FP32))
    results = []
    for case in (narrow, wide):
        c = case.c.copy()
        compiled(gemm(case.shape, isa), isa)(*case.operands(c), numbers=())
        results.append(c)
    np.testing.assert_array_equal(*results)


def test_bytes_that_are_not_in_panels_are_refused() -> None:
    with pytest.raises(ProgramError, match="INT8 is widened in panels only"):
        gemm(dense(4, 16, 8, panel_format=Format.INT8), RUNNABLE[0])
    with pytest.raises(ProgramError, match="panels of INT32"):
        dense(4, 16, 8, panel=16, panel_format=Format.INT32)


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
@settings(max_examples=15, deadline=None)
@given(shape=shapes())
def test_every_instruction_set_has_code_that_calls_nothing(
    isa: VectorIsa, shape: GemmShape
) -> None:
    assert undefined(CodeGenerator(GENERIC[isa]).object(gemm(shape, isa))) <= LIBRARY


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@pytest.mark.parametrize(
    "shape",
    [
        dense(256, 16, 256),
        dense(48, 64, 256, accumulate=When.ALWAYS),
        dense(13, 500, 70, epilogue=When.ALWAYS, fn=UnaryFn.RELU, bias=BiasAxis.N0),
        dense(1, 300, 64),
        replace(dense(40, 64, 96), b_k0=1, b_n0=96),
        replace(dense(40, 61, 70), b_k0=1, b_n0=75),
        replace(dense(20, 5, 16), b_k0=1, b_n0=16),
        replace(dense(3, 64, 2100), b_k0=1, b_n0=2100),
        replace(dense(1, 61, 70, epilogue=When.ALWAYS, scale=0.125, adds=True), b_k0=1, b_n0=75),
        replace(dense(4, 33, 64, accumulate=When.BY_LEVEL), b_k0=1, b_n0=64),
        replace(dense(2, 40, 3 * 37), k1=3, k0=37, a_k1=37, b_k1=40, b_k0=1, b_n0=130),
        convolution(14, 16, 24, epilogue=When.BY_LEVEL, last=1, accumulate=When.BY_LEVEL),
        convolution(7, 8, 40, epilogue=When.ALWAYS, bias=BiasAxis.M, adds=True),
        convolution(7, 8, 16, epilogue=When.ALWAYS, bias=BiasAxis.N0),
        convolution(7, 256, 64),  # panels come from beyond the L2 cache
        dense(20, 1500, 80),
        dense(101, 700, 150, accumulate=When.BY_LEVEL, epilogue=When.BY_LEVEL, last=1, adds=True),
        dense(97, 130, 1030, epilogue=When.ALWAYS, fn=UnaryFn.RELU, bias=BiasAxis.N0),
        dense(96, 257, 2100, epilogue=When.ALWAYS, bias=BiasAxis.M, scale=0.5),
        convolution(6, 8, 8, epilogue=When.ALWAYS, bias=BiasAxis.N0, adds=True),
    ],
    ids=lambda shape: f"{shape.m}x{shape.n1}x{shape.n0}x{shape.k0}",
)
def test_sizes_of_networks_equal_numpy(isa: VectorIsa, shape: GemmShape) -> None:
    check(shape, isa)
    check(with_panels(shape, panel_width(shape, isa)), isa)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@pytest.mark.parametrize("depth", [200, 1030, 2100])
def test_blocks_round_as_the_whole_does(
    isa: VectorIsa, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of fewer rows go without blocks, and threads must not change a result."""
    shape = with_panels(dense(101, 500, depth), 2 * isa.lanes)
    case = Case.of(shape, 5)
    results, texts = [], []
    for fewest in (panels.FEW_ROWS, 1 << 30):
        monkeypatch.setattr(panels, "FEW_ROWS", fewest)
        kernel, c = gemm(shape, isa), case.c.copy()
        compiled(kernel, isa)(*case.operands(c), numbers=())
        results.append(c)
        texts.append(kernel.ir)
    assert texts[0] != texts[1]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("shape", [POINTWISE, PLANES])
@pytest.mark.parametrize("bias", BiasAxis)
def test_a_bias_goes_by_its_axis_where_rows_follow_each_other(
    shape: GemmShape, bias: BiasAxis
) -> None:
    check(replace(shape, epilogue=When.ALWAYS, bias=bias), RUNNABLE[0])


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_the_residual_may_be_c(isa: VectorIsa) -> None:
    check(dense(29, 37, 600, epilogue=When.ALWAYS, adds=True), isa, c_is_r=True)
    check(convolution(7, 8, 19, epilogue=When.ALWAYS, adds=True), isa, c_is_r=True)


@pytest.mark.parametrize("fn", [UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP])
def test_not_a_number_stays_one(fn: UnaryFn) -> None:
    shape = dense(3, 9, 2, epilogue=When.ALWAYS, fn=fn, p0=-0.5, p1=0.5)
    case = Case.of(shape, 0)
    case.a[0] = np.nan
    c = case.c.copy()
    compiled(gemm(shape, RUNNABLE[0]), RUNNABLE[0])(*case.operands(c))
    got = view(c[GUARDS:], shape, "c")
    assert np.isnan(got[0]).all() and not np.isnan(got[1:]).any()


@given(rows=st.integers(1, 500), most=st.integers(1, 14))
def test_tiles_cover_all_rows_once_and_differ_by_one(rows: int, most: int) -> None:
    parts = row_tiles(rows, most)
    covered = [
        p.first + i * p.rows + j for p in parts for i in range(p.count) for j in range(p.rows)
    ]
    assert covered == list(range(rows))
    assert max(p.rows for p in parts) <= most
    assert max(p.rows for p in parts) - min(p.rows for p in parts) <= 1


def test_factors_that_stay_in_an_l2_cache_go_without_blocks() -> None:
    for isa in VECTOR_ISAS:
        for depth, blocks in ((384, False), (512, True)):
            shape = dense(784, 256, depth)
            text = gemm(with_panels(shape, panel_width(shape, isa)), isa).ir
            assert ("alloca" in text) is blocks, (isa, depth)


def test_rows_of_an_image_share_tiles_where_each_alone_would_leave_a_small_one() -> None:
    isa = next(isa for isa in VECTOR_ISAS if isa.name == "avx2")
    for size, shared in ((14, True), (28, False)):
        shape = convolution(size, 256, 256)
        loops = loops_of(with_panels(shape, panel_width(shape, isa)))
        assert best_blocking(loops, isa, panel_width(shape, isa)).scattered is shared, size


def test_code_of_large_kernels_stays_small() -> None:
    for shape in (dense(512, 515, 256), convolution(14, 64, 72), convolution(7, 512, 72)):
        for isa in VECTOR_ISAS:
            text = gemm(with_panels(shape, panel_width(shape, isa)), isa).ir
            assert text.count("llvm.fma") < 400, (shape, isa)


def test_panels_of_a_single_row_are_narrow_where_an_l2_cache_keeps_the_weights() -> None:
    for isa in VECTOR_ISAS:
        kept, streamed = dense(1, 768, 256), dense(1, 1024, 1024)
        assert panel_width(kept, isa) == ROW_VECTORS * isa.lanes
        assert panel_width(streamed, isa) > ROW_VECTORS * isa.lanes


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_a_query_by_keys_in_rows_of_memory_inserts_no_lane_by_itself(isa: VectorIsa) -> None:
    for rows, inserts in ((1, False), (4, False), (5, True)):
        text = gemm(replace(dense(rows, 256, 64), b_k0=1, b_n0=64), isa).ir
        lanes = [line for line in text.splitlines() if "insertelement" in line]
        assert any("poison" not in line for line in lanes) is inserts, rows


PREFETCH_OF_PANELS = "i32 0, i32 2, i32 1)"
"""A prefetch for reading into the second-level cache: results are asked for by others."""


@pytest.mark.parametrize(("depth", "columns"), [(1280, 1000), (64, 64)])
def test_weights_are_prefetched_where_few_rows_share_them_and_not_where_one_or_many_do(
    depth: int, columns: int
) -> None:
    for isa in VECTOR_ISAS:
        width = 2 * isa.lanes
        for rows, prefetches in (
            (1, False),
            (5, False),
            (6, True),
            (isa.registers, True),
            (2000, False),
        ):
            shape = with_panels(dense(rows, columns, depth), width)
            loops = loops_of(shape)
            blocking = best_blocking(loops, isa, width)
            if blocking.rows_outside or goes_in_blocks(shape, loops, width):
                continue
            text = gemm(shape, isa).ir
            assert (PREFETCH_OF_PANELS in text) is prefetches, (isa, rows)


def test_prefetches_run_at_least_64_kib_ahead_of_the_sums() -> None:
    for isa in VECTOR_ISAS:
        for depth in (1, 16, 256, 4096):
            shape = with_panels(dense(24, 64, depth), isa.lanes)
            blocking = best_blocking(loops_of(shape), isa, isa.lanes)
            panel_bytes = 4 * depth * isa.lanes
            assert (blocking.ahead - 1) * panel_bytes < 64 * 1024 <= blocking.ahead * panel_bytes


def test_lanes_run_along_the_axis_that_is_dense_in_c_and_its_factor() -> None:
    assert vector_axis(dense(8, 8, 8)) is VectorAxis.N0
    assert vector_axis(convolution(7, 8, 8)) is VectorAxis.M
    assert vector_axis(replace(dense(64, 1, 8), c_m=1, a_m=1)) is VectorAxis.M


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"m": 0}, "m is 0"),
        ({"a_k0": -1}, "a_k0 is negative"),
        ({"fn": UnaryFn.TANH}, "TANH"),
        ({"panel": 0}, "panels of 0"),
        ({"panel": 16, "n1": 2, "b_n1": 64}, "n1 = 2"),
    ],
)
def test_an_impossible_matmul_is_refused(wrong: dict[str, int], says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        replace(dense(4, 8, 8), **wrong)


@pytest.mark.parametrize("panel", [24, 16 * 31])
def test_panels_must_fit_the_instruction_set(panel: int) -> None:
    with pytest.raises(ProgramError, match="avx512"):
        gemm(replace(dense(4, 8, 8), panel=panel), AVX512)
