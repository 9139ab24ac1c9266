"""ONNX's matrix products: MatMul, Gemm."""

from __future__ import annotations

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind


def _matmul(scope: Scope, node: Node) -> str:
    a, b = scope.tensor(node, 0), scope.tensor(node, 1)
    a_shape, b_shape = scope.shape(a), scope.shape(b)
    if not a_shape or not b_shape:
        raise ModelError(f"{node.label}: MatMul takes no scalar operand")
    if len(a_shape) > 1 and len(b_shape) > 1:
        return scope.result(node, OpKind.MATMUL, a, b)
    if len(a_shape) == 1:
        a = scope.step(node, OpKind.RESHAPE, a, shape=(1, a_shape[0]))
    if len(b_shape) == 1:
        b = scope.step(node, OpKind.RESHAPE, b, shape=(b_shape[0], 1))
    y = scope.step(node, OpKind.MATMUL, a, b)
    shape = scope.shape(y)
    rows = () if len(a_shape) == 1 else shape[-2:-1]
    columns = () if len(b_shape) == 1 else shape[-1:]
    return scope.reshape_result(node, y, (*shape[:-2], *rows, *columns))


def _scale(scope: Scope, node: Node, index: int, factor: float, role: str) -> str:
    """Multiply an input by a number: at import if its value is known, else by one MUL."""
    if factor == 1.0:
        return scope.tensor(node, index)
    if scope.is_array(node.inputs[index]):
        scope.tensor(node, index)
        value = np.asarray(scope.array(node, index), dtype=np.float32)
        return scope.constant(node, value * np.float32(factor), role)
    number = scope.constant(node, factor, f"{role}_factor")
    return scope.step(node, OpKind.MUL, scope.tensor(node, index), number)


def _gemm(scope: Scope, node: Node) -> str:
    """Y = alpha · A' · B' + beta · C."""
    b = _scale(scope, node, 1, node.float("alpha", 1.0), "alpha")
    attrs = {"trans_a": int(node.int("transA", 0) != 0), "trans_b": int(node.int("transB", 0) != 0)}
    beta = node.float("beta", 1.0)
    if not node.has_input(2) or beta == 0.0:
        return scope.result(node, OpKind.MATMUL, scope.tensor(node, 0), b, **attrs)
    y = scope.step(node, OpKind.MATMUL, scope.tensor(node, 0), b, **attrs)
    return scope.result(node, OpKind.ADD, y, _scale(scope, node, 2, beta, "beta"))


CONTRACTION: dict[str, Translate] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
}
