"""Native products of bytes equal numpy's in int64, modulo 2^32, and write nothing but c."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.binding.narrow_panels import narrow_packed
from autotune.targets.native.codegen.gemm.narrow_blocking import (
    COPIED_GROUP,
    copied_product,
    narrow_blocking,
    narrow_panel_width,
)
from autotune.targets.native.codegen.gemm.narrow_gemm import narrow_gemm
from autotune.targets.native.codegen.gemm.narrow_shape import (
    Factor,
    NarrowShape,
    lanes_in_memory,
    narrow_loops,
)
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape, VectorAxis, vector_axis
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import DOT_ISAS, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.gemm.gemm_case import AXES, shapes
from tests.targets.native.codegen.generated_code import compiled, dot_isas

RUNNABLE = dot_isas()
FORMATS = (Format.INT8, Format.UINT8)
GUARD, GUARDS = -77, 40
Ends = tuple[int | None, int | None]
ENDS = {Format.INT8: (-128, 127), Format.UINT8: (0, 255)}


@st.composite
def narrow_shapes(draw: st.DrawFn) -> NarrowShape:
    """Any product of bytes, small, its packed factor without n1."""
    shape = draw(shapes())
    shape = replace(
        shape,
        fn=draw(st.sampled_from([UnaryFn.COPY, UnaryFn.RELU])),
        scale=1.0,
        k0=draw(st.sampled_from([shape.k0, shape.k0, 17, 32])),
    )
    if vector_axis(shape) is VectorAxis.N0:
        shape = replace(shape, n1=1)
    return NarrowShape(replace(shape, panel=1), draw(factors()), draw(factors()))


@st.composite
def factors(draw: st.DrawFn) -> Factor:
    format = draw(st.sampled_from(FORMATS))
    low, high = ENDS[format]
    return Factor(format, draw(st.sampled_from([0, 0, low, high, 3, -100, 255])))


def walk(flat: np.ndarray, shape: GemmShape, name: str) -> np.ndarray:
    """The strided array in a flat one."""
    sizes = [getattr(shape, axis) for axis in AXES[name]]
    steps = [flat.itemsize * getattr(shape, f"{name}_{axis}") for axis in AXES[name]]
    return np.lib.stride_tricks.as_strided(flat, sizes, steps)


def extent(shape: GemmShape, name: str) -> int:
    return 1 + sum((getattr(shape, d) - 1) * getattr(shape, f"{name}_{d}") for d in AXES[name])


def drawn(rng: np.random.Generator, factor: Factor, count: int, end: int | None) -> np.ndarray:
    """Bytes all over, a third of them the ends of their range; or all of them one ``end``."""
    low, high = ENDS[factor.format]
    if end is not None:
        return np.full(count, (low, high)[end], ARRAY_TYPES[factor.format])
    values = rng.integers(low, high, count, endpoint=True)
    ends = rng.random(count) < 1 / 3
    return np.where(ends, rng.choice([low, high], count), values).astype(ARRAY_TYPES[factor.format])


def expected(narrow: NarrowShape, arrays: dict[str, np.ndarray], trip: int) -> np.ndarray:
    """c[m,n1,n0] in int64, wrapped as the ISA says."""
    s = narrow.product
    a = walk(arrays["a"], s, "a").astype(np.int64) - narrow.a.zero
    b = walk(arrays["b"], s, "b").astype(np.int64) - narrow.b.zero
    total = np.einsum("mkji,kjinp->mnp", a, b)
    if s.accumulate == When.ALWAYS or (s.accumulate == When.BY_LEVEL and trip != 0):
        total = total + walk(arrays["c"][GUARDS:], s, "c")
    if s.epilogue == When.ALWAYS or (s.epilogue == When.BY_LEVEL and trip == s.last):
        if s.bias == BiasAxis.M:
            total = total + arrays["bias"][:, None, None]
        elif s.bias == BiasAxis.N0:
            total = total + arrays["bias"]
        total = (total + walk(arrays["r"], s, "r") if s.adds else total).astype(np.int32)
        total = np.maximum(total, 0) if s.fn is UnaryFn.RELU else total
    return total.astype(np.int32)


def check(narrow: NarrowShape, isa: VectorIsa, seed: int = 0, ends: Ends = (None, None)) -> None:
    """Run one kernel on each trip that matters, against the oracle; ``ends`` are of a and b."""
    if not narrow.copies:
        width = narrow_panel_width(narrow, isa)
        narrow = replace(narrow, product=replace(narrow.product, panel=width))
    s, rng = narrow.product, np.random.default_rng(seed)
    words = lambda count: rng.integers(-(2**30), 2**30, count).astype(np.int32)  # noqa: E731
    arrays = {
        "a": drawn(rng, narrow.a, extent(s, "a"), ends[0]),
        "b": drawn(rng, narrow.b, extent(s, "b"), ends[1]),
        "c": np.full(extent(s, "c") + 2 * GUARDS, GUARD, np.int32),
        "bias": words(s.m if s.bias == BiasAxis.M else s.n0),
        "r": words(extent(s, "r")),
    }
    walk(arrays["c"][GUARDS:], s, "c")[...] = words((s.m, s.n1, s.n0))
    factor = "a" if narrow.axis is VectorAxis.M else "b"
    panels = arrays[factor]
    if not narrow.copies:
        packed = narrow_packed(narrow, isa)
        assert packed is not None
        panels = np.empty(packed.elements, np.float32)
        packed.pack(arrays[factor], panels)
    run = compiled(narrow_gemm(narrow, isa), isa)
    for trip in sorted({0, 1, s.last}) if s.numbers else (0,):
        c = arrays["c"].copy()
        given = {**arrays, factor: panels, "c": c[GUARDS:]}
        run(*(given[name] for name in s.operands), numbers=(trip,) if s.numbers else ())
        got = walk(c[GUARDS:], s, "c")
        np.testing.assert_array_equal(got, expected(narrow, arrays, trip), err_msg=str(narrow))
        got[...] = GUARD
        assert (c == GUARD).all(), (narrow, trip, "wrote outside of c")


def dense(m: int, n: int, k: int, a: Factor, b: Factor) -> NarrowShape:
    """c[m,n] = a[m,k]·b[k,n], all dense."""
    product = GemmShape(
        m=m, n0=n, k0=k, a_m=k, a_k0=1, b_k0=n, b_n0=1, c_m=n, c_n0=1, panel=1
    )  # fmt: skip
    return NarrowShape(product, a, b)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@given(narrow_shapes(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_any_product_of_bytes_equals_numpy(isa: VectorIsa, shape: NarrowShape, seed: int) -> None:
    check(shape, isa, seed)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@pytest.mark.parametrize("a", FORMATS)
@pytest.mark.parametrize("b", FORMATS)
@pytest.mark.parametrize("ends", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_extreme_bytes_do_not_saturate(isa: VectorIsa, a: Format, b: Format, ends: Ends) -> None:
    """−128·−128 and 255·127 in every place: instructions that add pairs in 16 bits would saturate."""
    check(dense(7, 40, 131, Factor(a), Factor(b)), isa, ends=ends)
    check(dense(7, 40, 64, Factor(a, ENDS[a][0]), Factor(b, ENDS[b][1])), isa, ends=ends)


@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
@pytest.mark.parametrize("zero", [0, 3])
def test_products_whose_panels_are_prefetched_equal_numpy(isa: VectorIsa, zero: int) -> None:
    """Several tiles of rows, runs with a rest behind whole groups, and runs without a whole group."""
    for depth in (131, 64, 3):
        check(dense(61, 90, depth, Factor(Format.UINT8, 7), Factor(Format.INT8, zero)), isa)


def across(m: int, n: int, k: int, a: Factor, b: Factor) -> NarrowShape:
    """c[m,n] = a[m,k]·bᵀ of b[n,k], all dense: queries by keys."""
    shape = dense(m, n, k, a, b)
    return replace(shape, product=replace(shape.product, b_k0=1, b_n0=k))


COPYING = [isa for isa in RUNNABLE if isa.dot.group == COPIED_GROUP]


@pytest.mark.parametrize("isa", COPYING, ids=lambda isa: isa.name)
@pytest.mark.parametrize("make", [dense, across])
@pytest.mark.parametrize("b", FORMATS)
@pytest.mark.parametrize("a", FORMATS)
def test_products_that_copy_their_panels_equal_numpy(
    isa: VectorIsa, make: Callable[..., NarrowShape], a: Format, b: Format
) -> None:
    """Odd and even depths, less than a group to several; panels of one width, and a narrower last one; zero points."""
    for m, n, k in (
        (1, 20, 9),
        (8, 2, 5),
        (9, 17, 3),
        (98, 196, 64),
        (21, 333, 131),
        (16, 64, 196),
    ):
        for zeros in ((0, 0), (7, ENDS[b][0]), (ENDS[a][1], 3)):
            shape = copied_product(make(m, n, k, Factor(a, zeros[0]), Factor(b, zeros[1])), isa)
            assert shape is not None and shape.copies
            check(shape, isa)
            check(shape, isa, ends=(1, 0))
            check(shape, isa, ends=(0, 1))


@pytest.mark.parametrize("isa", COPYING, ids=lambda isa: isa.name)
@given(narrow_shapes(), st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_any_product_that_may_copy_equals_numpy(
    isa: VectorIsa, shape: NarrowShape, seed: int, vectors: int
) -> None:
    if lanes_in_memory(shape) is None:
        with pytest.raises(ProgramError, match="in pieces"):
            copying = replace(shape, copies=True)
            width = vectors * isa.lanes
            copying = replace(copying, product=replace(copying.product, panel=width))
            narrow_gemm(copying, isa)
        return
    product = replace(shape.product, panel=vectors * isa.lanes)
    check(replace(shape, product=product, copies=True), isa, seed)


def test_a_product_copies_only_where_fours_are_multiplied_and_a_panel_fits_the_stack() -> None:
    bytes_by = (Factor(Format.UINT8), Factor(Format.UINT8))
    isa, pairs = DOT_ISAS[0], VECTOR_ISAS[0]
    assert copied_product(dense(98, 196, 64, *bytes_by), isa) is not None
    assert copied_product(dense(98, 196, 64, *bytes_by), pairs) is None
    assert copied_product(dense(98, 196, 5000, *bytes_by), isa) is None, "no room on the stack"
    long = copied_product(dense(98, 196, 2500, *bytes_by), isa)
    assert long is not None and long.product.panel == isa.lanes


def test_panels_are_prefetched_where_few_rows_share_them() -> None:
    seen = set()
    for isa in (*DOT_ISAS, *VECTOR_ISAS):
        for rows, prefetches in ((1, False), (isa.registers, True), (2000, False)):
            shape = dense(rows, 8 * isa.lanes, 64, Factor(Format.UINT8, 3), Factor(Format.INT8))
            shape = replace(shape, product=replace(shape.product, panel=2 * isa.lanes))
            loops, _ = narrow_loops(shape, isa)
            if narrow_blocking(shape, loops, isa, 2 * isa.lanes).rows_outside:
                continue  # a tile of rows reads all panels: none is shared
            seen.add((isa, prefetches))
            text = narrow_gemm(shape, isa).ir
            assert ("i32 0, i32 2, i32 1)" in text) is prefetches, (isa, rows)
    assert {True, False} == {prefetches for _, prefetches in seen}


@pytest.mark.parametrize("isa", (*DOT_ISAS, *VECTOR_ISAS), ids=lambda isa: isa.name)
def test_code_is_generated_for_every_instruction_set(isa: VectorIsa) -> None:
    shape = dense(7, 40, 131, Factor(Format.UINT8, 3), Factor(Format.INT8))
    width = narrow_panel_width(shape, isa)
    shape = replace(shape, product=replace(shape.product, panel=width))
    code = CodeGenerator(GENERIC[isa]).assembly(narrow_gemm(shape, isa))
    wanted = {
        "avx512bf16": "vpdpbusd",
        "avx512vnni": "vpdpbusd",
        "avxvnni": "vpdpbusd",
        "neondot": "sdot",
    }
    products = {"avx512": "vpmaddwd", "avx2": "vpmaddwd", "sse2": "pmaddwd", "neon": "mla"}
    assert (wanted | products)[isa.name] in code


def test_a_factor_that_is_not_in_panels_is_refused() -> None:
    isa = VECTOR_ISAS[0]
    with pytest.raises(ProgramError, match="panels of 1"):
        narrow_gemm(dense(4, 8, 8, Factor(Format.INT8), Factor(Format.INT8)), isa)
