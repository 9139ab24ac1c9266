"""Copies that put vectors side by side against numpy; what lies around stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.interleaving import COUNTS, interleaving
from autotune.targets.native.codegen.vector.vector_run import Load, Node, Output, Unary, VectorRun
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import AVX2, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

ISAS = host_isas()
MARGIN = 8


def turned(rows: int, vectors: int, length: int, apart: int = 0, *body: Node) -> VectorRun:
    """[rows, vectors, length] with ``apart`` elements between vectors → [rows, length, vectors]."""
    pitch = length + apart
    return VectorRun(
        (rows, length, vectors),
        ((vectors * pitch, 1, pitch),),
        (Output((vectors * length, vectors, 1), len(body)),),
        (Load(0, 3), *body),
    )


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@given(
    rows=st.integers(1, 3),
    vectors=st.sampled_from(COUNTS),
    length=st.integers(4, 50),
    apart=st.sampled_from([0, 5]),
)
def test_vectors_side_by_side_equal_a_transpose(
    isa: VectorIsa, rows: int, vectors: int, length: int, apart: int
) -> None:
    run = turned(rows, vectors, length, apart)
    x = np.arange(3 + rows * vectors * (length + apart), dtype=np.float32)
    found = np.full(rows * vectors * length + 2 * MARGIN, -1, np.float32)
    compiled(elementwise(run, isa), isa)(x, found[MARGIN:])
    given_ = x[3:].reshape(rows, vectors, length + apart)[:, :, :length]
    middle = found[MARGIN:-MARGIN].reshape(rows, length, vectors)
    np.testing.assert_array_equal(middle, given_.transpose(0, 2, 1))
    assert (found[:MARGIN] == -1).all() and (found[-MARGIN:] == -1).all()


def test_only_plain_copies_of_rows_as_long_as_a_register_are_such() -> None:
    assert interleaving(turned(2, 4, 8), AVX2) is not None
    assert interleaving(turned(2, 4, 7), AVX2) is None
    assert interleaving(turned(2, 5, 8), AVX2) is None
    assert interleaving(turned(2, 4, 8, 0, Unary(UnaryFn.NEG, 0)), AVX2) is None
    dense = VectorRun((4, 8), ((8, 1),), (Output((8, 1), 0),), (Load(0),))
    assert interleaving(dense, AVX2) is None


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_every_instruction_set_has_code_that_shuffles(isa: VectorIsa) -> None:
    for vectors in COUNTS:
        kernel = elementwise(turned(2, vectors, 2 * isa.lanes + 1), isa)
        assert "shufflevector" in kernel.ir
        assert CodeGenerator(GENERIC[isa]).object(kernel)
