# cython: language_level=3
"""Tile emitters of element-wise operators, softmax and layer normalisation."""

from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, UnaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.tile import sizes_of

_SIDES = ("side0", "side1")
_STAGES = tuple([
    tuple([f"stage{number}_{name}" for name in ("kind", "fn", "p0", "p1")]) for number in range(4)
])
"""Names of an instruction's fields, written once: programs have thousands of chains."""


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


def chain(writer, y, x, stages, sides):
    """y = the ``stages`` of x one after the other, in one pass; all operands are broadcast to ``y``.

    A stage is (StageKind, function, p0, p1), at most 4 of them; ``sides`` are at most 2 views.
    """
    x, sides = x.broadcast(y.sizes), [side.broadcast(y.sizes) for side in sides]
    cdef dict fields = {**y.operand("dst"), **x.operand("src"), **sizes_of(y.sizes)}
    for name, side in zip(_SIDES, sides):
        fields.update(side.operand(name))
    for (kind_name, fn_name, p0_name, p1_name), (kind, fn, p0, p1) in zip(_STAGES, stages):
        fields[kind_name] = int(kind)
        fields[fn_name] = int(fn)
        fields[p0_name] = p0
        fields[p1_name] = p1
    writer.emit(Opcode.CHAIN, Unit.VECTOR, (y,), (x, *sides), **fields)


def _with(int number, fn):
    """The stage that takes side operand ``number`` on its right."""
    return (StageKind.WITH1 if number else StageKind.WITH0, fn, 0.0, 0.0)


def _apply(fn, float p0=0.0, float p1=0.0):
    """The stage of a unary function."""
    return (StageKind.UNARY, fn, p0, p1)


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
    chain(writer, y, x, (_with(0, BinaryFn.SUB), _apply(UnaryFn.EXP)), (rows,))
    reduce(writer, ReduceFn.SUM, rows, y)
    unary(writer, UnaryFn.RECIPROCAL, rows, rows)
    binary(writer, BinaryFn.MUL, y, y, rows)


def rms_norm(writer, y, x, scale, rows, int count, float epsilon):
    """y = x / √(mean(x²) + epsilon) · scale over the dimensions where ``rows`` has extent 1.

    Rows have ``count`` elements; ``rows`` holds a value for each; ``y`` holds the squares meanwhile, so that it must not be ``x``.
    """
    spread = rows.slice(rows.rank - 1, 0, 1)
    unary(writer, UnaryFn.SQUARE, y, x)
    reduce(writer, ReduceFn.SUM, spread, y)
    deviation = (_apply(UnaryFn.AFFINE, 1.0 / count, epsilon), _apply(UnaryFn.RSQRT))
    chain(writer, spread, spread, deviation, ())
    chain(writer, y, x, (_with(0, BinaryFn.MUL), _with(1, BinaryFn.MUL)), (spread, scale))


def layer_norm(writer, y, x, scale, bias, rows, int count, float epsilon):
    """y = (x − mean) / √(var + epsilon) · scale + bias over the dimensions where ``rows`` has
    extent 1, in two passes (mean, then squared deviations), which keeps fp32 accurate.

    Rows have ``count`` elements; ``rows`` holds two values for each, in its last dimension; ``y`` holds the squares meanwhile, so
    that it must not be ``x``. ``bias`` may be None.
    """
    last = rows.rank - 1
    mean, spread = rows.slice(last, 0, 1), rows.slice(last, 1, 1)
    centred = _with(0, BinaryFn.SUB)
    reduce(writer, ReduceFn.SUM, mean, x)
    unary(writer, UnaryFn.AFFINE, mean, mean, 1.0 / count, 0.0)
    chain(writer, y, x, (centred, _apply(UnaryFn.SQUARE)), (mean,))
    reduce(writer, ReduceFn.SUM, spread, y)
    deviation = (_apply(UnaryFn.AFFINE, 1.0 / count, epsilon), _apply(UnaryFn.RSQRT))
    chain(writer, spread, spread, deviation, ())
    chain(writer, y, x, (centred, _with(1, BinaryFn.MUL)), (mean, spread))
    if bias is None:
        binary(writer, BinaryFn.MUL, y, y, scale)
    else:
        chain(writer, y, y, (_with(0, BinaryFn.MUL), _with(1, BinaryFn.ADD)), (scale, bias))
