"""Native products of bf16 are exact products summed in fp32, with any epilogue, and write nothing but c."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.targets.native.binding.narrow_panels import narrow_packed
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_panel_width
from autotune.targets.native.codegen.gemm.narrow_gemm import narrow_gemm
from autotune.targets.native.codegen.gemm.narrow_shape import Factor, NarrowShape
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape, VectorAxis, vector_axis
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import AVX512_BF16, AVX512_VNNI, VectorIsa
from tests.targets.native.codegen.gemm.gemm_case import GUARD, GUARDS, Case, shapes, view
from tests.targets.native.codegen.generated_code import compiled, dot_isas

ISA = AVX512_BF16
needs_bf16 = pytest.mark.skipif(ISA not in dot_isas(), reason="this CPU does not multiply bf16")
HALF = Factor(Format.BF16)
TINY = float(np.finfo(np.float32).tiny)
"""Least normal number: below it factors, products and sums count as zeros."""


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


@st.composite
def half_shapes(draw: st.DrawFn) -> NarrowShape:
    """Any product of bf16, small, its packed factor without n1."""
    shape = draw(shapes())
    shape = replace(shape, k0=draw(st.sampled_from([shape.k0, shape.k0, 1, 17, 32])))
    return in_panels(replace(shape, n1=1) if vector_axis(shape) is VectorAxis.N0 else shape)


def in_panels(product: GemmShape) -> NarrowShape:
    shape = NarrowShape(replace(product, panel=ISA.lanes), HALF, HALF)
    return replace(shape, product=replace(product, panel=narrow_panel_width(shape, ISA)))


def dense(m: int, n: int, k: int) -> NarrowShape:
    """c[m,n] = a[m,k]·b[k,n], all dense."""
    return in_panels(
        GemmShape(m=m, n0=n, k0=k, a_m=k, a_k0=1, b_k0=n, b_n0=1, c_m=n, c_n0=1)
    )  # fmt: skip


def operands(
    narrow: NarrowShape, case: Case, c: np.ndarray, isa: VectorIsa = ISA
) -> list[np.ndarray]:
    """The kernel's: the factor in lanes in panels, the other one as it lies in memory."""
    half = {name: getattr(case, name).astype(ml_dtypes.bfloat16) for name in "ab"}
    packed, factor = narrow_packed(narrow, isa), "a" if narrow.axis is VectorAxis.M else "b"
    assert packed is not None
    panels = np.empty(packed.elements, np.float32)
    packed.pack(half[factor], panels)
    given = {**half, "c": c[GUARDS:], "bias": case.bias, "r": case.r, factor: panels}
    return [given[name] for name in narrow.product.operands]


