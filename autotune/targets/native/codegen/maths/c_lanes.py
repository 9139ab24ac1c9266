"""The arithmetic of ``vector_builder.py`` as C statements: what makes the emulator's maths of the same formulas.

Every operation is a macro of ``kernels/maths/maths_lanes.h``, which says what it is on each processor.
"""

from __future__ import annotations

import numpy as np

from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

COMPARISONS = {"olt": "LESS", "ogt": "MORE", "oeq": "SAME"}
INTEGER_COMPARISONS = {"slt": "BELOW"}
INTEGER_OPERATIONS = {"add": "PLUS", "sub": "MINUS", "and": "BOTH", "shl": "UP", "ashr": "DOWN"}


class Scalar(float):
    """A scalar operand of an instruction, known by its name until it runs; equal to no number."""

    def __new__(cls, name: str) -> Scalar:
        """A number that is not one."""
        return super().__new__(cls, "nan")

    def __init__(self, name: str) -> None:
        self.name = name


class CLanes(VectorBuilder):
    """Appends C statements to ``lines`` and returns the names of their results."""

    def __init__(self, isa: VectorIsa) -> None:
        super().__init__(FunctionWriter(0), isa)
        self.lines: list[str] = []

    def _made(self, kind: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {text};")
        return name

    def _float(self, name: str, *arguments: str) -> str:
        return self._made("VECTOR", f"{name}({', '.join(arguments)})")

    def _whole(self, name: str, *arguments: str) -> str:
        return self._made("WHOLES", f"{name}({', '.join(arguments)})")

    def constant(self, value: float) -> str:
        return f"ALL({value.name if isinstance(value, Scalar) else c_float(value)})"

    def integer(self, value: int) -> str:
        return f"ALL_WHOLE({value})"

    def add(self, x: str, y: str) -> str:
        return self._float("ADD", x, y)

    def sub(self, x: str, y: str) -> str:
        return self._float("SUB", x, y)

    def mul(self, x: str, y: str) -> str:
        return self._float("MUL", x, y)

    def div(self, x: str, y: str) -> str:
        return self._float("DIV", x, y)

    def neg(self, x: str) -> str:
        return self._float("NEG", x)

    def fma(self, x: str, y: str, z: str) -> str:
        return self._float("FMA", x, y, z)

    def abs(self, x: str) -> str:
        return self._float("SIZE", x)

    def copysign(self, magnitude: str, sign: str) -> str:
        return self._float("SIGNED", magnitude, sign)

    def compare(self, how: str, x: str, y: str) -> str:
        return self._whole(COMPARISONS[how], x, y)

    def compare_integers(self, how: str, x: str, y: str) -> str:
        return self._whole(INTEGER_COMPARISONS[how], x, y)

    def select(self, where: str, yes: str, no: str) -> str:
        return self._float("CHOSEN", where, yes, no)

    def at_least(self, x: str, low: str) -> str:
        return self._float("AT_LEAST", x, low)

    def at_most(self, x: str, high: str) -> str:
        return self._float("AT_MOST", x, high)

    def bits(self, x: str) -> str:
        return self._whole("BITS", x)

    def from_bits(self, x: str) -> str:
        return self._float("FLOATS", x)

    def from_whole(self, n: str) -> str:
        return self._float("FROM_WHOLE", n)

    def whole(self, name: str, x: str, y: str) -> str:
        if name in ("shl", "ashr"):
            y = y.removeprefix("ALL_WHOLE(").removesuffix(")")
        return self._whole(INTEGER_OPERATIONS[name], x, y)

    def exact_product(self, x: str, y: str) -> tuple[str, str]:
        if not self.isa.fused:
            return super().exact_product(x, y)
        product = self.mul(x, y)
        return product, self.fma(x, y, self.neg(product))


def c_float(value: float) -> str:
    """A fp32 constant as C spells it, exactly."""
    if value != value:
        return "NAN"
    if abs(value) == float("inf"):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{np.float32(value)!s}f"  # the fewest digits that say which number it is
