"""Accuracy: how far a user lets a network's numbers move for speed."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.graph.graph import Graph
    from autotune.operators.winograd import Form


class Accuracy(StrEnum):
    """Rewrites that a user allows.

    EXACT keeps every sum of products as the model writes it. Only the order of additions may
    change, constants are folded, and functions that are written out become one operator. Values
    then differ by less than 2e-6, as with constants of six digits. Where a step on the way
    overflows, the result may become finite: log(1 + exp(x)) as softplus, or a softmax whose maximum
    is not subtracted. Zeros may differ in sign.

    CLOSE also allows convolutions by Winograd's F(2×2, 3×3), and by F(4×4, 3×3) of up to
    CLOSE_CHANNELS input channels. A result is within 3e-6 of the range of the convolution's outputs
    (greatest minus least) of the exact sum; EXACT is within 1.5e-6. Over the shipped networks both
    are within 4e-5 of the range of a network's outputs
    (docs/decisions/0023-small-winograd-tiles.md). Infinity or NaN in one pixel spreads over the
    tiles that read it. Convolutions of 1×1 may be made before their image is resized, within the same bound. Large products
    by a constant matrix may be Strassen's, within the same bound of the product's range. Infinity or NaN in
    one row spreads to a row of the other half; elements along the first axis stay apart.

    FAST also allows F(4×4, 3×3) of more channels, Strassen's form of plain matrices, and products without the zero blocks of their
    weights. The latter are exact for finite numbers; infinity and NaN do not pass through them.
    """

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


CLOSE_CHANNELS = 512
"""Input channels up to which CLOSE allows F(4×4, 3×3). Its error grows with the square root of
their number, and reaches 2e-6 of the range there."""


def allows(accuracy: Accuracy, form: Form, channels: int) -> bool:
    """Return True if ``accuracy`` allows this form of Winograd's convolution of so many input channels."""
    from autotune.operators.winograd import F2

    if accuracy is Accuracy.CLOSE:
        return form is F2 or channels <= CLOSE_CHANNELS
    return accuracy is Accuracy.FAST


def allows_product(accuracy: Accuracy, result: tuple[int, ...]) -> bool:
    """Return True if ``accuracy`` allows Strassen's form of a product with this result: the rows of a plain matrix may be a batch."""
    return accuracy is Accuracy.FAST or (accuracy is Accuracy.CLOSE and len(result) > 2)


def accuracy_of(graph: Graph) -> Accuracy:
    """Return the strictest accuracy that allows the operators of a graph."""
    from autotune.operators.block_sparsity import zero_blocks
    from autotune.operators.op import Family
    from autotune.operators.winograd import FORMS

    weights = [graph.shape(op.inputs[1]) for op in graph.ops if op.family is Family.WINOGRAD]
    products = [graph.shape(op.output) for op in graph.ops if op.family is Family.STRASSEN]
    close = all(allows(Accuracy.CLOSE, FORMS[points], depth) for points, depth, _ in weights)
    close = close and all(allows_product(Accuracy.CLOSE, shape) for shape in products)
    if not close or any(zero_blocks(op) is not None for op in graph.ops):
        return Accuracy.FAST
    return Accuracy.CLOSE if weights or products else Accuracy.EXACT
