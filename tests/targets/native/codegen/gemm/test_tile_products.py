"""Products by tile registers are bit-equal to products by vectors where they are of bytes, and write nothing but c."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.isa.formats import Format
from autotune.targets.native.codegen.gemm import tile_plan as planning
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_panel_width
from autotune.targets.native.codegen.gemm.narrow_gemm import narrow_gemm
from autotune.targets.native.codegen.gemm.narrow_shape import Factor, NarrowShape, narrow_loops
from autotune.targets.native.codegen.gemm.shape import GemmShape, VectorAxis
from autotune.targets.native.codegen.gemm.tile_plan import LINE_BYTES, pieces, tile_plan
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC, NARROWER
from autotune.targets.native.cpu.vector_isa import AMX, AVX512_BF16
from tests.targets.native.codegen.gemm.gemm_case import GUARD, GUARDS, Case, view
from tests.targets.native.codegen.gemm.test_half_gemm import HALF, half_shapes, operands, rounded
from tests.targets.native.codegen.gemm.test_narrow_gemm import check, dense, narrow_shapes
from tests.targets.native.codegen.generated_code import compiled, runs_tiles

needs_tiles = pytest.mark.skipif(not runs_tiles(), reason="neither AMX nor AVX-512 to emulate it")
UNSIGNED, SIGNED = Factor(Format.UINT8, 7), Factor(Format.INT8, -3)
WEIGHT = Factor(Format.INT8)


@contextmanager
def tiles_everywhere() -> Iterator[None]:
    """Small products in tiles of copied rows too, which vectors multiply faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_cycles", lambda *_: 0.0)
        patch.setattr(planning, "_in_place", lambda *_: None)
        tile_plan.cache_clear()
        try:
            yield
        finally:
            tile_plan.cache_clear()


def convolution(
    height: int, width: int, channels: int, filters: int, taps: int, a: Factor
) -> NarrowShape:
    """A convolution of a padded image, channels last, whose lines are rows apart."""
    pitch = (width + taps - 1) * channels
    product = GemmShape(
        m=filters,
        n1=height,
        n0=width,
        k2=taps,
        k1=taps,
        k0=channels,
        a_m=1,
        a_k2=taps * channels * filters,
        a_k1=channels * filters,
        a_k0=filters,
        b_k2=pitch,
        b_k1=channels,
        b_k0=1,
        b_n1=pitch,
        b_n0=channels,
        c_m=1,
        c_n1=width * filters,
        c_n0=filters,
        panel=1,
        lanes=VectorAxis.M,
    )
    return NarrowShape(product, HALF if a is HALF else WEIGHT, a)