def product(narrow: NarrowShape, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c of a dense product."""
    s = narrow.product
    case = replace(Case.of(s, 0), a=a.reshape(-1), b=b.reshape(-1))
    c = np.full(s.m * s.n0 + 2 * GUARDS, GUARD)
    compiled(narrow_gemm(narrow, ISA), ISA)(*operands(narrow, case, c))
    return c[GUARDS:-GUARDS].reshape(s.m, s.n0)


@needs_bf16
@given(half_shapes(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_any_product_of_bf16_is_within_fp32_rounding(narrow: NarrowShape, seed: int) -> None:
    """The bound is that of fp32 kernels: a rounding for each addition; a product of two is exact."""
    s, case = narrow.product, Case.of(narrow.product, seed)
    case = replace(case, a=rounded(case.a), b=rounded(case.b))
    run = compiled(narrow_gemm(narrow, ISA), ISA)
    for trip in sorted({0, 1, s.last}) if s.numbers else (0,):
        c = case.c.copy()
        run(*operands(narrow, case, c), numbers=(trip,) if s.numbers else ())
        want, bound = case.expected(trip, case.r)
        got = view(c[GUARDS:], s, "c")
        assert (abs(got - want) <= bound).all(), (narrow, trip, abs(got - want).max())
        got[...] = GUARD
        assert (c == GUARD).all(), (narrow, trip, "wrote outside of c")


def chained(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product as the instruction is documented: of each pair the second product is added first, each sum
    rounded to nearest even, with subnormal numbers as zeros."""

    def flushed(x: np.ndarray) -> np.ndarray:
        return np.where(abs(x) < TINY, np.copysign(np.float32(0), x), x)

    depth = a.shape[1]
    a, b = (
        flushed(np.pad(a, ((0, 0), (0, depth % 2)))),
        flushed(np.pad(b, ((0, depth % 2), (0, 0)))),
    )
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in (k + i for k in range(0, a.shape[1], 2) for i in (1, 0)):
        exact = a[:, k, None].astype(float) * b[None, k].astype(float)
        total = flushed((total.astype(float) + exact).astype(np.float32))
    return total


@needs_bf16
@pytest.mark.parametrize("sizes", [(1, 40, 1), (1, 16, 131), (7, 40, 64), (13, 33, 3)])
def test_products_are_exact_and_sums_are_rounded_pair_by_pair(sizes: tuple[int, int, int]) -> None:
    """Bit by bit; a sum in float64 that is rounded once more is fp32's, as two bf16 have 16 digits in all."""
    m, n, k = sizes
    rng = np.random.default_rng(m * n * k)
    a, b = rounded(rng.standard_normal((m, k))), rounded(rng.standard_normal((k, n)))
    np.testing.assert_array_equal(product(dense(m, n, k), a, b), chained(a, b))


@needs_bf16
def test_subnormal_numbers_count_as_zeros() -> None:
    """Factors below 2^-126, and products and sums below it: each costs at most that much."""
    rng = np.random.default_rng(5)
    a = rounded(np.ldexp(rng.standard_normal((5, 9)), rng.integers(-135, -55, (5, 9))))
    b = rounded(np.ldexp(rng.standard_normal((9, 35)), rng.integers(-75, 1, (9, 35))))
    got = product(dense(5, 35, 9), a, b)
    np.testing.assert_array_equal(got, chained(a, b))
    size = abs(a).astype(float) @ abs(b).astype(float)
    lost = 2 * 9 * TINY + TINY * (abs(a).sum(1, float)[:, None] + abs(b).sum(0, float))
    error = abs(got - a.astype(float) @ b.astype(float))
    assert (error <= 9 * 2.0**-24 * size + lost).all()
    assert (got[abs(got) < TINY] == 0).all()


@needs_bf16
def test_infinities_and_nans_are_those_of_ieee() -> None:
    a = np.ones((6, 5), np.float32)
    b = np.ones((5, 20), np.float32)
    a[0, 1], a[1, 1:3], a[2, 0], a[3, 4], a[4, :2] = (
        np.inf,
        (np.inf, -np.inf),
        np.nan,
        -np.inf,
        3e38,
    )
    b[:, 3], b[1, 4] = 0.0, -3e38
    got = product(dense(6, 20, 5), a, b)
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(got, (a.astype(float) @ rounded(b)).astype(np.float32))


@needs_bf16
@pytest.mark.parametrize("fn", [UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP])
@pytest.mark.parametrize("rows", [1, 6])
def test_epilogues_are_those_of_other_products(fn: UnaryFn, rows: int) -> None:
    """Bias, residual, scale and activation, of whole numbers: exact."""
    rng = np.random.default_rng(int(fn))
    whole = lambda *shape: rng.integers(-9, 10, shape).astype(np.float32)  # noqa: E731
    product = replace(
        dense(rows, 37, 11).product,
        epilogue=When.ALWAYS, bias=BiasAxis.N0, fn=fn, p0=-2.0, p1=6.0, scale=0.5, adds=True,
        r_m=37, r_n0=1,
    )  # fmt: skip
    narrow = in_panels(replace(product, panel=None))
    a, b, r, bias = whole(rows, 11), whole(11, 37), whole(rows, 37), whole(37)
    case = replace(Case.of(narrow.product, 0), a=a.ravel(), b=b.ravel(), r=r.ravel(), bias=bias)
    c = np.full(rows * 37 + 2 * GUARDS, GUARD)
    compiled(narrow_gemm(narrow, ISA), ISA)(*operands(narrow, case, c))
    x = 0.5 * (a @ b) + bias + r
    want = {
        UnaryFn.COPY: x,
        UnaryFn.RELU: np.maximum(x, 0),
        UnaryFn.LEAKY_RELU: np.where(x < 0, -2.0 * x, x),
        UnaryFn.CLIP: np.clip(x, -2.0, 6.0),
    }[fn]
    np.testing.assert_array_equal(c[GUARDS:-GUARDS].reshape(rows, 37), want)


def test_code_has_the_instruction() -> None:
    narrow = dense(7, 40, 131)
    assert "vdpbf16ps" in CodeGenerator(GENERIC[ISA]).assembly(narrow_gemm(narrow, ISA))


def test_what_no_kernel_multiplies_is_refused() -> None:
    with pytest.raises(ProgramError, match="avx512vnni has no product of it"):
        narrow_gemm(dense(4, 16, 8), AVX512_VNNI)
    with pytest.raises(ProgramError, match="BF16 by INT8"):
        NarrowShape(dense(4, 16, 8).product, HALF, Factor(Format.INT8))
    with pytest.raises(ProgramError, match="zero point 3"):
        Factor(Format.BF16, 3)
    with pytest.raises(ProgramError, match="INT32; give INT8, UINT8 or BF16"):
        Factor(Format.INT32)


@needs_bf16
@given(half_shapes(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_a_result_of_bf16_is_that_of_fp32_rounded_once(narrow: NarrowShape, seed: int) -> None:
    epilogue = When.ALWAYS if narrow.product.epilogue is When.BY_LEVEL else narrow.product.epilogue
    whole = replace(narrow.product, accumulate=When.NEVER, epilogue=epilogue)
    case = Case.of(whole, seed)
    wide, half = case.c.copy(), np.full(case.c.size, 7, np.uint16)
    for c_format, c in ((Format.FP32, wide), (Format.BF16, half)):
        shape = replace(narrow, product=replace(whole, c_format=c_format))
        run = compiled(narrow_gemm(shape, ISA), ISA)
        run(*operands(shape, case, c))
    written = np.zeros(case.c.size, np.float32)
    view(written[GUARDS:], whole, "c")[...] = 1
    is_c = written == 1
    want = wide.astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(half[is_c], want[is_c])
    assert (half[~is_c] == 7).all(), "wrote outside of c"


def test_sums_in_pieces_are_not_rounded() -> None:
    product = dense(4, 16, 8).product
    for change in ({"accumulate": When.ALWAYS}, {"epilogue": When.BY_LEVEL}):
        with pytest.raises(ProgramError, match="written once"):
            replace(product, c_format=Format.BF16, **change)
