"""ONNX operators between numbers and quantised integers: x ≈ (q − zero point) · scale.

Integers and zero points are whole float32 numbers. Interval analysis proves that sums of products
stay exact, below 2^24 (scheme: Jacob et al. 2018, arXiv:1712.05877). Longer sums are split into
exact pieces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.exact_sums import Factors, conv_pieces, exact_sum, matmul_pieces
from autotune.frontend.translate.rearrangement import Run, reshape, slice_axis
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.frontend.translate.window import planar_input, window_of
from autotune.operators.axes import MAX_MOVED_AXES
from autotune.operators.op import AttrValue, OpKind

BEYOND = 2.0**20
"""Bound beyond any zero point and limit of types of up to 16 bits. Clamping to it first changes no
result, and keeps the sum with the zero point exact."""


def _round_to_type(
    scope: Scope, node: Node, value: str, zero: str | None, shape: tuple[int, ...] | None = None
) -> str:
    """Round half to even, add the zero point, and clamp to the node's output type; ``shape`` is
    the result's."""
    dtype = scope.result_type(node, 0)
    if not dtype.is_integer or dtype.limits[1] > 2**16:
        raise ModelError(
            f"{node.label}: {node.operator} to {dtype} is not supported; quantise to an integer type"
        )
    low, high = dtype.limits
    whole = scope.step(node, OpKind.ROUND, value)
    whole = scope.step(node, OpKind.CLIP, whole, min=-BEYOND, max=BEYOND)
    shifted = whole if zero is None else scope.step(node, OpKind.ADD, whole, zero)
    if shape in (None, scope.shape(shifted)):
        return scope.result(node, OpKind.CLIP, shifted, min=float(low), max=float(high))
    held = scope.step(node, OpKind.CLIP, shifted, min=float(low), max=float(high))
    return scope.result(node, OpKind.RESHAPE, held, shape=shape)


def _parameter(scope: Scope, node: Node, index: int, shape: tuple[int, ...]) -> str:
    """Shape a scale or zero point of the tensor, of an axis or of blocks to broadcast over it."""
    tensor = scope.tensor(node, index)
    own = scope.shape(tensor)
    if own in ((), (1,)):
        return tensor if not own else scope.step(node, OpKind.RESHAPE, tensor, shape=())
    if len(own) == len(shape) and node.int("block_size", 0):
        return _blocks(scope, node, tensor, shape)
    axis = resolve_axis(node, node.int("axis", 1), len(shape))
    if own != shape[axis : axis + 1]:
        raise ModelError(
            f"{node.label}: {node.operator} input {index} has shape {list(own)}, which does not fit "
            f"axis {axis} of {list(shape)}"
        )
    after = (1,) * (len(shape) - 1 - axis)
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*own, *after))


def _blocks(scope: Scope, node: Node, tensor: str, shape: tuple[int, ...]) -> str:
    """Repeat one value for every ``block_size`` elements of an axis."""
    axis = resolve_axis(node, node.int("axis", 1), len(shape))
    size = node.int("block_size", 0)
    own = scope.shape(tensor)
    if own == shape:
        return tensor
    split = (*own[: axis + 1], 1, *own[axis + 1 :])
    wide = (*own[: axis + 1], size, *own[axis + 1 :])
    column = scope.step(node, OpKind.RESHAPE, tensor, shape=split)
    spread = scope.step(node, OpKind.EXPAND, column, shape=wide)
    return scope.step(node, OpKind.RESHAPE, spread, shape=shape)


