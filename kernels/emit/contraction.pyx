# cython: language_level=3
"""Tile emitters of contractions: matrix multiply and convolution, on the matrix unit or, where a
channel meets only itself, on the vector unit."""

from autotune.isa.fields import ADDRESS_BITS
from autotune.isa.functions import BinaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.kernels.emit.elementwise import binary, fma

STRIDE_LIMIT = 1 << ADDRESS_BITS
"""No stride field holds this one; only a dimension of one element may have it."""


def matmul(writer, c, a, b, reduction, epilogue):
    """c[…,M,N] (+)= a[…,M,K] · b[…,K,N]; batch dimensions of a and b are broadcast to c's.

    ``reduction`` gives the accumulate fields, ``epilogue`` those of bias and activation, with the
    bias view under ``view`` and that of the tile to add under ``residual`` where there is one.
    """
    batch = c.sizes[:-2]
    a = a.broadcast((*batch, *a.sizes[-2:]))
    b = b.broadcast((*batch, *b.sizes[-2:]))

    residual = epilogue.get("residual")
    added = () if residual is None else (residual.broadcast(c.sizes),)

    def body(writer, c, a, b, *added):
        sizes = {"m": c.sizes[0], "n0": c.sizes[1], "k0": a.sizes[1]}
        strides = {
            "a_m": a.strides[0], "a_k0": a.strides[1], "b_k0": b.strides[0],
            "b_n0": b.strides[1], "c_m": c.strides[0], "c_n0": c.strides[1],
        }
        fields_out = _with_views(epilogue, (), added)
        multiply(writer, c, a, b, {**sizes, **strides}, reduction, fields_out)

    writer.over_batch(len(batch), (c, a, b, *added), body)


def conv(
    writer, y, x, w, strides, dilations, int group, bint whole_rows, reduction, epilogue
):
    """y[N,M,OH,OW] (+)= Σ w[M,C/group,KH,KW] · x[N,C,H,W] by shifting windows: no patch matrix.

    Rows of the array take output channels, columns take output pixels: rows of the image and
    pixels of a row, or with ``whole_rows`` all of them in one run where they are equally spaced.
    """
    residual = epilogue.get("residual")
    added = () if residual is None else (residual.broadcast(y.sizes).split(1, group),)
    y, x, w = y.split(1, group), x.split(1, group), w.split(0, group)
    # [N, G, M, OH, OW], [N, G, C, H, W], [G, M, C, KH, KW] -> w with a broadcast batch dimension
    w = _prepend(w, y.sizes[0])

    bias = epilogue.get("view")
    biases = () if bias is None else (_prepend(bias.split(0, group), y.sizes[0]),)

    def body(writer, y, x, w, *views):
        fields_out = _with_views(epilogue, views[:len(biases)], views[len(biases):])
        out, rows, cols = y.sizes
        channels, taps_h, taps_w = w.sizes[1:]
        if whole_rows and _in_one_run(y, x, views[len(biases):], strides):
            rows, cols = 1, rows * cols
        sizes = {"m": out, "n1": rows, "n0": cols, "k2": taps_h, "k1": taps_w, "k0": channels}
        fields = {
            "a_m": w.strides[0], "a_k0": w.strides[1], "a_k2": w.strides[2], "a_k1": w.strides[3],
            "b_k0": x.strides[0], "b_k2": x.strides[1] * dilations[0],
            "b_k1": x.strides[2] * dilations[1], "b_n1": x.strides[1] * strides[0],
            "b_n0": x.strides[2] * strides[1],
            "c_m": y.strides[0], "c_n1": y.strides[1], "c_n0": y.strides[2],
        }
        multiply(writer, y, w, x, {**sizes, **fields}, reduction, fields_out)

    writer.over_batch(2, (y, x, w, *biases, *added), body)


