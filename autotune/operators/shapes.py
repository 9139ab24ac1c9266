"""Shape inference: an operator and its input shapes give the output shape, or one clear error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autotune.errors import ModelError
from autotune.operators.op import OPERATORS, Family, Op
from autotune.operators.winograd import FORMS, KERNEL

Shape = tuple[int, ...]

MAX_SLIDING_RANK = 4
"""The window is one more dimension, and an instruction holds five."""


def infer_shape(op: Op, input_shapes: Sequence[Shape]) -> Shape:
    """Output shape of ``op`` for inputs of these shapes.

    Raises ``ModelError`` naming the operator, the shapes and the attribute that do not fit.
    """
    low, high = OPERATORS[op.kind].arity
    if not low <= len(input_shapes) <= high:
        raise ModelError(
            f"{op.name}: {op.kind} takes {low} to {high} inputs, got {len(input_shapes)}"
        )
    return SHAPE_RULES[op.family](op, tuple(tuple(s) for s in input_shapes))


def window_extent(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> int:
    """Output positions of a sliding window along one axis: floor((size + pads − span) / stride) + 1."""
    span = dilation * (kernel - 1) + 1
    return (size + before + after - span) // stride + 1


def _refuse(op: Op, shapes: Sequence[Shape], reason: str) -> ModelError:
    text = ", ".join(str(list(shape)) for shape in shapes)
    return ModelError(f"{op.name}: {op.kind} over shapes {text}: {reason}")


def _tuple_of(op: Op, shapes: Sequence[Shape], name: str, length: int, least: int) -> Shape:
    values = op.ints(name)
    if len(values) != length or min(values) < least:
        raise _refuse(op, shapes, f"{name} must be {length} integers ≥ {least}, got {list(values)}")
    return values


def _window(op: Op, shapes: Sequence[Shape], kernel: Shape) -> Shape:
    """The two spatial output extents of a convolution or pooling."""
    strides = _tuple_of(op, shapes, "strides", 2, 1)
    dilations = _tuple_of(op, shapes, "dilations", 2, 1)
    top, left, bottom, right = _tuple_of(op, shapes, "pads", 4, 0)
    before, after = (top, left), (bottom, right)
    extents = tuple(
        window_extent(size, kernel[i], strides[i], dilations[i], before[i], after[i])
        for i, size in enumerate(op.axes.sizes(shapes[0]))
    )
    if min(extents) < 1:
        raise _refuse(op, shapes, f"kernel {list(kernel)} is larger than the padded input")
    return extents


def _conv(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    x, w, axes = shapes[0], shapes[1], op.axes
    if len(x) != 4 or len(w) != 4:
        raise _refuse(op, shapes, "input and weight must have rank 4")
    group = op.int("group")
    out = w[axes.out_channel]
    if group < 1 or x[axes.channel] != w[axes.in_channel] * group or out % group:
        raise _refuse(op, shapes, f"channels do not fit group={group}")
    if len(shapes) == 3 and shapes[2] != (out,):
        raise _refuse(op, shapes, f"the bias must have shape [{out}]")
    return axes.image(x[axes.batch], out, _window(op, shapes, axes.taps(w)))


def _winograd(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    x, u = shapes[0], shapes[1]
    if len(x) != 4 or len(u) != 3:
        raise _refuse(op, shapes, "the input must have rank 4, the transformed weight 3")
    if u[0] not in FORMS or u[1] != x[3]:
        counts = " or ".join(map(str, FORMS))
        raise _refuse(op, shapes, f"the transformed weight must begin with [{counts}, {x[3]}]")
    if len(shapes) == 3 and shapes[2] != u[2:]:
        raise _refuse(op, shapes, f"the bias must have shape [{u[2]}]")
    top, left, bottom, right = _tuple_of(op, shapes, "pads", 4, 0)
    rows = window_extent(x[1], KERNEL, 1, 1, top, bottom)
    columns = window_extent(x[2], KERNEL, 1, 1, left, right)
    if min(rows, columns) < 1:
        raise _refuse(op, shapes, f"kernel {[KERNEL, KERNEL]} is larger than the padded input")
    return x[0], rows, columns, u[2]


def _pool(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    x, axes = shapes[0], op.axes
    if len(x) != 4:
        raise _refuse(op, shapes, "the input must have rank 4")
    kernel = _tuple_of(op, shapes, "kernel", 2, 1)
    extents = _window(op, shapes, kernel)
    if not all(_taps_reach_input(op, i, n, extents[i]) for i, n in enumerate(axes.sizes(x))):
        pads = list(op.ints("pads"))
        raise _refuse(op, shapes, f"pads {pads} leave a window that holds only padding")
    return axes.image(x[axes.batch], x[axes.channel], extents)


def _slide(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    _axis(op, shapes, op.int("axis"))
    if min(op.int("before"), op.int("after")) < 0:
        raise _refuse(op, shapes, "before and after must be ≥ 0")
    if len(shapes[0]) > MAX_SLIDING_RANK:
        raise _refuse(op, shapes, f"the rank is more than {MAX_SLIDING_RANK}")
    return shapes[0]


def _taps_reach_input(op: Op, axis: int, size: int, positions: int) -> bool:
    """Whether along one axis every window has a tap inside the input, not only in padding."""
    kernel, stride, dilation = (op.ints(name)[axis] for name in ("kernel", "strides", "dilations"))
    starts = (position * stride - op.ints("pads")[axis] for position in range(positions))
    return all(any(0 <= start + tap * dilation < size for tap in range(kernel)) for start in starts)


def _matmul(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    a, b = shapes
    if len(a) < 2 or len(b) < 2:
        raise _refuse(op, shapes, "both operands must have rank ≥ 2")
    rows, inner_a = (a[-1], a[-2]) if op.int("trans_a") else (a[-2], a[-1])
    inner_b, columns = (b[-1], b[-2]) if op.int("trans_b") else (b[-2], b[-1])
    if inner_a != inner_b:
        raise _refuse(op, shapes, f"the inner extents {inner_a} and {inner_b} differ")
    return (*_broadcast(op, shapes, a[:-2], b[:-2]), rows, columns)


def _broadcast(op: Op, shapes: Sequence[Shape], a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(p != q and p != 1 and q != 1 for p, q in zip(a, b, strict=True)):
        raise _refuse(op, shapes, "the shapes do not broadcast")
    return tuple(max(p, q) for p, q in zip(a, b, strict=True))


def _unary(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    return shapes[0]


def _binary(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    return _broadcast(op, shapes, *shapes)


def _axis(op: Op, shapes: Sequence[Shape], axis: int) -> int:
    if not 0 <= axis < len(shapes[0]):
        raise _refuse(op, shapes, f"axis {axis} is outside 0..{len(shapes[0]) - 1}")
    return axis


def _reduce(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    axes = op.ints("axes")
    if not axes or list(axes) != sorted(set(axes)):
        raise _refuse(op, shapes, f"axes must be sorted and distinct, got {list(axes)}")
    dropped = {_axis(op, shapes, axis) for axis in axes}
    return tuple(1 if i in dropped else extent for i, extent in enumerate(shapes[0]))


def _softmax(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    _axis(op, shapes, op.int("axis"))
    return shapes[0]


def _layer_norm(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    normal = shapes[0][_axis(op, shapes, op.int("axis")) :]
    if any(shape != normal for shape in shapes[1:]):
        raise _refuse(op, shapes, f"scale and bias must have shape {list(normal)}")
    return shapes[0]


def _concat(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    axis = _axis(op, shapes, op.int("axis"))
    first = shapes[0]
    for shape in shapes[1:]:
        if shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise _refuse(op, shapes, f"extents other than axis {axis} must be equal")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _reshape(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    shape = op.ints("shape")
    if any(extent < 1 for extent in shape) or math.prod(shape) != math.prod(shapes[0]):
        raise _refuse(op, shapes, f"cannot be seen as {list(shape)}")
    return shape


def _transpose(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    perm = op.ints("perm")
    if sorted(perm) != list(range(len(shapes[0]))):
        raise _refuse(op, shapes, f"perm {list(perm)} is no permutation of the axes")
    return tuple(shapes[0][axis] for axis in perm)


def _slice(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    x = shapes[0]
    starts, steps, sizes = (op.ints(name) for name in ("starts", "steps", "sizes"))
    if not len(starts) == len(steps) == len(sizes) == len(x):
        raise _refuse(op, shapes, f"starts, steps and sizes must be {len(x)} integers each")
    for axis, (extent, start, step, size) in enumerate(zip(x, starts, steps, sizes, strict=True)):
        last = start + (size - 1) * step
        if step == 0 or size < 1 or not (0 <= start < extent and 0 <= last < extent):
            raise _refuse(
                op,
                shapes,
                f"{size} elements from {start} on in steps of {step} are not in axis {axis}",
            )
    return sizes


def _pad(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    rank = len(shapes[0])
    if not rank:
        raise _refuse(op, shapes, "a scalar has no axis to pad")
    before = _tuple_of(op, shapes, "before", rank, 0)
    after = _tuple_of(op, shapes, "after", rank, 0)
    return tuple(n + b + a for n, b, a in zip(shapes[0], before, after, strict=True))


def _expand(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    x, shape = shapes[0], op.ints("shape")
    if len(shape) != len(x) or any(n not in (1, m) for n, m in zip(x, shape, strict=True)):
        raise _refuse(op, shapes, f"does not stretch to {list(shape)}")
    return shape


def _gather(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    table, numbers = shapes
    if len(table) != 2 or len(numbers) != 1:
        raise _refuse(op, shapes, "the table must have rank 2, the numbers rank 1")
    return numbers[0], table[1]


SHAPE_RULES: dict[Family, Callable[[Op, tuple[Shape, ...]], Shape]] = {
    Family.CONV: _conv,
    Family.WINOGRAD: _winograd,
    Family.MATMUL: _matmul,
    Family.UNARY: _unary,
    Family.BINARY: _binary,
    Family.POOL: _pool,
    Family.SLIDE: _slide,
    Family.REDUCE: _reduce,
    Family.SOFTMAX: _softmax,
    Family.LAYER_NORM: _layer_norm,
    Family.CONCAT: _concat,
    Family.RESHAPE: _reshape,
    Family.TRANSPOSE: _transpose,
    Family.SLICE: _slice,
    Family.PAD: _pad,
    Family.EXPAND: _expand,
    Family.GATHER: _gather,
}