def _quantize(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    scale = _merge_parameter(scope, node, 1, shape)
    zero = _merge_parameter(scope, node, 2, shape) if node.has_input(2) else None
    merged = reshape(scope, node, x, _merged_shape(scope, node, shape))
    return _round_to_type(scope, node, scope.number(node, OpKind.DIV, merged, scale), zero, shape)


def _quantize_dynamically(scope: Scope, node: Node) -> str:
    """Quantise by the least and greatest element. The scale of zeros is 1, as in ONNX Runtime;
    ONNX's definition divides by zero."""
    x, none = scope.tensor(node, 0), scope.constant(node, 0.0, "none")
    low = _extreme(scope, node, OpKind.REDUCE_MIN, OpKind.MINIMUM, none)
    high = _extreme(scope, node, OpKind.REDUCE_MAX, OpKind.MAXIMUM, none)
    steps = scope.constant(node, float(scope.result_type(node, 0).limits[1]), "steps")
    scale = scope.number(node, OpKind.DIV, scope.number(node, OpKind.SUB, high, low), steps)
    scale = scope.number(node, OpKind.ADD, scale, scope.number(node, OpKind.EQUAL, scale, none))
    point = scope.number(node, OpKind.NEG, scope.number(node, OpKind.DIV, low, scale))
    zero = scope.step(node, OpKind.CLIP, scope.step(node, OpKind.ROUND, point), min=0.0, max=255.0)
    scope.give(node, 1, scale)
    scope.give(node, 2, zero)
    return _round_to_type(scope, node, scope.number(node, OpKind.DIV, x, scale), zero)


def _extreme(scope: Scope, node: Node, over: OpKind, between: OpKind, none: str) -> str:
    """Return the least or greatest of zero and all elements of a node's tensor, as a scalar."""
    x = scope.tensor(node, 0)
    if scope.shape(x):
        x = scope.number(node, over, x, axes=tuple(range(len(scope.shape(x)))))
    return scope.number(node, between, reshape(scope, node, x, ()), none)


def _merged_shape(scope: Scope, node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to compute in: beyond ``MAX_MOVED_AXES`` axes, those before and behind the
    axis of the parameters are merged."""
    if len(shape) <= MAX_MOVED_AXES or node.int("block_size", 0):
        return shape
    if scope.shape(scope.tensor(node, 1)) in ((), (1,)):
        return (math.prod(shape),)
    axis = resolve_axis(node, node.int("axis", 1), len(shape))
    return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _merge_parameter(scope: Scope, node: Node, index: int, shape: tuple[int, ...]) -> str:
    """Shape a parameter to broadcast over the tensor in its merged shape."""
    tensor = _parameter(scope, node, index, shape)
    own = scope.shape(tensor)
    if not own or _merged_shape(scope, node, shape) == shape:
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(own[0], 1))


def _dequantize(scope: Scope, node: Node) -> str:
    shape = scope.shape(scope.tensor(node, 0))
    merged = _merged_shape(scope, node, shape)
    x = reshape(scope, node, scope.tensor(node, 0), merged)
    if node.has_input(2):
        x = scope.step(node, OpKind.SUB, x, _merge_parameter(scope, node, 2, shape))
    scale = _merge_parameter(scope, node, 1, shape)
    if merged == shape:
        return scope.result(node, OpKind.MUL, x, scale)
    product = scope.number(node, OpKind.MUL, x, scale)
    return scope.result(node, OpKind.RESHAPE, product, shape=shape)


def _subtract_zero(scope: Scope, node: Node, index: int, zero: int, column: bool = False) -> str:
    """Return a quantised input less its zero point; ``column`` allows one per row."""
    x = scope.tensor(node, index)
    if not node.has_input(zero):
        return x
    point = _column(scope, node, zero) if column else scope.tensor(node, zero)
    return scope.step(node, OpKind.SUB, x, point)


def _column(scope: Scope, node: Node, index: int) -> str:
    """Shape a parameter of a product's first operand, which may be one per row."""
    tensor = scope.tensor(node, index)
    shape = scope.shape(tensor)
    if len(shape) != 1 or shape == (1,):
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*shape, 1))


def _matmul_integer(scope: Scope, node: Node) -> str:
    a, b = _subtract_zero(scope, node, 0, 2, column=True), _subtract_zero(scope, node, 1, 3)
    runs = matmul_pieces(scope, node, Factors(0, 2, 1, 3))
    if len(runs) == 1:
        return scope.result(node, OpKind.MATMUL, a, b)
    return exact_sum(scope, node, _matmul_pieces(scope, node, a, b, runs))


def _matmul_pieces(scope: Scope, node: Node, a: str, b: str, runs: Sequence[Run]) -> list[str]:
    """Multiply the parts ``runs`` of the reduced axis."""
    last, inner = len(scope.shape(a)) - 1, max(0, len(scope.shape(b)) - 2)
    return [
        scope.step(
            node,
            OpKind.MATMUL,
            slice_axis(scope, node, a, last, run),
            slice_axis(scope, node, b, inner, run),
        )
        for run in runs
    ]