def conv_of_patches(writer, y, x, w, reduction, epilogue):
    """y[N,M,OH,OW] (+)= Σ w[M,C,KH,KW] · x[N,C,KH,KW,OH,OW]: columns of the array take the pixels of
    all images in one product, where they are equally spaced; else a product for each image."""
    residual = epilogue.get("residual")
    added = () if residual is None else (residual.broadcast(y.sizes),)
    out, taps_h, taps_w = w.sizes[0], w.sizes[2], w.sizes[3]
    images, rows, cols = y.sizes[0], y.sizes[2], y.sizes[3]
    joined = all(v.strides[2] == cols * v.strides[3] for v in (y, *added) if rows > 1)
    fields = {
        "m": out, "k2": taps_h, "k1": taps_w, "k0": x.sizes[1],
        "a_m": w.strides[0], "a_k0": w.strides[1], "a_k2": w.strides[2], "a_k1": w.strides[3],
        "b_k0": x.strides[1], "b_k2": x.strides[2], "b_k1": x.strides[3], "b_n0": x.strides[5],
        "c_m": y.strides[1], "c_n0": y.strides[3],
    }
    if joined:
        fields.update(n1=images, n0=rows * cols, b_n1=x.strides[0], c_n1=y.strides[0])
    else:
        fields.update(n1=rows, n0=cols, b_n1=x.strides[4], c_n1=y.strides[2])
    for image in range(1 if joined else images):
        views = [v.moved(image * v.strides[0]) for v in (y, x, *added)]
        residuals = [_columns(v, joined) for v in views[2:]]
        multiply(writer, views[0], w, views[1], fields, reduction,
                 _with_views(epilogue, (), residuals))


def _columns(view, bint joined):
    """[N,M,OH,OW] as a product takes it: [M, N, pixels], or of its first image [M, OH, OW]."""
    cdef tuple order = (1, 0, 3) if joined else (1, 2, 3)
    sizes, strides = view.sizes, view.strides
    return view.reshaped(tuple([sizes[d] for d in order]), tuple([strides[d] for d in order]))


def _in_one_run(y, x, residuals, strides):
    """Whether the pixels of all rows are equally spaced, in the result and in what it is made of."""
    cdef long cols = y.sizes[2]
    pitches = [(x.strides[1] * strides[0], x.strides[2] * strides[1])]
    pitches += [(view.strides[1], view.strides[2]) for view in (y, *residuals)]
    return all(row == cols * pixel for row, pixel in pitches)


def depthwise(writer, y, x, w, bias, int channel, spatial, strides, dilations):
    """y = Σ w[C,1,KH,KW] · x, tap by tap on the vector unit; x and y are images of either layout,
    whose axes ``channel`` and ``spatial`` name.

    A systolic array would use one of its rows; the vector unit uses every lane.
    """
    cdef int i, j
    cdef int down = spatial[0], across = spatial[1]
    w = w.drop(1)
    for i, j in writer.each(w.sizes[1], w.sizes[2]):
        shifted = x.slice(down, i * dilations[0], y.sizes[down], strides[0])
        shifted = shifted.slice(across, j * dilations[1], y.sizes[across], strides[1])
        tap = w.slice(1, i, 1).slice(2, j, 1).drop(2).drop(1).along(channel, 4)
        if i == 0 and j == 0:
            binary(writer, BinaryFn.MUL, y, shifted, tap)
        else:
            fma(writer, y, shifted, tap)
    if bias is not None:
        binary(writer, BinaryFn.ADD, y, y, bias.along(channel, 4))


def _prepend(view, int extent):
    return view.reshaped((extent, *view.sizes), (0, *view.strides))


def _with_views(epilogue, biases, residuals):
    """The epilogue with the views of one batch element."""
    found = dict(epilogue)
    if biases:
        found["view"] = biases[0]
    if residuals:
        found["residual"] = residuals[0]
    return found


def multiply(writer, c, a, b, fields, reduction, epilogue):
    """Emit the product with these sizes and strides, and what ``reduction`` and ``epilogue`` say."""
    if max(fields.values()) >= STRIDE_LIMIT:
        fields = {name: value for name, value in fields.items()
                  if value < STRIDE_LIMIT or fields[name[2:]] > 1}
    cdef dict words = {**c.address("c"), **a.address("a"), **b.address("b"), **fields, **reduction}
    reads = (a, b) if not reduction["accumulate"] else (a, b, c)
    bias = epilogue.get("view")
    if bias is not None:
        words.update(bias.address("bias"))
        reads = (*reads, bias)
    residual = epilogue.get("residual")
    if residual is not None:
        words.update(residual.address("r"))
        words.update(adds=1, r_m=residual.strides[0], r_n0=residual.strides[-1])
        if residual.rank == 3:
            words["r_n1"] = residual.strides[1]
        reads = (*reads, residual)
    words.update({name: v for name, v in epilogue.items() if name not in ("view", "residual")})
    writer.emit(Opcode.MATMUL, Unit.MATRIX, (c,), reads, **words)