@needs_tiles
@given(narrow_shapes(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_any_product_of_bytes_in_tiles_equals_numpy(shape: NarrowShape, seed: int) -> None:
    """All signs, zero points, epilogues and strides; sizes on either side of a tile's."""
    with tiles_everywhere():
        check(shape, AMX, seed)


@needs_tiles
@pytest.mark.parametrize("a", [UNSIGNED, SIGNED], ids=["unsigned", "signed"])
@pytest.mark.parametrize(
    "sizes", [(1, 16, 4), (15, 17, 63), (16, 32, 64), (33, 48, 65), (49, 90, 300), (200, 33, 129)]
)
def test_edges_of_tiles_equal_numpy(sizes: tuple[int, int, int], a: Factor) -> None:
    with tiles_everywhere():
        assert tile_plan(dense(*sizes, a, WEIGHT), AMX) is not None
        check(dense(*sizes, a, WEIGHT), AMX)


@needs_tiles
@pytest.mark.parametrize("ends", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("a", [Format.INT8, Format.UINT8])
def test_extreme_bytes_do_not_saturate(a: Format, ends: tuple[int, int]) -> None:
    with tiles_everywhere():
        check(dense(40, 40, 1030, Factor(a), WEIGHT), AMX, ends=ends)


@needs_tiles
@pytest.mark.parametrize("a", [UNSIGNED, SIGNED], ids=["unsigned", "signed"])
@pytest.mark.parametrize(
    "case", [(7, 7, 20, 40, 3), (14, 14, 64, 64, 3), (9, 5, 3, 16, 7), (3, 5, 530, 33, 2)]
)
def test_convolutions_in_tiles_equal_numpy(case: tuple[int, ...], a: Factor) -> None:
    """Rows over several lines of an image, runs that end within a chunk, a chunk that overlaps, and cache lines
    in loops."""
    height, width, channels, filters, taps = case
    with tiles_everywhere():
        shape = convolution(height, width, channels, filters, taps, a)
        assert tile_plan(shape, AMX) is not None
        check(shape, AMX)


@needs_tiles
@pytest.mark.parametrize(
    ("near", "most", "copied"), [(1 << 30, 1 << 30, 32), (0, 1 << 30, 96), (0, 20 << 10, 64)]
)
def test_rows_copied_all_at_once_or_in_portions_equal_numpy(
    near: int, most: int, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block of rows at a time; all of them; more than a block, and a last portion of fewer rows."""
    monkeypatch.setattr(planning, "NEAR_PANELS_BYTES", near)
    monkeypatch.setattr(planning, "MOST_COPIED_BYTES", most)
    with tiles_everywhere():
        for shape in (
            dense(77, 100, 200, SIGNED, WEIGHT),
            convolution(7, 11, 24, 100, 3, UNSIGNED),
        ):
            plan = tile_plan(shape, AMX)
            assert plan is not None and plan.copied == copied
            check(shape, AMX)


def test_large_panels_pass_by_as_few_portions_as_the_cache_allows() -> None:
    """A convolution of 1,024 channels: panels of 9 MB pass 4 times, and by blocks of rows 8 times."""
    with tiles_everywhere():
        plan = tile_plan(convolution(16, 16, 1024, 1024, 3, UNSIGNED), AMX)
    assert plan is not None and plan.in_place is None
    assert plan.copied * plan.pitch <= planning.MOST_COPIED_BYTES
    assert -(-plan.rows // plan.copied) == 4 < plan.rows // planning.BLOCK_ROWS


@needs_tiles
@given(half_shapes(), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_any_product_of_bf16_in_tiles_is_within_fp32_rounding(
    narrow: NarrowShape, seed: int
) -> None:
    with tiles_everywhere():
        free = replace(narrow, product=replace(narrow.product, panel=1))
        width = narrow_panel_width(free, AMX)
        check_half(replace(narrow, product=replace(narrow.product, panel=width)), seed)


def check_half(narrow: NarrowShape, seed: int = 0) -> None:
    """Run a kernel of bf16 on each trip that matters, against the oracle."""
    s, case = narrow.product, Case.of(narrow.product, seed)
    case = replace(case, a=rounded(case.a), b=rounded(case.b))
    run = compiled(narrow_gemm(narrow, AMX), AMX)
    for trip in sorted({0, 1, s.last}) if s.numbers else (0,):
        c = case.c.copy()
        run(*operands(narrow, case, c, AMX), numbers=(trip,) if s.numbers else ())
        want, bound = case.expected(trip, case.r)
        got = view(c[GUARDS:], s, "c")
        assert (abs(got - want) <= bound).all(), (narrow, trip, abs(got - want).max())
        got[...] = GUARD
        assert (c == GUARD).all(), (narrow, trip, "wrote outside of c")


@needs_tiles
def test_long_rows_of_bf16_are_copied_in_loops() -> None:
    """A convolution of 1,024 channels copies 288 lines a row: tiles multiply it, and its code stays short."""
    narrow = convolution(2, 17, 1024, 33, 3, HALF)
    narrow = replace(narrow, product=replace(narrow.product, panel=AMX.lanes))
    with tiles_everywhere():
        plan = tile_plan(narrow, AMX)
        assert plan is not None and plan.in_place is None
        found = pieces(plan, narrow_loops(narrow, AMX)[1])
        assert plan.lines == sum(piece.lines for piece in found) == 288
        assert len(found) == 3 and all(piece.is_looped for piece in found)
        width = narrow_panel_width(narrow, AMX)
        check_half(replace(narrow, product=replace(narrow.product, panel=width)))


@pytest.mark.parametrize(
    "narrow",
    [
        dense(4, 16, 300_001, UNSIGNED, WEIGHT),
        convolution(1, 40, 1040, 16, 9, HALF),
        convolution(2, 70_000, 64, 16, 2, UNSIGNED),
    ],
)
def test_the_stack_holds_what_a_plan_puts_there(narrow: NarrowShape) -> None:
    """Very long rows are multiplied by vectors, very long lines are copied block by block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_cycles", lambda *_: 0.0)
        plan = tile_plan.__wrapped__(narrow, AMX)
    if narrow.product.n0 < planning.MOST_WAITING:
        assert plan is None
    else:
        assert plan is not None and plan.in_place is None
        assert plan.copied * plan.pitch <= planning.MOST_COPIED_BYTES


def test_tiles_multiply_what_is_large_and_vectors_the_rest() -> None:
    large, row = dense(196, 256, 256, UNSIGNED, WEIGHT), dense(1, 256, 256, UNSIGNED, WEIGHT)
    shifted = dense(196, 256, 256, UNSIGNED, Factor(Format.INT8, 3))
    assert tile_plan(large, AMX) is not None
    assert tile_plan(row, AMX) is None
    assert tile_plan(shifted, AMX) is None  # sums of rows would be needed
    assert tile_plan(large, AVX512_BF16) is None
    assert NARROWER[AMX] is AVX512_BF16


def test_pieces_of_a_row_hold_each_of_its_bytes_once() -> None:
    """They neither overlap nor reach behind the last chunk, and the last chunk repeats nothing."""
    with tiles_everywhere():
        for sizes in ((7, 7, 20, 40, 3), (9, 5, 3, 16, 7), (14, 14, 64, 64, 3)):
            shape = convolution(*sizes, UNSIGNED)
            plan = tile_plan(shape, AMX)
            assert plan is not None
            _, groups = narrow_loops(shape, AMX)
            found = pieces(plan, groups)
            taken = [piece.target + i for piece in found for i in range(piece.size)]
            assert len(set(taken)) == len(taken) == sizes[2] * sizes[4] ** 2
            assert max(taken) < plan.chunks * LINE_BYTES
            border = (plan.chunks - 1) * plan.chunk * 4
            assert not any(border <= at < border + 4 * plan.overlap for at in taken)


@pytest.mark.parametrize(
    ("a", "b", "instruction"),
    [(UNSIGNED, WEIGHT, "tdpbusd"), (SIGNED, WEIGHT, "tdpbssd"), (HALF, HALF, "tdpbf16ps")],
)
def test_code_multiplies_tiles(a: Factor, b: Factor, instruction: str) -> None:
    """Compiled for a CPU with tiles on any host; tiles are released behind it."""
    shape = dense(64, 64, 512, a, b)
    shape = replace(shape, product=replace(shape.product, panel=narrow_panel_width(shape, AMX)))
    code = CodeGenerator(GENERIC[AMX]).assembly(narrow_gemm(shape, AMX))
    assert instruction in code and "ldtilecfg" in code and "tilerelease" in code
