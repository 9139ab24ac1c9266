"""ONNX operators over truth values 1 and 0: comparisons, connectives, Where."""

from __future__ import annotations

import numpy as np

from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind


def select(scope: Scope, node: Node, condition: str, yes: str, no: str, last: bool = True) -> str:
    """Return ``yes`` where the condition is not 0, else ``no``.

    Nothing of the branch not taken leaks, NaN and infinities included; zeros keep their signs.
    ``last`` makes it the node's output.
    """
    emit = scope.result if last else scope.step
    taken = scope.step(node, OpKind.KEEP_IF, yes, condition)
    other = scope.step(node, OpKind.KEEP_UNLESS, no, condition)
    return emit(node, OpKind.ADD, taken, other)


def logical_not(scope: Scope, node: Node, condition: str, last: bool = True) -> str:
    """Return 1 where the condition is 0, else 0; ``last`` makes it the node's output."""
    emit = scope.result if last else scope.step
    return emit(node, OpKind.EQUAL, condition, scope.constant(node, 0.0, "false"))


def truth(scope: Scope, node: Node, x: str) -> str:
    """Return 1 where a number is not 0, NaN included, else 0."""
    return logical_not(scope, node, logical_not(scope, node, x, last=False))


def _compared(kind: OpKind, swapped: bool = False) -> Translate:
    def translate(scope: Scope, node: Node) -> str:
        left, right = scope.tensor(node, 0), scope.tensor(node, 1)
        return scope.result(node, kind, *((right, left) if swapped else (left, right)))

    return translate


def _xor(scope: Scope, node: Node) -> str:
    left, right = scope.tensor(node, 0), scope.tensor(node, 1)
    return logical_not(scope, node, scope.step(node, OpKind.EQUAL, left, right))


def _where(scope: Scope, node: Node) -> str:
    condition, yes, no = (scope.tensor(node, index) for index in range(3))
    return select(scope, node, condition, yes, no)


def _is_nan(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    return logical_not(scope, node, scope.step(node, OpKind.EQUAL, x, x))


def _is_inf(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    above, below = node.int("detect_positive", 1), node.int("detect_negative", 1)
    if above and below:
        x = scope.step(node, OpKind.ABS, x)
    sought = np.inf if above else -np.inf if below else np.nan
    return scope.result(node, OpKind.EQUAL, x, scope.constant(node, sought, "infinity"))


LOGIC: dict[str, Translate] = {
    "Equal": _compared(OpKind.EQUAL),
    "Less": _compared(OpKind.LESS),
    "LessOrEqual": _compared(OpKind.LESS_EQUAL),
    "Greater": _compared(OpKind.LESS, swapped=True),
    "GreaterOrEqual": _compared(OpKind.LESS_EQUAL, swapped=True),
    "And": _compared(OpKind.MINIMUM),
    "Or": _compared(OpKind.MAXIMUM),
    "Xor": _xor,
    "Not": lambda scope, node: logical_not(scope, node, scope.tensor(node, 0)),
    "Where": _where,
    "IsNaN": _is_nan,
    "IsInf": _is_inf,
}
