"""Rows of a register tile stay in an L1 cache: those that share a set are as many as it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.targets.native.codegen.gemm.blocking import MAX_ROWS, WAYS, best_blocking
from autotune.targets.native.codegen.gemm.loops import Axis, Loops, Reduction
from autotune.targets.native.codegen.gemm.shape import VectorAxis
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512


def product(stride: int, depth: int, step: int = 1) -> Loops:
    """196 rows of 64 columns; the rows of the broadcast factor are ``stride`` elements apart."""
    rows = Axis(196, 64, 0, 0, stride)
    columns = Axis(64, 1, 0, 1, 0)
    reductions = (Reduction(depth, 64, step),)
    return Loops(VectorAxis.N0, Axis(), Axis(), rows, columns, reductions, 0, 1)


def most(loops: Loops) -> int:
    blocking = best_blocking(loops, AVX512, width=32)
    return max(tiles.rows for panels in blocking.panels for tiles in panels.tiles)


@pytest.mark.parametrize("stride", [1024, 2048, 3072, 4096, 8192])
def test_rows_that_share_a_set_are_as_many_as_it_holds(stride: int) -> None:
    assert most(product(stride, stride)) == WAYS


@pytest.mark.parametrize("stride", [960, 1000, 1040, 2064, 512, 1536, 2560])
def test_rows_in_other_sets_and_in_two_of_them_fill_the_registers(stride: int) -> None:
    assert most(product(stride, stride)) == MAX_ROWS


def test_rows_whose_lines_are_not_needed_again_fill_the_registers() -> None:
    assert most(product(2048, 16)) == MAX_ROWS, "a row is one line"
    assert most(product(4096, 64, step=16)) == MAX_ROWS, "each element is a line of its own"


def test_the_innermost_reduction_decides() -> None:
    windows = replace(
        product(1024, 1024), reductions=(Reduction(3, 65536, 8192), Reduction(1024, 64, 1))
    )
    assert most(windows) == WAYS


def test_fewer_registers_allow_fewer_rows_anyway() -> None:
    blocking = best_blocking(product(2048, 2048), AVX2)
    same = best_blocking(product(2064, 2048), AVX2)
    assert [p.tiles for p in blocking.panels] == [p.tiles for p in same.panels]
