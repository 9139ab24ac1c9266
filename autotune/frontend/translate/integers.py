"""ONNX operators with a meaning of their own on integers: division, remainder, bits."""

from __future__ import annotations

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind
from autotune.operators.tensor import EXACT_LIMIT


def _div(scope: Scope, node: Node) -> str:
    """Divide; integers towards zero. A quotient of integers below 2^24 is exact: float32 tells it
    from the next whole number."""
    x, y = scope.tensor(node, 0), scope.tensor(node, 1)
    if scope.dtype(node, 0).is_float:
        return scope.result(node, OpKind.DIV, x, y)
    return scope.result(node, OpKind.TRUNC, scope.step(node, OpKind.DIV, x, y))


def _mod(scope: Scope, node: Node) -> str:
    kind = OpKind.FMOD if node.int("fmod", 0) else OpKind.MOD
    return scope.result(node, kind, scope.tensor(node, 0), scope.tensor(node, 1))


def _bit_shift(scope: Scope, node: Node) -> str:
    """Multiply by a power of two, or floor a division by one, as arithmetic shifts round."""
    x, places = scope.tensor(node, 0), _places(scope, node)
    left = node.text("direction", "LEFT") == "LEFT"
    base = scope.constant(node, 2.0 if left else 0.5, "base")
    factor = scope.step(node, OpKind.POW, base, places)
    if left:
        return scope.result(node, OpKind.MUL, x, factor)
    return scope.result(node, OpKind.FLOOR, scope.step(node, OpKind.MUL, x, factor))


def _places(scope: Scope, node: Node) -> str:
    """Return the bits to shift by; a negative number counts as beyond all bits."""
    places, dtype = scope.tensor(node, 1), scope.dtype(node, 1)
    bits = (dtype.limits[1] - dtype.limits[0] + 1).bit_length() - 1
    value = scope.arrays.get(node.inputs[1])
    if value is not None and value.min() >= 0 and value.max() <= bits:
        return places
    if not dtype.limits[0]:
        return scope.step(node, OpKind.CLIP, places, min=0.0, max=float(bits))
    near = scope.step(node, OpKind.CLIP, places, min=-1.0, max=float(bits))
    below = scope.step(node, OpKind.LESS, near, scope.constant(node, 0.0, "none"))
    raised = scope.step(node, OpKind.MUL, below, scope.constant(node, bits + 1.0, "all"))
    return scope.step(node, OpKind.ADD, near, raised)


def _bitwise_not(scope: Scope, node: Node) -> str:
    """−1 − x in two's complement; the largest number minus x if unsigned."""
    dtype = scope.dtype(node, 0)
    low, high = dtype.limits
    most = -1 if low else high
    if most > EXACT_LIMIT:
        raise ModelError(
            f"{node.label}: BitwiseNot of {dtype} gives numbers near {high}; integers are computed "
            f"exactly up to {EXACT_LIMIT}: use a signed or a narrower type"
        )
    x = scope.tensor(node, 0)
    return scope.result(node, OpKind.SUB, scope.constant(node, most, "ones"), x)


INTEGERS: dict[str, Translate] = {
    "Div": _div,
    "Mod": _mod,
    "BitShift": _bit_shift,
    "BitwiseNot": _bitwise_not,
}
