"""Networks of odd shapes for schedule fuzzing: extents, strides, kernels and operand counts near or beyond the
limits of instruction fields. Weights are read-only broadcast zeros, so that a graph takes no memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind as K

Build = Callable[[GraphBuilder], str]


def _weight(b: GraphBuilder, *shape: int) -> str:
    return b.constant(np.broadcast_to(np.float32(0), shape))


def _group_norm(b: GraphBuilder) -> str:
    """One group over 64 channels of 56x56, 200 704 elements, as the importer writes it."""
    x = b.input("x", (1, 64, 56, 56))
    flat = b.add(K.RESHAPE, x, shape=(1, 1, 200704))
    centred = b.add(K.SUB, flat, b.add(K.REDUCE_MEAN, flat, axes=(2,)))
    spread = b.add(K.REDUCE_MEAN, b.add(K.MUL, centred, centred), axes=(2,))
    normal = b.add(K.DIV, centred, b.add(K.SQRT, spread))
    image = b.add(K.RESHAPE, normal, shape=(1, 64, 56, 56))
    scaled = b.add(K.MUL, image, _weight(b, 64, 1, 1))
    return b.add(K.RELU, b.add(K.ADD, scaled, _weight(b, 64, 1, 1)))


def _long_reductions(b: GraphBuilder) -> str:
    x = b.input("x", (3, 70001))
    total = b.add(K.REDUCE_SUM, b.add(K.ABS, x), axes=(1,))
    most = b.add(K.REDUCE_MAX, x, axes=(1,))
    mean = b.add(K.REDUCE_MEAN, x, axes=(0, 1))
    return b.add(K.ADD, b.add(K.DIV, total, most), mean)


def _millions(b: GraphBuilder) -> str:
    """More elements along an axis than 24 bits count."""
    x = b.input("x", (20_000_003,))
    y = b.add(K.MUL, b.add(K.TANH, x), x)
    return b.add(K.RELU, b.add(K.SLICE, y, starts=(17_000_000,), sizes=(3_000_000,), steps=(1,)))


def _long_rows(b: GraphBuilder) -> str:
    x = b.input("x", (4, 70000))
    y = b.add(K.SOFTMAX, b.add(K.MUL, x, x), axis=1)
    z = b.add(K.LAYER_NORM, y, _weight(b, 70000), _weight(b, 70000), axis=1)
    return b.add(K.ADD, z, b.add(K.RMS_NORM, x, _weight(b, 70000), axis=1))


def _many_images(b: GraphBuilder) -> str:
    x = b.input("x", (66000, 2, 3, 3))
    y = b.add(K.RELU, b.add(K.CONV, x, _weight(b, 4, 2, 3, 3), pads=(1,) * 4))
    z = b.add(K.MAX_POOL, y, kernel=(2, 2), strides=(1, 1), pads=(0,) * 4)
    return b.add(K.RELU, b.add(K.CONV, z, _weight(b, 4, 1, 2, 2), group=4))


def _many_matrices(b: GraphBuilder) -> str:
    x, y = b.input("x", (300, 40, 7, 9)), b.input("y", (300, 40, 9, 5))
    scores = b.add(K.SOFTMAX, b.add(K.MATMUL, x, y), axis=3)
    return b.add(K.MATMUL, scores, b.input("z", (300, 1, 5, 3)))


def _tall_product(b: GraphBuilder) -> str:
    x = b.input("x", (70000, 8))
    y = b.add(K.ADD, b.add(K.MATMUL, x, _weight(b, 8, 12)), _weight(b, 12))
    return b.add(K.MATMUL, b.add(K.RELU, y), _weight(b, 12, 5))


def _wide_product(b: GraphBuilder) -> str:
    y = b.add(K.MATMUL, b.input("x", (3, 8)), _weight(b, 8, 70000))
    return b.add(K.SOFTMAX, b.add(K.ADD, y, _weight(b, 70000)), axis=1)


def _deep_product(b: GraphBuilder) -> str:
    x = b.add(K.RELU, b.input("x", (2, 70000)))
    y = b.add(K.MATMUL, x, _weight(b, 70000, 5))
    return b.add(K.MATMUL, b.input("z", (70000, 5)), b.add(K.TANH, y), trans_b=1)


def _long_kernel(b: GraphBuilder) -> str:
    """One-dimensional, of more taps than 12 bits count."""
    x = b.input("x", (1, 2, 1, 9000))
    y = b.add(K.CONV, x, _weight(b, 3, 2, 1, 5000), pads=(0, 2500, 0, 2500))
    return b.add(
        K.AVERAGE_POOL, b.add(K.RELU, y), kernel=(1, 4500), strides=(1, 3), pads=(0, 8, 0, 8)
    )


def _dilated(b: GraphBuilder) -> str:
    x = b.input("x", (1, 6, 80, 80))
    y = b.add(K.CONV, x, _weight(b, 4, 6, 3, 3), dilations=(36, 36), pads=(36,) * 4)
    z = b.add(
        K.CONV,
        b.add(K.RELU, y),
        _weight(b, 4, 1, 3, 3),
        dilations=(24, 24),
        pads=(24,) * 4,
        group=4,
    )
    return b.add(K.MAX_POOL, z, kernel=(3, 3), strides=(2, 2), dilations=(18, 18), pads=(1,) * 4)


def _leaping(b: GraphBuilder) -> str:
    """Strides and steps beyond 16 bits."""
    x = b.input("x", (2, 3, 1, 300_000))
    y = b.add(K.CONV, x, _weight(b, 4, 3, 1, 3), strides=(1, 70000), dilations=(1, 40000))
    z = b.add(K.SLICE, x, starts=(0, 0, 0, 0), sizes=(2, 3, 1, 4), steps=(1, 1, 1, 66000))
    return b.add(K.ADD, b.add(K.REDUCE_SUM, y, axes=(1,)), b.add(K.REDUCE_SUM, z, axes=(1, 3)))


def _large_kernel(b: GraphBuilder) -> str:
    x = b.input("x", (1, 8, 40, 40))
    y = b.add(K.CONV, x, _weight(b, 8, 1, 31, 31), _weight(b, 8), pads=(15,) * 4, group=8)
    return b.add(K.CONV, b.add(K.GELU, y), _weight(b, 4, 8, 17, 17), pads=(8,) * 4)


def _large_image(b: GraphBuilder) -> str:
    x = b.input("x", (1, 3, 300, 300))
    y = b.add(K.RELU, b.add(K.CONV, x, _weight(b, 4, 3, 3, 3), _weight(b, 4), pads=(1,) * 4))
    z = b.add(K.ADD, b.add(K.CONV, y, _weight(b, 4, 4, 1, 1)), y)
    return b.add(K.AVERAGE_POOL, z, kernel=(300, 300), strides=(1, 1), pads=(0,) * 4)


def _ones(b: GraphBuilder) -> str:
    x = b.input("x", (1, 1, 1, 1))
    y = b.add(K.CONV, x, _weight(b, 1, 1, 1, 1), _weight(b, 1))
    z = b.add(K.SOFTMAX, b.add(K.ADD, y, _weight(b)), axis=1)
    return b.add(K.LAYER_NORM, b.add(K.RESHAPE, z, shape=(1, 1)), _weight(b, 1), axis=1)


def _scalars(b: GraphBuilder) -> str:
    x, s = b.input("x", ()), b.input("s", ())
    y = b.add(K.MUL, b.add(K.ADD, b.add(K.DIV, x, s), _weight(b)), s)
    return b.add(K.ADD, b.add(K.EXPAND, b.add(K.RESHAPE, y, shape=(1, 1)), shape=(5, 7)), s)


def _five_axes(b: GraphBuilder) -> str:
    x = b.input("x", (2, 3, 8, 6, 20))
    y = b.add(K.TRANSPOSE, b.add(K.ADD, x, _weight(b, 8, 1, 20)), perm=(4, 2, 0, 3, 1))
    z = b.add(K.MUL, y, b.add(K.SIGMOID, y))
    rows = b.add(K.LAYER_NORM, z, _weight(b, 6, 3), _weight(b, 6, 3), axis=3)
    total = b.add(K.REDUCE_SUM, z, axes=(1, 3))
    return b.add(K.ADD, b.add(K.MATMUL, rows, _weight(b, 3, 3)), total)


def _shared_rows(b: GraphBuilder) -> str:
    """A value that readers take by other axes each, in five dimensions."""
    x = b.add(K.TANH, b.input("x", (4, 6, 4, 6, 4)))
    turned = b.add(K.TRANSPOSE, x, perm=(2, 3, 0, 1, 4))
    y = b.add(K.ADD, b.add(K.ADD, x, turned), b.add(K.TRANSPOSE, x, perm=(4, 1, 2, 3, 0)))
    cut = b.add(K.SLICE, x, starts=(1, 1, 1, 1, 1), sizes=(3, 5, 3, 5, 3), steps=(1,) * 5)
    return b.add(K.MUL, b.add(K.PAD, cut, before=(1,) * 5, after=(0,) * 5, value=0.0), y)


def _shared_factors(b: GraphBuilder) -> str:
    """A product of a matrix with itself, and of its parts."""
    x = b.add(K.RELU, b.input("x", (6, 5, 12, 12)))
    square = b.add(K.MATMUL, x, x)
    gram = b.add(K.MATMUL, x, x, trans_b=1)
    return b.add(K.ADD, b.add(K.ADD, square, gram), b.add(K.TRANSPOSE, x, perm=(0, 1, 3, 2)))


def _joined(b: GraphBuilder) -> str:
    """A concatenation of as many operands as there may be."""
    parts = [b.add(K.RELU, b.input(f"x{i}", (2, i + 1))) for i in range(64)]
    return b.add(K.TANH, b.add(K.CONCAT, *parts, axis=1))


def _long_join(b: GraphBuilder) -> str:
    x, y = b.input("x", (1, 50000)), b.input("y", (1, 40000))
    return b.add(K.RELU, b.add(K.CONCAT, b.add(K.TANH, x), y, axis=1))


def _many_sides(b: GraphBuilder) -> str:
    x = y = b.input("x", (3, 70, 50))
    for i in range(40):
        side = (_weight(b), b.input(f"s{i}", (70, 1)), _weight(b, 50), x)[i % 4]
        y = b.add(
            (K.ADD, K.MUL, K.SUB, K.MAXIMUM, K.DIV)[i % 5], *((y, side) if i % 3 else (side, y))
        )
    return y


def _table(b: GraphBuilder) -> str:
    rows = b.input("rows", (70000,))
    return b.add(K.RELU, b.add(K.GATHER, _weight(b, 50257, 24), rows))


def _sliding(b: GraphBuilder) -> str:
    x = b.input("x", (2, 70, 13, 70))
    squares = b.add(K.SLIDING_SUM, b.add(K.MUL, x, x), axis=1, before=2, after=2)
    return b.add(K.DIV, x, b.add(K.SQRT, squares))


def _attention(b: GraphBuilder) -> str:
    """One head of very many keys, more than 16 bits count."""
    q, k, v = (b.input(x, (2, 1, n, 4)) for x, n in (("q", 3), ("k", 66000), ("v", 66000)))
    scores = b.add(K.MUL, b.add(K.MATMUL, q, k, trans_b=1), _weight(b))
    return b.add(K.MATMUL, b.add(K.SOFTMAX, scores, axis=3), v)


ODD_GRAPHS: dict[str, Build] = {
    build.__name__[1:]: build
    for build in (
        _group_norm,
        _long_reductions,
        _millions,
        _long_rows,
        _many_images,
        _many_matrices,
        _tall_product,
        _wide_product,
        _deep_product,
        _long_kernel,
        _dilated,
        _leaping,
        _large_kernel,
        _large_image,
        _ones,
        _scalars,
        _five_axes,
        _shared_rows,
        _shared_factors,
        _joined,
        _long_join,
        _many_sides,
        _table,
        _sliding,
        _attention,
    )
}  # fmt: skip


def odd_graph(name: str) -> Graph:
    """The graph of that name."""
    builder = GraphBuilder(name)
    return builder.build(outputs=[ODD_GRAPHS[name](builder)])
