"""How far a network's numbers may move for speed: a user's choice, which the passes go by."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.graph.graph import Graph


class Accuracy(StrEnum):
    """What a user allows. EXACT: every sum of products as the model writes it, but for the order of
    its additions and the folding of constants, and functions that are written out, which become
    one operator where values differ by less than 2e-6, as by constants of six digits. Where a step on the way overflows, the function may be finite: log(1 + exp(x)) that
    becomes softplus, a softmax whose maximum is not taken off. Zeros may differ in sign.
    CLOSE: also convolutions by Winograd's F(2×2, 3×3), whose error is about 1e-6 of the range of their
    outputs, near that of the additions' order; infinity or NaN in one pixel spreads over the tiles of
    results that read it. FAST: also those by F(4×4, 3×3), whose error is about 1e-5 of it, and
    products that leave out zero blocks of their weights, which is exact for finite numbers: infinity
    and NaN do not come through them."""

    EXACT = "exact"
    CLOSE = "close"
    FAST = "fast"

    @classmethod
    def parse(cls, text: str) -> Accuracy:
        """Return the accuracy of this name. Raises ``InputError`` for any other."""
        try:
            return cls(text)
        except ValueError:
            raise InputError(f"accuracy {text!r} is not one of: {', '.join(cls)}") from None


def accuracy_of(graph: Graph) -> Accuracy:
    """The strictest choice that allows the operators of a graph."""
    from autotune.graph.op import Family
    from autotune.graph.winograd import F4
    from autotune.graph.zero_blocks import zero_blocks

    points = {graph.shape(op.inputs[1])[0] for op in graph.ops if op.family is Family.WINOGRAD}
    if F4.points in points or any(zero_blocks(op) is not None for op in graph.ops):
        return Accuracy.FAST
    return Accuracy.CLOSE if points else Accuracy.EXACT
