"""ONNX operators between numbers and their quantised integers: x ≈ (q − zero point) · scale.

Integers and their zero points are whole float32 numbers, and products of them sum exactly up to
2^24, which interval analysis proves (Jacob et al. 2018, arXiv:1712.05877, for the scheme). Longer
sums are taken in pieces (exact_sums.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.exact_sums import Factors, conv_pieces, exact_sum, matmul_pieces
from autotune.frontend.translate.rearrangement import Run, part, seen_as
from autotune.frontend.translate.reduction import checked_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.frontend.translate.window import planar_input, window_of
from autotune.operators.axes import MAX_MOVED_AXES
from autotune.operators.op import AttrValue, OpKind

BEYOND = 2.0**20
"""More than any zero point and any limit of a type of up to 16 bits: holding a number within it
first changes no result, and keeps the sum with the zero point exact."""


def _held(
    scope: Scope, node: Node, value: str, zero: str | None, shape: tuple[int, ...] | None = None
) -> str:
    """Round half to even, shift, and hold within the type of the node's output, in ``shape`` where it
    is given."""
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
    scale = _merged_parameter(scope, node, 1, shape)
    zero = _merged_parameter(scope, node, 2, shape) if node.has_input(2) else None
    merged = seen_as(scope, node, x, _merged(scope, node, shape))
    return _held(scope, node, scope.number(node, OpKind.DIV, merged, scale), zero, shape)


def _quantize_dynamically(scope: Scope, node: Node) -> str:
    """Quantise by the least and the greatest element. The scale of a tensor of zeros is 1, as ONNX
    Runtime has it: ONNX's own definition divides by zero there."""
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
    return _held(scope, node, scope.number(node, OpKind.DIV, x, scale), zero)


def _extreme(scope: Scope, node: Node, over: OpKind, between: OpKind, none: str) -> str:
    """The least or greatest of zero and all elements of a node's tensor, as a scalar."""
    x = scope.tensor(node, 0)
    if scope.shape(x):
        x = scope.number(node, over, x, axes=tuple(range(len(scope.shape(x)))))
    return scope.number(node, between, seen_as(scope, node, x, ()), none)


