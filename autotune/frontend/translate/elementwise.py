"""ONNX's element-wise operators, with broadcasting."""

from __future__ import annotations

import numpy as np

from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OPERATORS, Family, OpKind
from autotune.operators.tensor import FLOAT_MAX


def _plain(family: Family) -> dict[str, OpKind]:
    """Return the kinds of a family that are one operator of ONNX, without attributes, by its name."""
    rows = (row for row in OPERATORS.values() if row.family is family)
    return {row.onnx: row.kind for row in rows if row.onnx and not row.attrs}


VARIADIC_KINDS: dict[str, OpKind] = {
    "Sum": OpKind.ADD,
    "Max": OpKind.MAXIMUM,
    "Min": OpKind.MINIMUM,
}

POWERS: dict[float, OpKind] = {0.5: OpKind.SQRT, -1.0: OpKind.RECIPROCAL}
"""Constant exponents that have an operator of their own."""


def _unary(kind: OpKind) -> Translate:
    return lambda scope, node: scope.result(node, kind, scope.tensor(node, 0))


def _binary(kind: OpKind) -> Translate:
    return lambda scope, node: scope.result(
        node, kind, scope.tensor(node, 0), scope.tensor(node, 1)
    )


def _chain(scope: Scope, node: Node, kind: OpKind, whole: bool) -> str:
    """Apply an operator to all inputs from left to right; ``whole`` makes the last one the node's
    output."""
    tensors = [scope.tensor(node, i) for i in range(len(node.inputs))]
    total = tensors[0]
    for index, tensor in enumerate(tensors[1:], 2):
        last = whole and index == len(tensors)
        emit = scope.result if last else scope.step
        total = emit(node, kind, total, tensor)
    return total


def _variadic(kind: OpKind) -> Translate:
    return lambda scope, node: _chain(scope, node, kind, whole=True)


def _mean(scope: Scope, node: Node) -> str:
    total = _chain(scope, node, OpKind.ADD, whole=False)
    share = scope.constant(node, 1.0 / len(node.inputs), "share")
    return scope.result(node, OpKind.MUL, total, share)


def _limit(scope: Scope, node: Node, index: int, name: str, default: float) -> float | None:
    """Return a Clip limit as a number; None if only a run knows it. The extreme of an integer type
    is no limit."""
    if node.opset < 11:
        return node.float(name, default)
    if not node.has_input(index):
        return default
    if not scope.is_array(node.inputs[index]):
        return None
    dtype, value = scope.dtype(node, index), scope.array(node, index)
    if dtype.is_integer and value.size == 1 and value.item() == dtype.limits[name == "max"]:
        return default
    return scope.number_of(node, index)


def _clip(scope: Scope, node: Node) -> str:
    low = _limit(scope, node, 1, "min", -FLOAT_MAX)
    high = _limit(scope, node, 2, "max", FLOAT_MAX)
    x = scope.tensor(node, 0)
    if low is not None and high is not None:
        return scope.result(node, OpKind.CLIP, x, min=low, max=high)
    below = scope.constant(node, low, "min") if low is not None else scope.tensor(node, 1)
    above = scope.constant(node, high, "max") if high is not None else scope.tensor(node, 2)
    return scope.result(node, OpKind.MINIMUM, scope.step(node, OpKind.MAXIMUM, x, below), above)


def _pow(scope: Scope, node: Node) -> str:
    """Translate Pow; some constant exponents have an exact operator of their own.

    Powers of integers are integers: fractions of negative exponents are cut off.
    """
    whole = not scope.dtype(node, 0).is_float
    if whole or not scope.is_array(node.inputs[1]):
        pair = scope.tensor(node, 0), scope.tensor(node, 1)
        if not whole:
            return scope.result(node, OpKind.POW, *pair)
        return scope.result(node, OpKind.TRUNC, scope.step(node, OpKind.POW, *pair))
    exponent = np.asarray(scope.array(node, 1), np.float64)
    x = scope.tensor(node, 0)
    if exponent.size == 1 and exponent.ndim <= len(scope.shape(x)):
        number = float(exponent.reshape(()))
        if number == 1.0:
            return x
        if number == 2.0:
            return scope.result(node, OpKind.MUL, x, x)
        if number in POWERS:
            return scope.result(node, POWERS[number], x)
    return scope.result(node, OpKind.POW, x, scope.constant(node, exponent, "exponent"))


ELEMENTWISE: dict[str, Translate] = {
    **{operator: _unary(kind) for operator, kind in _plain(Family.UNARY).items()},
    **{operator: _binary(kind) for operator, kind in _plain(Family.BINARY).items()},
    **{operator: _variadic(kind) for operator, kind in VARIADIC_KINDS.items()},
    "Mean": _mean,
    "Pow": _pow,
    "Clip": _clip,
}
