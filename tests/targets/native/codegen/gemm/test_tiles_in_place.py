"""Products whose tiles read rows in place are bit-equal to numpy's where they are of bytes, and write nothing but c."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.isa.functions import UnaryFn, When
from autotune.targets.native.codegen.gemm import tile_plan as planning
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_panel_width
from autotune.targets.native.codegen.gemm.narrow_shape import Factor, NarrowShape
from autotune.targets.native.codegen.gemm.shape import BiasAxis
from autotune.targets.native.codegen.gemm.tile_plan import TILE_ROWS, InPlace, TilePlan, tile_plan
from autotune.targets.native.cpu.vector_isa import AMX
from tests.targets.native.codegen.gemm.test_half_gemm import HALF
from tests.targets.native.codegen.gemm.test_narrow_gemm import check, dense
from tests.targets.native.codegen.gemm.test_tile_products import (
    SIGNED,
    UNSIGNED,
    WEIGHT,
    check_half,
    convolution,
    needs_tiles,
)


@contextmanager
def in_place_everywhere(near: int = planning.NEAR_PANELS_BYTES) -> Iterator[None]:
    """Rows are read in place wherever they can be, also by products that are faster otherwise."""

    def cycles(plan: TilePlan, *_: object) -> float:
        return 1.0 if plan.in_place is None else 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_cycles", cycles)
        patch.setattr(planning, "NEAR_PANELS_BYTES", near)
        tile_plan.cache_clear()
        try:
            yield
        finally:
            tile_plan.cache_clear()


def in_place(narrow: NarrowShape) -> InPlace:
    plan = tile_plan(narrow, AMX)
    assert plan is not None and plan.in_place is not None
    return plan.in_place


@needs_tiles
@given(
    st.integers(1, 9),
    st.integers(1, 50),
    st.sampled_from([64, 128, 192]),
    st.integers(1, 70),
    st.integers(1, 3),
    st.sampled_from([0, planning.NEAR_PANELS_BYTES]),
    st.sampled_from([UNSIGNED, SIGNED]),
    st.sampled_from(When),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=120, deadline=None)
def test_any_convolution_in_place_equals_numpy(
    height: int,
    width: int,
    channels: int,
    filters: int,
    taps: int,
    near: int,
    a: Factor,
    when: When,
    ends: bool,
    seed: int,
) -> None:
    """Lines of any length, few and many; tiles that repeat rows store the same sums, also where c adds them."""
    narrow = convolution(height, width, channels, filters, taps, a)
    product = replace(narrow.product, accumulate=when, last=2)
    if ends:
        product = replace(product, epilogue=When.ALWAYS, bias=BiasAxis.M, fn=UnaryFn.RELU)
    with in_place_everywhere(near):
        if height * width >= TILE_ROWS:
            in_place(narrow)
        check(replace(narrow, product=product), AMX, seed)


@needs_tiles
@pytest.mark.parametrize("rows", [16, 17, 31, 33, 49, 100, 256, 300])
@pytest.mark.parametrize("near", [0, planning.NEAR_PANELS_BYTES])
def test_rows_of_a_matrix_in_place_equal_numpy(rows: int, near: int) -> None:
    """Portions of 256 rows and of 32; the last tile begins earlier."""
    with in_place_everywhere(near):
        assert in_place(dense(rows, 40, 128, SIGNED, WEIGHT)).rows == 1
        check(dense(rows, 40, 128, SIGNED, WEIGHT), AMX)


@needs_tiles
@pytest.mark.parametrize("size", [(5, 16), (3, 28), (4, 7), (2, 40)])
def test_convolutions_of_bf16_in_place_are_within_fp32_rounding(size: tuple[int, int]) -> None:
    narrow = convolution(*size, 32, 20, 3, HALF)
    narrow = replace(narrow, product=replace(narrow.product, panel=AMX.lanes))
    with in_place_everywhere():
        in_place(narrow)
        width = narrow_panel_width(narrow, AMX)
        check_half(replace(narrow, product=replace(narrow.product, panel=width)))


@pytest.mark.parametrize(
    ("size", "across", "tiles"),
    [
        ((16, 16), False, 16),  # two lines at once
        ((14, 14), True, 14),  # two lines are 30 rows with what lies between them
        ((7, 7), True, 5),  # three lines are 25 rows, four are 34
        ((32, 44), False, 96),  # each line is three tiles
    ],
)
def test_tiles_go_across_lines_where_that_takes_fewer(
    size: tuple[int, int], across: bool, tiles: int
) -> None:
    with in_place_everywhere():
        found = in_place(convolution(*size, 64, 64, 3, UNSIGNED))
    assert (found.across, found.tiles) == (across, tiles)


def test_portions_hold_all_lines_once_and_fill_a_tile() -> None:
    for lines in range(2, 60):
        for portion, least in ((1, 1), (2, 2), (28, 2), (32, 16), (256, 16)):
            if lines < least:
                continue
            found = InPlace(lines, 8, 64, 9, True, portion, least).portions
            assert sum(count * each for _, count, each in found) == lines
            assert all(each >= min(least, portion) for _, _, each in found)
            befores = [before for before, _, _ in found]
            assert befores == [0, found[0][1] * found[0][2]][: len(found)]


def test_rows_that_are_no_whole_lines_are_copied() -> None:
    with in_place_everywhere():
        for narrow in (
            convolution(16, 16, 96, 64, 3, UNSIGNED),
            dense(64, 64, 100, SIGNED, WEIGHT),
            dense(15, 64, 128, SIGNED, WEIGHT),
        ):
            plan = tile_plan(narrow, AMX)
            assert plan is not None and plan.in_place is None
