# cython: language_level=3
"""Tile emitters of element-wise operators, softmax and layer normalisation."""

from autotune.isa.table import BinaryFn, Opcode, ReduceFn, UnaryFn, Unit
from autotune.isa.tile import sizes_of


def unary(writer, fn, y, x, float p0=0.0, float p1=0.0):
    """y = fn(x); ``x`` is broadcast to ``y``. Views of equal rank, at most 5 dimensions."""
    x = x.broadcast(y.sizes)
    writer.emit(
        Opcode.UNARY, Unit.VECTOR, (y,), (x,),
        fn=int(fn), p0=p0, p1=p1, **y.operand("dst"), **x.operand("src"), **sizes_of(y.sizes),
    )


def binary(writer, fn, y, lhs, rhs):
    """y = fn(lhs, rhs); operands are broadcast to ``y``."""
    lhs, rhs = lhs.broadcast(y.sizes), rhs.broadcast(y.sizes)
    writer.emit(
        Opcode.BINARY, Unit.VECTOR, (y,), (lhs, rhs), fn=int(fn),
        **y.operand("dst"), **lhs.operand("lhs"), **rhs.operand("rhs"), **sizes_of(y.sizes),
    )


def fma(writer, y, lhs, rhs):
    """y += lhs · rhs; operands are broadcast to ``y``."""
    lhs, rhs = lhs.broadcast(y.sizes), rhs.broadcast(y.sizes)
    writer.emit(
        Opcode.FMA, Unit.VECTOR, (y,), (y, lhs, rhs),
        **y.operand("dst"), **lhs.operand("lhs"), **rhs.operand("rhs"), **sizes_of(y.sizes),
    )


def fill(writer, y, float value):
    """y = value."""
    writer.emit(
        Opcode.FILL, Unit.VECTOR, (y,), (), p0=value, **y.operand("dst"), **sizes_of(y.sizes)
    )


def reduce(writer, fn, y, x):
    """y = reduction of x over the dimensions where ``y`` has extent 1 and ``x`` more."""
    target = y.broadcast(x.sizes)
    writer.emit(
        Opcode.REDUCE, Unit.VECTOR, (y,), (x,), fn=int(fn),
        **target.operand("dst"), **x.operand("src"), **sizes_of(x.sizes),
    )


def softmax(writer, y, x, rows):
    """y = exp(x − max) / Σ exp(x − max) along the dimension where ``rows`` has extent 1.

    ``rows`` is a scratch view for one value per row; ``y`` may be ``x``. The maximum is taken
    first so that exp cannot overflow.
    """
    reduce(writer, ReduceFn.MAX, rows, x)
    binary(writer, BinaryFn.SUB, y, x, rows)
    unary(writer, UnaryFn.EXP, y, y)
    reduce(writer, ReduceFn.SUM, rows, y)
    unary(writer, UnaryFn.RECIPROCAL, rows, rows)
    binary(writer, BinaryFn.MUL, y, y, rows)


def layer_norm(writer, y, x, scale, bias, rows, squares, float epsilon):
    """y = (x − mean) / √(var + epsilon) · scale + bias over the dimensions where ``rows`` has
    extent 1, in two passes (mean, then squared deviations), which keeps fp32 accurate.

    ``rows`` holds one value per row, ``squares`` a tile like ``x``; ``bias`` may be None.
    """
    cdef int count = 1
    for kept, extent in zip(rows.sizes, x.sizes):
        if kept != extent:
            count *= extent
    reduce(writer, ReduceFn.SUM, rows, x)
    unary(writer, UnaryFn.AFFINE, rows, rows, 1.0 / count, 0.0)
    binary(writer, BinaryFn.SUB, y, x, rows)
    unary(writer, UnaryFn.SQUARE, squares, y)
    reduce(writer, ReduceFn.SUM, rows, squares)
    unary(writer, UnaryFn.AFFINE, rows, rows, 1.0 / count, epsilon)
    unary(writer, UnaryFn.RSQRT, rows, rows)
    binary(writer, BinaryFn.MUL, y, y, rows)
    binary(writer, BinaryFn.MUL, y, y, scale)
    if bias is not None:
        binary(writer, BinaryFn.ADD, y, y, bias)
