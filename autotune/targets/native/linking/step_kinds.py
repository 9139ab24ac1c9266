"""Kinds of calls: what a step of a program does, as people ask where its time goes."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from autotune.isa.opcodes import Opcode
from autotune.targets.native.binding.call import Call
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.rows.reduction import Reduction
from autotune.targets.native.codegen.rows.row_run import RowRun
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.vector_run import Constant, Load, VectorRun
from autotune.targets.native.codegen.winograd import TileTransform

MOVING = frozenset((Opcode.LOAD, Opcode.STORE, Opcode.GATHER))
"""Opcodes whose compiled kernels only move what lies elsewhere."""


class StepKind(StrEnum):
    """What a call does; the value is what people read."""

    PRODUCT = "products"
    VECTOR = "element-wise"
    ROWS = "reductions"
    COPY = "copies"
    TRANSFORM = "transforms"
    COMPILED = "not generated"


KINDS = tuple(StepKind)


def kind_of(call: Call) -> StepKind:
    """The kind of a call. A vector run that computes nothing is a copy."""
    if isinstance(call.kernel, Opcode):
        return StepKind.COPY if call.kernel in MOVING else StepKind.COMPILED
    return _generated(call.kernel)


def _generated(kernel: KernelSpec) -> StepKind:
    constants = kernel.constants
    match constants:
        case GemmShape() | NarrowShape() | TileRun():
            return StepKind.PRODUCT
        case VectorRun():
            moves = all(isinstance(node, Load | Constant) for node in constants.body)
            return StepKind.COPY if moves else StepKind.VECTOR
        case PanelCopy():
            return StepKind.COPY
        case RowRun() | Reduction():
            return StepKind.ROWS
        case TileTransform():
            return StepKind.TRANSFORM
        case _:
            assert_never(constants)
