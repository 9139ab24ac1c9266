"""IR text of one small kernel of every generator, for AVX2 and for AVX-512.

``pytest --update-golden`` rewrites the texts in ``golden/``; review the difference.
"""

from __future__ import annotations

from typing import get_args

import pytest

from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ReduceFn, Transform, UnaryFn, When
from autotune.targets.native.codegen import kernel_spec
from autotune.targets.native.codegen.gemm.narrow_shape import Factor, NarrowShape
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape
from autotune.targets.native.codegen.rows.reduction import Reduction
from autotune.targets.native.codegen.rows.row_run import Reduce, RowRun
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.vector_run import Binary, Load, Output, Unary, VectorRun
from autotune.targets.native.codegen.winograd import TileTransform
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512, AVX512_BF16, VectorIsa
from tests.conftest import Golden

CONSTANTS = (
    GemmShape(
        m=2, n0=16, k0=3, a_m=3, a_k0=1, b_k0=16, b_n0=1, c_m=16, c_n0=1,
        epilogue=When.ALWAYS, fn=UnaryFn.RELU, bias=BiasAxis.N0,
    ),
    NarrowShape(
        GemmShape(m=2, n0=16, k0=5, a_m=5, a_k0=1, b_k0=16, b_n0=1, c_m=16, c_n0=1, panel=16),
        Factor(Format.UINT8, 7), Factor(Format.INT8),
    ),
    TileRun(
        NarrowShape(
            GemmShape(m=2, n0=16, k0=5, a_m=5, a_k0=1, b_k0=16, b_n0=1, c_m=16, c_n0=1, panel=16),
            Factor(Format.UINT8, 7), Factor(Format.INT8),
        ),
        VectorRun(
            (2, 1, 16), ((16, 0, 1), (0, 0, 1)), (Output((16, 0, 1), 2),),
            (Load(0), Load(1), Binary(BinaryFn.MUL, 0, 1)), (Format.INT32, Format.FP32, Format.UINT8),
        ),
        0,
    ),
    PanelCopy((20, 1), ((3, 20),), 16),
    VectorRun(
        (2, 20), ((32, 1), (0, 1)), (Output((20, 1), 3),),
        (Load(0), Load(1), Binary(BinaryFn.ADD, 0, 1), Unary(UnaryFn.RELU, 2)),
    ),
    RowRun(
        (2, 20), 1, ((20, 1),), (Output((20, 1), 2),),
        (Load(0), Reduce(ReduceFn.MAX, 0), Binary(BinaryFn.SUB, 0, 1)),
    ),
    Reduction(ReduceFn.SUM, (2, 20), (1, 0), (20, 1)),
    TileTransform(
        Transform.F2_INPUT, (1, 1), 16, (64, 16, 128, 32, 1), (16, 0, 0, 0, 1)
    ),
)  # fmt: skip
"""Constants of one kernel per generator."""


BF16 = NarrowShape(
    GemmShape(
        m=2, n0=16, k0=5, a_m=5, a_k0=1, b_k0=16, b_n0=1, c_m=16, c_n0=1, panel=16,
        epilogue=When.ALWAYS, fn=UnaryFn.RELU, bias=BiasAxis.N0,
    ),
    Factor(Format.BF16), Factor(Format.BF16),
)  # fmt: skip
"""What few instruction sets multiply."""


def test_every_generator_has_a_golden_text() -> None:
    assert {type(constants) for constants in CONSTANTS} == set(get_args(kernel_spec.Constants))


@pytest.mark.parametrize("isa", [AVX2, AVX512], ids=lambda isa: isa.name)
@pytest.mark.parametrize("constants", CONSTANTS, ids=lambda constants: type(constants).__name__)
def test_a_generator_writes_its_golden_text(
    constants: kernel_spec.Constants, isa: VectorIsa, golden: Golden
) -> None:
    kernel = kernel_spec.KernelSpec(constants, isa).written()
    golden(f"{type(constants).__name__}.{isa.name}.ll", kernel.ir)


def test_products_of_bf16_have_their_golden_text(golden: Golden) -> None:
    kernel = kernel_spec.KernelSpec(BF16, AVX512_BF16).written()
    golden(f"{type(BF16).__name__}.{AVX512_BF16.name}.ll", kernel.ir)
