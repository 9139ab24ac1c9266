"""ONNX operators between numbers and their quantised integers: x ≈ (q − zero point) · scale.

Integers and their zero points are whole float32 numbers, and products of them sum exactly up to
2^24, which interval analysis proves (Jacob et al. 2018, arXiv:1712.05877, for the scheme).
"""

from __future__ import annotations

from autotune.errors import ModelError
from autotune.graph.onnx_ops.reduction import checked_axis
from autotune.graph.onnx_ops.scope import Node, Scope, Translate
from autotune.graph.onnx_ops.window_axes import window_of
from autotune.graph.op import OpKind

BEYOND = 2.0**20
"""More than any zero point and any limit of a type of up to 16 bits: holding a number within it
first changes no result, and keeps the sum with the zero point exact."""


def _quantised(scope: Scope, node: Node, x: str, scale: str, zero: str | None) -> str:
    """Rounded half to even, shifted, and held within the type of the node's output."""
    dtype = scope.result_type(node, 0)
    if not dtype.is_integer or dtype.limits[1] > 2**16:
        raise ModelError(
            f"{node.label}: {node.operator} to {dtype} is not supported; quantise to an integer type"
        )
    low, high = dtype.limits
    whole = scope.step(node, OpKind.ROUND, scope.number(node, OpKind.DIV, x, scale))
    whole = scope.step(node, OpKind.CLIP, whole, min=-BEYOND, max=BEYOND)
    shifted = whole if zero is None else scope.step(node, OpKind.ADD, whole, zero)
    return scope.result(node, OpKind.CLIP, shifted, min=float(low), max=float(high))


def _parameter(scope: Scope, node: Node, index: int, shape: tuple[int, ...]) -> str:
    """A scale or zero point of the whole tensor, of an axis or of blocks, to broadcast over it."""
    tensor = scope.tensor(node, index)
    given = scope.shape(tensor)
    if given in ((), (1,)):
        return tensor if not given else scope.step(node, OpKind.RESHAPE, tensor, shape=())
    if len(given) == len(shape) and node.int("block_size", 0):
        return _blocks(scope, node, tensor, shape)
    axis = checked_axis(node, node.int("axis", 1), len(shape))
    if given != shape[axis : axis + 1]:
        raise ModelError(
            f"{node.label}: {node.operator} input {index} has shape {list(given)}, which does not fit "
            f"axis {axis} of {list(shape)}"
        )
    after = (1,) * (len(shape) - 1 - axis)
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*given, *after))


def _blocks(scope: Scope, node: Node, tensor: str, shape: tuple[int, ...]) -> str:
    """One value for every ``block_size`` elements of an axis, each repeated that often."""
    axis = checked_axis(node, node.int("axis", 1), len(shape))
    size = node.int("block_size", 0)
    given = scope.shape(tensor)
    if given == shape:
        return tensor
    split = (*given[: axis + 1], 1, *given[axis + 1 :])
    wide = (*given[: axis + 1], size, *given[axis + 1 :])
    column = scope.step(node, OpKind.RESHAPE, tensor, shape=split)
    spread = scope.step(node, OpKind.EXPAND, column, shape=wide)
    return scope.step(node, OpKind.RESHAPE, spread, shape=shape)


def _quantize(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    zero = _parameter(scope, node, 2, shape) if node.has_input(2) else None
    return _quantised(scope, node, x, _parameter(scope, node, 1, shape), zero)


def _dequantize(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    if node.has_input(2):
        x = scope.step(node, OpKind.SUB, x, _parameter(scope, node, 2, shape))
    return scope.result(node, OpKind.MUL, x, _parameter(scope, node, 1, shape))


def _centred(scope: Scope, node: Node, index: int, zero: int, column: bool = False) -> str:
    """A quantised input less its zero point; one per row stands in a ``column``."""
    x = scope.tensor(node, index)
    if not node.has_input(zero):
        return x
    point = _column(scope, node, zero) if column else scope.tensor(node, zero)
    return scope.step(node, OpKind.SUB, x, point)


def _column(scope: Scope, node: Node, index: int) -> str:
    """A parameter of a product's first operand: one per row where there are several."""
    tensor = scope.tensor(node, index)
    shape = scope.shape(tensor)
    if len(shape) != 1 or shape == (1,):
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*shape, 1))


def _matmul_integer(scope: Scope, node: Node) -> str:
    a, b = _centred(scope, node, 0, 2, column=True), _centred(scope, node, 1, 3)
    return scope.result(node, OpKind.MATMUL, a, b)


def _conv_integer(scope: Scope, node: Node) -> str:
    return _convolved(scope, node, _centred(scope, node, 0, 2), _centred_weight(scope, node, 1, 3))


def _centred_weight(scope: Scope, node: Node, index: int, zero: int) -> str:
    """A convolution's weight less its zero point, which may be one per output channel."""
    w = scope.tensor(node, index)
    if not node.has_input(zero):
        return w
    return scope.step(node, OpKind.SUB, w, _per_channel(scope, node, zero, len(scope.shape(w))))


def _per_channel(scope: Scope, node: Node, index: int, rank: int) -> str:
    tensor = scope.tensor(node, index)
    shape = scope.shape(tensor)
    if shape in ((), (1,)):
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*shape, *(1,) * (rank - 1)))


def _convolved(scope: Scope, node: Node, x: str, w: str, *rest: str) -> str:
    shape, kernel = scope.shape(x), scope.shape(w)[2:]
    if len(shape) != 4:
        raise ModelError(
            f"{node.label}: {node.operator} over shape {list(shape)}: only two spatial axes are "
            "supported; use Conv on dequantised tensors"
        )
    attrs = window_of(node, shape, kernel).planar().conv(node.int("group", 1))
    return scope.step(node, OpKind.CONV, x, w, *rest, **attrs)


def _rescaled(scope: Scope, node: Node, total: str, first: str, second: str, out: int) -> str:
    """Sums of products of integers, brought to the scale and zero point at ``out`` and behind."""
    product = scope.number(node, OpKind.MUL, first, second)
    value = scope.number(node, OpKind.MUL, total, product)
    return _quantised(scope, node, value, scope.tensor(node, out), scope.tensor(node, out + 1))


def _matmul_quantised(scope: Scope, node: Node) -> str:
    a, b = _centred(scope, node, 0, 2, column=True), _centred(scope, node, 3, 5)
    total = scope.step(node, OpKind.MATMUL, a, b)
    return _rescaled(scope, node, total, _column(scope, node, 1), scope.tensor(node, 4), 6)


def _conv_quantised(scope: Scope, node: Node) -> str:
    x, w = _centred(scope, node, 0, 2), _centred_weight(scope, node, 3, 5)
    bias = (scope.tensor(node, 8),) if node.has_input(8) else ()
    total = _convolved(scope, node, x, w, *bias)
    scale = scope.tensor(node, 4)
    if scope.shape(scale) not in ((), (1,)):
        scale = scope.step(node, OpKind.RESHAPE, scale, shape=(*scope.shape(scale), 1, 1))
    return _rescaled(scope, node, total, scope.tensor(node, 1), scale, 6)


QUANTISATION: dict[str, Translate] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _matmul_quantised,
    "QLinearConv": _conv_quantised,
}
