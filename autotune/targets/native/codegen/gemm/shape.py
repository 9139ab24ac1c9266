"""The constants of an fp32 MATMUL, as given to the generator gemm.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.isa.notation import EPILOGUE_FUNCTIONS

PANEL_FORMATS = (Format.FP32, Format.BF16, Format.FP16, Format.INT8, Format.UINT8)
"""Formats of a packed factor's elements."""


class BiasAxis(IntEnum):
    """Which axis of c the dense vector ``bias`` runs along; the codes are MATMUL's."""

    NONE = 0
    M = 1
    N0 = 2


class VectorAxis(IntEnum):
    """Which axis of c the lanes of a register run along. The factor with that axis (a has m, b has
    n0) is read in vectors, and may be packed in panels; the other's elements are broadcast."""

    M = 0
    N0 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmShape:
    """c[m,n1,n0] (+)= Σ a[m,k2,k1,k0]·b[k2,k1,k0,n1,n0], then fn(scale·c + bias + r); names are the
    fields of MATMUL in docs/isa.md. Strides are in elements.

    With ``panel`` = NR the factor of ``vector_axis(shape)`` is given packed, as
    [ceil(V/NR)][k2·k1·k0][NR] with zeros behind the V-th; its strides then only choose the axis.
    Elements of panels are of ``panel_format``, and widened in registers. ``lanes`` is the axis that they run
    along, None where ``vector_axis`` may choose it. c of a ``c_format`` is written once, rounded, and never read.
    With ``adds_last`` r, which lies apart from c, is added to scale·c + bias, which was rounded, as by an instruction of
    its own.
    With a ``group``, m is several groups of so many outputs, and each reads its own k0 of b, as many as it has
    outputs: those of a group behind those of the one before.
    BY_LEVEL goes by the kernel's one number, the reduction loop's trip: accumulates unless it is 0,
    ends with the epilogue if it is ``last``. Raises ProgramError for what no MATMUL may be.
    """

    m: int = 1
    n1: int = 1
    n0: int = 1
    k2: int = 1
    k1: int = 1
    k0: int = 1
    a_m: int = 0
    a_k2: int = 0
    a_k1: int = 0
    a_k0: int = 0
    b_k2: int = 0
    b_k1: int = 0
    b_k0: int = 0
    b_n1: int = 0
    b_n0: int = 0
    c_m: int = 0
    c_n1: int = 0
    c_n0: int = 0
    r_m: int = 0
    r_n1: int = 0
    r_n0: int = 0
    accumulate: When = When.NEVER
    epilogue: When = When.NEVER
    last: int = 0
    bias: BiasAxis = BiasAxis.NONE
    fn: UnaryFn = UnaryFn.COPY
    p0: float = 0.0
    p1: float = 0.0
    scale: float = 1.0
    adds: bool = False
    adds_last: bool = False
    panel: int | None = None
    panel_format: Format = Format.FP32
    lanes: VectorAxis | None = None
    c_format: Format = Format.FP32
    group: int = 0

    def __post_init__(self) -> None:
        for name in ("m", "n1", "n0", "k2", "k1", "k0"):
            if getattr(self, name) < 1:
                raise ProgramError(f"matmul: {name} is {getattr(self, name)}; give at least 1")
        for field in fields(self):
            if field.name[:2] in ("a_", "b_", "c_", "r_") and getattr(self, field.name) < 0:
                raise ProgramError(f"matmul: {field.name} is negative; give strides of 0 and up")
        if self.fn not in EPILOGUE_FUNCTIONS:
            raise ProgramError(f"matmul: fn {self.fn.name}; its epilogue has copy to clip only")
        if self.panel is not None and self.panel < 1:
            raise ProgramError(f"matmul: panels of {self.panel}; give at least 1")
        if self.panel_format not in PANEL_FORMATS:
            raise ProgramError(
                f"matmul: panels of {self.panel_format.name}; give FP32, BF16, FP16, INT8 or UINT8"
            )
        if self.c_format is not Format.FP32 and (
            self.accumulate is not When.NEVER or self.epilogue is When.BY_LEVEL
        ):
            raise ProgramError(
                f"matmul: c of {self.c_format.name} is written once; give fp32 for sums in pieces"
            )
        if self.group and not (
            self.k0 == self.group
            and self.m % self.group == 0
            and self.b_k0 == 1
            and self.lanes is VectorAxis.M
            and self.panel is not None
        ):
            raise ProgramError(
                f"matmul: groups of {self.group}; give m in whole groups in lanes, k0 = {self.group} dense "
                "in b, and panels"
            )
        if self.panel is not None and self.n1 > 1 and vector_axis(self) is VectorAxis.N0:
            raise ProgramError(
                f"matmul: b in panels with n1 = {self.n1}; panels have no n1, give 1"
            )

    @property
    def has_bias(self) -> bool:
        """Whether the kernel reads a bias."""
        return self.epilogue != When.NEVER and self.bias != BiasAxis.NONE

    @property
    def has_residual(self) -> bool:
        """Whether the kernel reads r."""
        return self.epilogue != When.NEVER and self.adds

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the kernel's operands, in their order."""
        return ("a", "b", "c", *("bias",) * self.has_bias, *("r",) * self.has_residual)

    @property
    def numbers(self) -> int:
        """Number of run-time integers: the trip of the reduction loop, if anything goes by it."""
        return int(When.BY_LEVEL in (self.accumulate, self.epilogue))


def vector_axis(shape: GemmShape) -> VectorAxis:
    """The axis that lanes run along: as the shape says, else the one of unit stride in c and in its factor,
    else in c, else in its factor; of equals the longer."""
    if shape.lanes is not None:
        return shape.lanes

    def merit(size: int, c: int, factor: int) -> tuple[bool, bool, bool, int]:
        return (size > 1, c == 1, factor == 1, size)

    by_m = merit(shape.m, shape.c_m, shape.a_m)
    return VectorAxis.M if by_m > merit(shape.n0, shape.c_n0, shape.b_n0) else VectorAxis.N0
