# cython: language_level=3
"""Tile emitter of Winograd's convolutions F(4×4, 3×3) and F(2×2, 3×3): tiles there, a product for each
point, tiles back. The number of points tells them apart."""

from autotune.isa.functions import Transform, UnaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.kernels.emit.contraction import multiply

PATCHES = {36: 6, 16: 4}
"""Rows of the input that a tile is made of, two more than it has itself, by its points."""
THERE = {36: Transform.F4_INPUT, 16: Transform.F2_INPUT}
BACK = {36: Transform.F4_OUTPUT, 16: Transform.F2_OUTPUT}


def there(writer, v, x):
    """v [N, tiles down, tiles across, points, C] from the image x [N, H, W, C], padding included. Images are
    read and written in whole tiles, beyond their sizes where these are no multiple of a tile's."""
    writer.over_batch(1, (v, x), _there)


def back(writer, y, m, epilogue):
    """y [N, OH, OW, M] from the products m [N, tiles down, tiles across, points, M]. ``epilogue`` gives fn, p0
    and p1, the bias under ``view`` and the tile to add under ``residual``."""
    bias, residual = epilogue.get("view"), epilogue.get("residual")
    fields = {name: epilogue[name] for name in ("fn", "p0", "p1") if name in epilogue}
    if bias is not None:
        fields.update(biased=1, **bias.address("bias"))
    added = () if residual is None else (residual,)

    def body(writer, y, m, *added):
        words = {**fields, **_image("dst", y, m), **_points("src", m)}
        reads = (m, *added) if bias is None else (m, bias, *added)
        for r in added:
            words.update(adds=1, **_image("r", r, m))
        _transform(writer, BACK, y, reads, m, words)

    writer.over_batch(1, (y, m, *added), body)


def _there(writer, v, x):
    _transform(writer, THERE, v, (x,), v, {**_image("src", x, v), **_points("dst", v)})


def _transform(writer, codes, target, reads, points, fields):
    down, across, count, channels = points.sizes
    writer.emit(
        Opcode.TRANSFORM, Unit.VECTOR, (target,), reads, transform=int(codes[count]), size2=down,
        size3=across, size4=channels, **fields,
    )


def _image(name, view, points):
    """Tiles side by side in [rows, columns, channels]."""
    cdef int tile = PATCHES[points.sizes[2]] - 2
    row, pixel, channel = view.strides
    return _operand(name, view, (row, pixel, tile * row, tile * pixel, channel))


def _points(name, view):
    """Points of [tiles down, tiles across, points, channels]."""
    down, across, point, channel = view.strides
    return _operand(name, view, (PATCHES[view.sizes[2]] * point, point, down, across, channel))


def _operand(name, view, strides):
    return {**view.address(name), **{f"{name}_stride{d}": step for d, step in enumerate(strides)}}


def products(writer, m, u, v):
    """m[point] = v[point] · u[point] for all points of u [points, C, M], all tiles in one run."""
    batch, down, across, points, channels = v.sizes
    inner = writer.inner() if points > 1 else writer
    at = [view.moved(0, ((writer.depth, step),) if points > 1 else ()) for view, step in
          ((m, m.strides[3]), (u, u.strides[0]), (v, v.strides[3]))]
    fields = {
        "m": u.sizes[2], "n0": batch * down * across, "k0": channels, "a_m": u.strides[2],
        "a_k0": u.strides[1], "b_k0": v.strides[4], "b_n0": v.strides[2],
        "c_m": m.strides[4], "c_n0": m.strides[2],
    }
    multiply(inner, *at, fields, {"accumulate": 0}, {})
    if points > 1:
        writer.close(inner, points)
