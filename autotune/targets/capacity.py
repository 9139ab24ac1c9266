"""What the tiles of one core may take of its scratchpad, and of a memory for sums beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # specs are read without numpy
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Capacity:
    """Words of 4 bytes that the tiles of one core may take: ``elements`` in all.

    Of these, ``sums_elements`` hold sums of products and nothing else, and the rest holds no sums; 0 where one memory
    holds both.
    """

    elements: int
    sums_elements: int = 0

    def holds(self, words: Ints, sums: Ints) -> npt.NDArray[np.bool_]:
        """Return True where tiles of so many ``words``, of which ``sums`` are sums of products, fit."""
        if not self.sums_elements:
            return words <= self.elements
        rest = self.elements - self.sums_elements
        return (sums <= self.sums_elements) & (words - sums <= rest)

    def excess(self, words: int, sums: int) -> str | None:
        """Return what of tiles does not fit, with its limit in bytes; None where all do."""
        if not self.sums_elements:
            is_over = words > self.elements
            return _taken("scratchpad: tiles", words, self.elements) if is_over else None
        if sums > self.sums_elements:
            return _taken("accumulators: sums", sums, self.sums_elements)
        rest = self.elements - self.sums_elements
        if words - sums > rest:
            return _taken("scratchpad: tiles beside sums", words - sums, rest)
        return None


def _taken(what: str, words: int, limit: int) -> str:
    return f"{what} take {4 * words:,} bytes of {4 * limit:,}"
