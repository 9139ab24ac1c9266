"""A micro-kernel as LLVM IR text: what generators return, the compiler takes, and steps call."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

SYMBOL = "kernel"
"""Name of the one function that a micro-kernel's module defines."""


class Source(Protocol):
    """What code is made of: a kernel's text, or what its text is written from when it is needed."""

    @property
    def digest(self) -> str:
        """32 hex digits: equal ones mean equal code."""

    def written(self) -> MicroKernel:
        """The text. Raises ``ProgramError`` where there is none."""


@dataclass(frozen=True, slots=True)
class MicroKernel:
    """A module with the one function ``void @kernel(ptr noalias %operands, ptr noalias %numbers)``.

    ``%operands`` points to ``operands`` pointers, to the first element of each operand in the order
    that the generator documents; ``%numbers`` to ``numbers`` 64-bit integers that are known only
    while a program runs (a loop's trip, coordinates of a rectangle). Operands are aligned to 4
    bytes and may be equal or overlap only as the generator says. All else is constant in the code.
    """

    ir: str
    operands: int
    numbers: int = 0

    def __post_init__(self) -> None:
        assert f"@{SYMBOL}(" in self.ir, "a micro-kernel without its function"

    def written(self) -> MicroKernel:
        """Itself: it is text already, and not a recipe for it."""
        return self

    @property
    def digest(self) -> str:
        """32 hex digits over the text: equal code has an equal digest."""
        return hashlib.sha256(self.ir.encode()).hexdigest()[:32]