def _conv_integer(scope: Scope, node: Node) -> str:
    x, w = _subtract_zero(scope, node, 0, 2), _subtract_weight_zero(scope, node, 1, 3)
    return _conv_sums(scope, node, x, w, Factors(0, 2, 1, 3))


def _subtract_weight_zero(scope: Scope, node: Node, index: int, zero: int) -> str:
    """Return a convolution's weight less its zero point, which may be one per output channel."""
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


def _conv_sums(
    scope: Scope, node: Node, x: str, w: str, factors: Factors, bias: tuple[str, ...] = ()
) -> str:
    """Convolve integers over one or two spatial axes."""
    shape, kernel = scope.shape(x), scope.shape(w)[2:]
    if len(shape) not in (3, 4):
        raise ModelError(
            f"{node.label}: {node.operator} over shape {list(shape)}: only one or two spatial axes are "
            "supported; use Conv on dequantised tensors"
        )
    attrs = window_of(node, shape, kernel).planar().conv(node.int("group", 1))
    x, w = planar_input(scope, node, x), planar_input(scope, node, w)
    total = _sum_conv_pieces(scope, node, x, w, bias, attrs, conv_pieces(scope, node, factors))
    if len(shape) == 4:
        return total
    batch, channels, _, length = scope.shape(total)
    return scope.step(node, OpKind.RESHAPE, total, shape=(batch, channels, length))


def _sum_conv_pieces(
    scope: Scope,
    node: Node,
    x: str,
    w: str,
    bias: tuple[str, ...],
    attrs: Mapping[str, AttrValue],
    runs: Sequence[Run],
) -> str:
    """Convolve as the exact sum over runs of input channels."""
    if len(runs) == 1:
        return scope.step(node, OpKind.CONV, x, w, *bias, **attrs)
    images, weights = ([slice_axis(scope, node, t, 1, run) for run in runs] for t in (x, w))
    biases = [bias, *[()] * (len(runs) - 1)]
    sums = [
        scope.step(node, OpKind.CONV, *pair, *more, **attrs)
        for *pair, more in zip(images, weights, biases, strict=True)
    ]
    return exact_sum(scope, node, sums)


def _requantise(scope: Scope, node: Node, total: str, first: str, second: str, out: int) -> str:
    """Bring sums of products to the scale and zero point from input ``out`` on. Scales combine
    first, as in ONNX Runtime, so that ties round alike."""
    product = scope.number(node, OpKind.MUL, first, second)
    scale = scope.number(node, OpKind.DIV, product, scope.tensor(node, out))
    value = scope.number(node, OpKind.MUL, total, scale)
    return _round_to_type(scope, node, value, scope.tensor(node, out + 1))


def _matmul_quantised(scope: Scope, node: Node) -> str:
    a, b = _subtract_zero(scope, node, 0, 2, column=True), _subtract_zero(scope, node, 3, 5)
    runs = matmul_pieces(scope, node, Factors(0, 2, 3, 5))
    sums = _matmul_pieces(scope, node, a, b, runs)
    total = sums[0] if len(sums) == 1 else exact_sum(scope, node, sums)
    return _requantise(scope, node, total, _column(scope, node, 1), scope.tensor(node, 4), 6)


def _conv_quantised(scope: Scope, node: Node) -> str:
    x, w = _subtract_zero(scope, node, 0, 2), _subtract_weight_zero(scope, node, 3, 5)
    bias = (scope.tensor(node, 8),) if node.has_input(8) else ()
    total = _conv_sums(scope, node, x, w, Factors(0, 2, 3, 5), bias)
    scale = scope.tensor(node, 4)
    if scope.shape(scale) not in ((), (1,)):
        after = (1,) * (len(scope.shape(x)) - 2)
        scale = scope.step(node, OpKind.RESHAPE, scale, shape=(*scope.shape(scale), *after))
    return _requantise(scope, node, total, scope.tensor(node, 1), scale, 6)


QUANTISATION: dict[str, Translate] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _quantize_dynamically,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _matmul_quantised,
    "QLinearConv": _conv_quantised,
}