def _merged(scope: Scope, node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which a node's tensor is computed: that of more than ``MAX_MOVED_AXES`` axes has those
    before and behind the axis of the parameters merged."""
    if len(shape) <= MAX_MOVED_AXES or node.int("block_size", 0):
        return shape
    if scope.shape(scope.tensor(node, 1)) in ((), (1,)):
        return (math.prod(shape),)
    axis = checked_axis(node, node.int("axis", 1), len(shape))
    return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _merged_parameter(scope: Scope, node: Node, index: int, shape: tuple[int, ...]) -> str:
    """A parameter to broadcast over the tensor in its merged shape."""
    tensor = _parameter(scope, node, index, shape)
    given = scope.shape(tensor)
    if not given or _merged(scope, node, shape) == shape:
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(given[0], 1))


def _dequantize(scope: Scope, node: Node) -> str:
    shape = scope.shape(scope.tensor(node, 0))
    merged = _merged(scope, node, shape)
    x = seen_as(scope, node, scope.tensor(node, 0), merged)
    if node.has_input(2):
        x = scope.step(node, OpKind.SUB, x, _merged_parameter(scope, node, 2, shape))
    scale = _merged_parameter(scope, node, 1, shape)
    if merged == shape:
        return scope.result(node, OpKind.MUL, x, scale)
    product = scope.number(node, OpKind.MUL, x, scale)
    return scope.result(node, OpKind.RESHAPE, product, shape=shape)


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
    runs = matmul_pieces(scope, node, Factors(0, 2, 1, 3))
    if len(runs) == 1:
        return scope.result(node, OpKind.MATMUL, a, b)
    return exact_sum(scope, node, _matmuls(scope, node, a, b, runs))


def _matmuls(scope: Scope, node: Node, a: str, b: str, runs: Sequence[Run]) -> list[str]:
    """Products of the parts ``runs`` of the axis that a product reduces."""
    last, inner = len(scope.shape(a)) - 1, max(0, len(scope.shape(b)) - 2)
    return [
        scope.step(
            node, OpKind.MATMUL, part(scope, node, a, last, run), part(scope, node, b, inner, run)
        )
        for run in runs
    ]


def _conv_integer(scope: Scope, node: Node) -> str:
    x, w = _centred(scope, node, 0, 2), _centred_weight(scope, node, 1, 3)
    return _convolved(scope, node, x, w, Factors(0, 2, 1, 3))


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


def _convolved(
    scope: Scope, node: Node, x: str, w: str, factors: Factors, bias: tuple[str, ...] = ()
) -> str:
    """Sums of products of integers, over one or two spatial axes."""
    shape, kernel = scope.shape(x), scope.shape(w)[2:]
    if len(shape) not in (3, 4):
        raise ModelError(
            f"{node.label}: {node.operator} over shape {list(shape)}: only one or two spatial axes are "
            "supported; use Conv on dequantised tensors"
        )
    attrs = window_of(node, shape, kernel).planar().conv(node.int("group", 1))
    x, w = planar_input(scope, node, x), planar_input(scope, node, w)
    total = _summed(scope, node, x, w, bias, attrs, conv_pieces(scope, node, factors))
    if len(shape) == 4:
        return total
    batch, channels, _, length = scope.shape(total)
    return scope.step(node, OpKind.RESHAPE, total, shape=(batch, channels, length))


def _summed(
    scope: Scope,
    node: Node,
    x: str,
    w: str,
    bias: tuple[str, ...],
    attrs: Mapping[str, AttrValue],
    runs: Sequence[Run],
) -> str:
    """A convolution as the exact sum of those over runs of its input channels."""
    if len(runs) == 1:
        return scope.step(node, OpKind.CONV, x, w, *bias, **attrs)
    images, weights = ([part(scope, node, t, 1, run) for run in runs] for t in (x, w))
    biases = [bias, *[()] * (len(runs) - 1)]
    sums = [
        scope.step(node, OpKind.CONV, *pair, *more, **attrs)
        for *pair, more in zip(images, weights, biases, strict=True)
    ]
    return exact_sum(scope, node, sums)


def _rescaled(scope: Scope, node: Node, total: str, first: str, second: str, out: int) -> str:
    """Bring sums of products of integers to the scale and zero point at ``out`` and behind; scales
    are combined first, as ONNX Runtime does, so that ties round alike."""
    product = scope.number(node, OpKind.MUL, first, second)
    scale = scope.number(node, OpKind.DIV, product, scope.tensor(node, out))
    value = scope.number(node, OpKind.MUL, total, scale)
    return _held(scope, node, value, scope.tensor(node, out + 1))


def _matmul_quantised(scope: Scope, node: Node) -> str:
    a, b = _centred(scope, node, 0, 2, column=True), _centred(scope, node, 3, 5)
    runs = matmul_pieces(scope, node, Factors(0, 2, 3, 5))
    sums = _matmuls(scope, node, a, b, runs)
    total = sums[0] if len(sums) == 1 else exact_sum(scope, node, sums)
    return _rescaled(scope, node, total, _column(scope, node, 1), scope.tensor(node, 4), 6)


def _conv_quantised(scope: Scope, node: Node) -> str:
    x, w = _centred(scope, node, 0, 2), _centred_weight(scope, node, 3, 5)
    bias = (scope.tensor(node, 8),) if node.has_input(8) else ()
    total = _convolved(scope, node, x, w, Factors(0, 2, 3, 5), bias)
    scale = scope.tensor(node, 4)
    if scope.shape(scale) not in ((), (1,)):
        after = (1,) * (len(scope.shape(x)) - 2)
        scale = scope.step(node, OpKind.RESHAPE, scale, shape=(*scope.shape(scale), *after))
    return _rescaled(scope, node, total, scope.tensor(node, 1), scale, 6)


QUANTISATION: dict[str, Translate] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _quantize_dynamically,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _matmul_quantised,
    "QLinearConv": _conv_quantised,
}
