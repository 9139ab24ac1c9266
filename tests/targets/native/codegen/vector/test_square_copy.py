"""Copies that transpose, in squares of registers, against numpy; what lies around stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.square_copy import block_elements, square_copy
from autotune.targets.native.codegen.vector.vector_run import (
    Fma,
    Load,
    Node,
    Output,
    Unary,
    VectorRun,
)
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import AVX2, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

ISAS = host_isas()
MARGIN = 8
EXTENTS = st.integers(4, 50)


def turned(rows: int, height: int, width: int, apart: int = 0, *body: Node) -> VectorRun:
    """[rows, height, width] with ``apart`` elements between lines → [rows, width, height]."""
    pitch = width + apart
    return VectorRun(
        (rows, width, height),
        ((height * pitch, 1, pitch),),
        (Output((height * width, height, 1), len(body)),),
        (Load(0, 3), *body),
    )


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@given(
    rows=st.integers(1, 3),
    height=EXTENTS,
    width=EXTENTS,
    apart=st.sampled_from([0, 5]),
    negated=st.booleans(),
)
def test_squares_equal_a_transpose(
    isa: VectorIsa, rows: int, height: int, width: int, apart: int, negated: bool
) -> None:
    run = turned(rows, height, width, apart, *([Unary(UnaryFn.NEG, 0)] * negated))
    x = np.arange(3 + rows * height * (width + apart), dtype=np.float32)
    found = np.full(rows * height * width + 2 * MARGIN, -1, np.float32)
    compiled(elementwise(run, isa), isa)(x, found[MARGIN:])
    lines = x[3:].reshape(rows, height, width + apart)[:, :, :width]
    middle = found[MARGIN:-MARGIN].reshape(rows, width, height)
    np.testing.assert_array_equal(middle, lines.transpose(0, 2, 1) * (-1) ** negated)
    assert (found[:MARGIN] == -1).all() and (found[-MARGIN:] == -1).all()


def scaled(rows: int, height: int, width: int, by_line: bool) -> VectorRun:
    """[rows, height, width] → [rows, width, height], times a factor and plus a term of each place in the height,
    or of each in the width."""
    beside = (0, 1, 0) if by_line else (0, 0, 1)
    return VectorRun(
        (rows, width, height),
        ((height * width, 1, width), beside, beside),
        (Output((height * width, height, 1), 3),),
        (Load(0), Load(1, 2), Load(2), Fma(0, 1, 2)),
    )


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@given(rows=st.integers(1, 3), height=EXTENTS, width=EXTENTS, by_line=st.booleans())
def test_squares_with_operands_beside_equal_numpy(
    isa: VectorIsa, rows: int, height: int, width: int, by_line: bool
) -> None:
    run, rng = scaled(rows, height, width, by_line), np.random.default_rng(height * width)
    x = rng.integers(-99, 99, (rows, height, width)).astype(np.float32)
    factor, term = rng.integers(-99, 99, (2, (height, width)[by_line] + 2)).astype(np.float32)
    found = np.full(x.size + 2 * MARGIN, -1, np.float32)
    assert (square_copy(run, isa) is not None) == (min(height, width) >= 4)
    compiled(elementwise(run, isa), isa)(x.reshape(-1), factor, term, found[MARGIN:])
    by = (slice(None), None) if by_line else (slice(None),)
    wanted = x.transpose(0, 2, 1) * factor[2:][by] + term[:-2][by]
    np.testing.assert_array_equal(found[MARGIN:-MARGIN].reshape(wanted.shape), wanted)
    assert (found[:MARGIN] == -1).all() and (found[-MARGIN:] == -1).all()


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("extents", [(100, 600), (70, 257), (600, 100), (33, 515)])
def test_blocks_cover_a_matrix_larger_than_one(isa: VectorIsa, extents: tuple[int, int]) -> None:
    x = np.arange(3 + 2 * extents[0] * extents[1], dtype=np.float32)
    found = np.full(x.size - 3 + 2 * MARGIN, -1, np.float32)
    compiled(elementwise(turned(2, *extents), isa), isa)(x, found[MARGIN:])
    middle = found[MARGIN:-MARGIN].reshape(2, extents[1], extents[0])
    np.testing.assert_array_equal(middle, x[3:].reshape(2, *extents).transpose(0, 2, 1))
    assert (found[:MARGIN] == -1).all() and (found[-MARGIN:] == -1).all()


@given(size=st.integers(16, 5000), most=st.sampled_from([16, 32, 256]))
def test_a_block_fits_its_extent_and_repeats_little(size: int, most: int) -> None:
    block = block_elements(size, most, 16)
    assert block % 16 == 0 and block <= min(size, most)
    assert -(-size // block) * block <= max(1.5 * size, -(-size // 16) * 16)


def test_a_square_is_as_large_as_both_extents_allow() -> None:
    edges = {
        extents: (found := square_copy(turned(2, *extents), AVX2)) and found.edge
        for extents in ((9, 30), (8, 8), (7, 30), (30, 4), (3, 30))
    }
    assert edges == {(9, 30): 8, (8, 8): 8, (7, 30): 4, (30, 4): 4, (3, 30): None}


def test_other_runs_are_none() -> None:
    dense = VectorRun((4, 8), ((8, 1),), (Output((8, 1), 0),), (Load(0),))
    assert square_copy(dense, AVX2) is None
    spread = VectorRun((8, 8), ((0, 1),), (Output((1, 8), 0),), (Load(0),))
    assert square_copy(spread, AVX2) is None
    twice = VectorRun((8, 8), ((1, 8), (8, 1)), (Output((8, 1), 0),), (Load(0), Load(1)))
    assert square_copy(twice, AVX2) is None  # the second may be the result's memory


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_every_instruction_set_has_code_that_shuffles(isa: VectorIsa) -> None:
    kernel = elementwise(
        turned(2, 2 * isa.lanes + 1, 3 * isa.lanes, 0, Unary(UnaryFn.RELU, 0)), isa
    )
    assert "shufflevector" in kernel.ir
    assert CodeGenerator(GENERIC[isa]).object(kernel)
