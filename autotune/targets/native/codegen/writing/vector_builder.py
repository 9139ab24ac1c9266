"""Arithmetic on one vector register of floats, as IR text: what vector maths and runs are written in.

Every method appends instructions to a FunctionWriter and returns the name of the result. No
fast-math flag is set anywhere: NaN, infinities and signed zeros come out as IEEE 754 says.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.cpu.vector_isa import VectorIsa

HALF_BITS = -4096
"""Mask of a float's upper 12 bits of significand: a product of two such is exact."""


class VectorBuilder:
    """``lanes`` floats (or 32-bit integers) side by side; 1 lane is a scalar."""

    def __init__(self, writer: FunctionWriter, isa: VectorIsa, lanes: int | None = None) -> None:
        self.writer, self.isa = writer, isa
        self.lanes = isa.lanes if lanes is None else lanes
        self.floats = vector(self.lanes)
        self.integers = self.floats.replace("float", "i32")
        self._suffix = f"v{self.lanes}f32" if self.lanes > 1 else "f32"

    def constant(self, value: float) -> str:
        """All lanes ``value``, rounded to fp32."""
        return self._splat("float", float_text(value))

    def integer(self, value: int) -> str:
        """All lanes the 32-bit ``value``."""
        return self._splat("i32", str(value))

    def _splat(self, kind: str, text: str) -> str:
        return f"splat ({kind} {text})" if self.lanes > 1 else text

    def _two(self, name: str, kind: str, x: str, y: str) -> str:
        return self.writer.value(f"{name} {kind} {x}, {y}")

    def add(self, x: str, y: str) -> str:
        return self._two("fadd", self.floats, x, y)

    def sub(self, x: str, y: str) -> str:
        return self._two("fsub", self.floats, x, y)

    def mul(self, x: str, y: str) -> str:
        return self._two("fmul", self.floats, x, y)

    def div(self, x: str, y: str) -> str:
        return self._two("fdiv", self.floats, x, y)

    def neg(self, x: str) -> str:
        return self.writer.value(f"fneg {self.floats} {x}")

    def fma(self, x: str, y: str, z: str) -> str:
        """x·y + z: one rounding where the instruction set has FMA, two where it has not."""
        return self._intrinsic("fmuladd", x, y, z)

    def abs(self, x: str) -> str:
        return self._intrinsic("fabs", x)

    def sqrt(self, x: str) -> str:
        return self._intrinsic("sqrt", x)

    def rounded(self, how: str, x: str) -> str:
        """To whole numbers; ``how`` is LLVM's name, as in ``floor``. Only where ``isa.rounds``."""
        return self._intrinsic(how, x)

    def copysign(self, magnitude: str, sign: str) -> str:
        return self._intrinsic("copysign", magnitude, sign)

    def _intrinsic(self, name: str, *arguments: str) -> str:
        given = [(self.floats, argument) for argument in arguments]
        return self.writer.call(self.floats, f"llvm.{name}.{self._suffix}", *given)

    def compare(self, how: str, x: str, y: str) -> str:
        """An i1 a lane; ``how`` is LLVM's name, as in ``olt``, which is false for NaN."""
        return self.writer.value(f"fcmp {how} {self.floats} {x}, {y}")

    def compare_integers(self, how: str, x: str, y: str) -> str:
        """An i1 a lane of two integers; ``how`` as in ``slt``."""
        return self.writer.value(f"icmp {how} {self.integers} {x}, {y}")

    def select(self, where: str, yes: str, no: str) -> str:
        """``yes`` or ``no``, lane by lane."""
        truth = self.floats.replace("float", "i1")
        given = f"{truth} {where}, {self.floats} {yes}, {self.floats} {no}"
        return self.writer.value(f"select {given}")

    def at_least(self, x: str, low: str) -> str:
        """``low`` where x < low, else x: NaN stays NaN. One instruction on x86."""
        return self.select(self.compare("olt", x, low), low, x)

    def at_most(self, x: str, high: str) -> str:
        """``high`` where x > high, else x: NaN stays NaN."""
        return self.select(self.compare("ogt", x, high), high, x)

    def negative(self, x: str) -> str:
        """Where the sign bit is set: of -0 and of some NaN too."""
        return self.compare_integers("slt", self.bits(x), self.integer(0))

    def bits(self, x: str) -> str:
        """The floats' 32 bits as integers."""
        return self.writer.value(f"bitcast {self.floats} {x} to {self.integers}")

    def from_bits(self, x: str) -> str:
        """Integers' bits as floats."""
        return self.writer.value(f"bitcast {self.integers} {x} to {self.floats}")

    def near_bf16(self, x: str) -> str:
        """To the nearest number of BF16, ties to even; NaN stays."""
        bits = self.bits(x)
        odd = self.whole("and", self.whole("ashr", bits, self.integer(16)), self.integer(1))
        moved = self.whole("add", bits, self.whole("add", odd, self.integer(0x7FFF)))
        near = self.from_bits(self.whole("and", moved, self.integer(-0x10000)))
        return self.select(self.compare("uno", x, x), x, near)

    def near_fp16(self, x: str) -> str:
        """To the nearest number of FP16, ties to even: below 2^-14 a multiple of 2^-24, beyond 65504 infinity; NaN stays."""
        size, magic = self.abs(x), self.constant(0.75)  # 1.5 · 2^23 · 2^-24
        small = self.sub(self.add(size, magic), magic)
        bits = self.bits(size)
        odd = self.whole("and", self.whole("ashr", bits, self.integer(13)), self.integer(1))
        moved = self.whole("add", bits, self.whole("add", odd, self.integer(0xFFF)))
        near = self.from_bits(self.whole("and", moved, self.integer(-0x2000)))
        beyond = self.compare("ogt", near, self.constant(65504.0))
        near = self.select(beyond, self.constant(float("inf")), near)
        near = self.select(self.compare("olt", size, self.constant(2.0**-14)), small, near)
        return self.select(self.compare("uno", x, x), x, self.copysign(near, x))

    def from_whole(self, n: str) -> str:
        """Whole numbers in floating point."""
        return self.writer.value(f"sitofp {self.integers} {n} to {self.floats}")

    def whole(self, name: str, x: str, y: str) -> str:
        """An instruction on integers: ``add``, ``sub``, ``shl``, ``ashr``, ``and``, ``or``."""
        return self._two(name, self.integers, x, y)

    def horner(self, coefficients: Sequence[float], x: str) -> str:
        """Σ coefficients[i] · x^i."""
        *rest, highest = coefficients
        total = self.constant(highest)
        for coefficient in reversed(rest):
            total = self.fma(total, x, self.constant(coefficient))
        return total

    def exact_product(self, x: str, y: str) -> tuple[str, str]:
        """x·y and what its rounding left out (up to 2^-46 of it without FMA: Dekker, 1971)."""
        product = self.mul(x, y)
        if self.isa.fused:
            return product, self._intrinsic("fma", x, y, self.neg(product))
        (x0, x1), (y0, y1) = self._halves(x), self._halves(y)
        low = self.sub(self.mul(x0, y0), product)
        low = self.add(self.add(low, self.mul(x0, y1)), self.mul(x1, y0))
        return product, self.add(low, self.mul(x1, y1))

    def _halves(self, x: str) -> tuple[str, str]:
        upper = self.from_bits(self.whole("and", self.bits(x), self.integer(HALF_BITS)))
        return upper, self.sub(x, upper)


def float_text(value: float) -> str:
    """A fp32 constant as IR spells it: the bits of the double of that value."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        rounded = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
