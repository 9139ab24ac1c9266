# cython: language_level=3
"""Tile emitters of windows, reductions, concatenation, padding and DMA."""

from autotune.isa.fields import MAX_RANK
from autotune.isa.functions import ReduceFn, UnaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.tile import sizes_of
from autotune.kernels.emit.elementwise import binary, fill, unary


def pool(writer, fn, y, x, spatial, kernel, strides, dilations):
    """y = reduction of x over sliding windows along its axes ``spatial``, one instruction per
    image: the windows are its last two dimensions."""
    cdef int down = spatial[0] - 1, across = spatial[1] - 1

    def body(writer, target, source):
        sizes = (*target.sizes, *kernel)
        steps = list(source.strides)
        steps += [steps[down] * dilations[0], steps[across] * dilations[1]]
        steps[down] *= strides[0]
        steps[across] *= strides[1]
        windows = source.reshaped(sizes, tuple(steps))
        result = target.reshaped(sizes, (*target.strides, 0, 0))
        writer.emit(
            Opcode.REDUCE, Unit.VECTOR, (target,), (windows,), fn=int(fn),
            **result.operand("dst"), **windows.operand("src"), **sizes_of(sizes),
        )

    writer.over_batch(1, (y, x), body)


def slide(writer, fn, y, x, int axis, int window):
    """y = reduction of x over windows along ``axis``; x has window - 1 more elements there."""
    sizes = (*y.sizes, window)
    windows = x.reshaped(sizes, (*x.strides, x.strides[axis]))
    result = y.reshaped(sizes, (*y.strides, 0))
    writer.emit(
        Opcode.REDUCE, Unit.VECTOR, (y,), (windows,), fn=int(fn),
        **result.operand("dst"), **windows.operand("src"), **sizes_of(sizes),
    )


def window_counts(writer, counts, ones, coordinates, extents, spatial, kernel, strides, dilations):
    """counts = 1 / (elements of each window that lie inside the tensor); one image, one channel."""
    fill(writer, ones, 1.0)
    mask(writer, ones, coordinates, extents, 0.0)
    pool(writer, ReduceFn.SUM, counts, ones, spatial, kernel, strides, dilations)
    unary(writer, UnaryFn.RECIPROCAL, counts, counts)


def concat(writer, y, parts, int axis):
    """y = parts side by side along ``axis``."""
    start = 0
    for part in parts:
        unary(writer, UnaryFn.COPY, y.slice(axis, start, part.sizes[axis]), part)
        start += part.sizes[axis]


def mask(writer, y, coordinates, extents, float value):
    """y = value where an element's tensor coordinate is outside ``extents``. ``coordinates`` are
    per dimension (first, loop level, step)."""
    fields = _at(coordinates)
    fields.update({f"extent{d}": n for d, n in enumerate(extents)})
    writer.emit(
        Opcode.MASK, Unit.VECTOR, (y,), (y,), p0=value, **y.operand("dst"), **sizes_of(y.sizes),
        **fields,
    )


def load(writer, y, int tensor, coordinates, float pad):
    """Fill ``y`` from a DRAM tensor, from ``coordinates`` on."""
    writer.emit(
        Opcode.LOAD, Unit.LOAD, (y,), (), tensor=tensor, pad=pad, format=int(y.format),
        **y.operand("dst"), **sizes_of(y.sizes), **_at(coordinates),
    )


def sample(writer, y, int tensor, coordinates, hops, float pad):
    """Fill ``y`` from a DRAM tensor, from ``coordinates`` on every ``hops``-th element per
    dimension; a negative hop goes backwards."""
    writer.emit(
        Opcode.GATHER, Unit.LOAD, (y,), (), tensor=tensor, pad=pad, format=int(y.format),
        **y.operand("dst"), **sizes_of(y.sizes), **_at(coordinates), **{f"hop{d}": hop for d, hop in enumerate(hops)},
    )


def patches(writer, y, int tensor, coordinates, way, float pad):
    """Fill ``y`` [images, channels, kernel rows, kernel columns, rows, columns] with what the windows
    of a convolution read, the first one from ``coordinates`` of the tensor on; ``way`` is its
    ``Patches``."""
    cdef int row
    if not way.apart:
        _windows(writer, y, tensor, coordinates, way, pad)
        return
    for row in range(y.sizes[2]):
        at = list(coordinates)
        first, level, step = at[way.axes.spatial[0]]
        at[way.axes.spatial[0]] = (first + row * way.dilations[0], level, step)
        _windows(writer, y.slice(2, row, 1), tensor, at, way, pad)


def _windows(writer, y, int tensor, coordinates, way, float pad):
    """Patches of a rank that one instruction has, extents of 1 left out."""
    axes = way.axes
    down, across = axes.spatial
    along = ((axes.batch, 1), (axes.channel, 1), (down, way.dilations[0]),
             (across, way.dilations[1]), (down, way.strides[0]), (across, way.strides[1]))
    kept = [d for d in way.order if y.sizes[d] > 1] or [way.order[0]]
    fields = {}
    for place, d in enumerate(kept):
        fields[f"axis{place}"], fields[f"hop{place}"] = along[d]
    sizes = tuple([y.sizes[d] for d in kept])
    view = y.reshaped(sizes, tuple([y.strides[d] for d in kept]))
    writer.emit(
        Opcode.GATHER, Unit.LOAD, (view,), (), tensor=tensor, pad=pad, format=int(view.format),
        **view.operand("dst"),
        **sizes_of(sizes), **_at(coordinates), **fields,
    )


def lookup(writer, y, numbers, int tensor, coordinates):
    """y[i] = the row of a DRAM tensor that ``numbers[i]`` names, from ``coordinates`` on; those of
    dimension 0 are not taken."""
    writer.emit(
        Opcode.LOOKUP, Unit.LOAD, (y,), (numbers,), tensor=tensor, **y.operand("dst"),
        **numbers.operand("src"), **sizes_of(y.sizes), **_at([(0, 0, 0), *coordinates[1:]]),
    )


def store(writer, x, int tensor, coordinates):
    """Write ``x`` to a DRAM tensor, from ``coordinates`` on."""
    writer.emit(
        Opcode.STORE, Unit.STORE, (), (x,), tensor=tensor, format=int(x.format), **x.operand("src"),
        **sizes_of(x.sizes), **_at(coordinates),
    )


def _at(coordinates):
    fields = {}
    for d, (first, level, step) in enumerate(coordinates):
        fields[f"coord{d}"] = first
        if step:
            fields[f"level{d}"] = level
            fields[f"step{d}"] = step
    return fields
