"""The menu of operators that drawn models are made of: each draws its attributes for an operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from tests.growing_models import MOST_OPERATORS, Growth

Rule = Callable[[Growth, str], object]

UNARY = {
    "Relu": {}, "Tanh": {}, "Sigmoid": {}, "Neg": {}, "Abs": {}, "Sin": {}, "Cos": {}, "Erf": {},
    "Exp": {}, "Atan": {}, "Softplus": {}, "Softsign": {}, "Mish": {}, "HardSwish": {}, "Identity": {},
    "Elu": {"alpha": 0.5}, "Selu": {}, "Celu": {"alpha": 0.7}, "HardSigmoid": {"alpha": 0.3},
    "LeakyRelu": {"alpha": 0.1}, "Gelu": {"approximate": "none"}, "Asinh": {},
}  # fmt: skip
"""Continuous functions that are defined everywhere, with attributes."""
REDUCTIONS = (
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare",
    "ReduceLogSumExp", "ReduceProd",
)  # fmt: skip


def unary(g: Growth, x: str) -> None:
    kind = g.draw(st.sampled_from(sorted(UNARY)))
    g.node(kind, [x], **UNARY[kind])


def positive(g: Growth, x: str) -> None:
    """A function of positive numbers, of |x| + 0.5."""
    above = g.node("Add", [g.node("Abs", [x]), g.constant(0.5)])
    g.node(g.draw(st.sampled_from(["Log", "Sqrt", "Reciprocal"])), [above])


def clip(g: Growth, x: str) -> None:
    g.node("Clip", [x, g.constant(-0.5), g.constant(0.75)])


def prelu(g: Growth, x: str) -> None:
    g.node("PRelu", [x, _part(g, x)])


def _part(g: Growth, x: str) -> str:
    """A constant that broadcasts to a tensor: some of its axes are 1, or missing at the front."""
    shape = g.shape(x)[g.draw(st.integers(0, len(g.shape(x)))) :]
    return g.constant(g.normal(*(n if g.draw(st.booleans()) else 1 for n in shape)))


def binary(g: Growth, x: str) -> None:
    kind = g.draw(st.sampled_from(["Add", "Mul", "Sub", "Max", "Min"]))
    operands = [x, g.alike(x) if g.draw(st.booleans()) else _part(g, x)]
    g.node(kind, operands[:: g.draw(st.sampled_from([1, -1]))])


def residual(g: Growth, x: str) -> None:
    """A join with any tensor that broadcasts with this one."""
    fits = [t for t in g.values if _broadcasts(g.shape(t), g.shape(x))]
    g.node(g.draw(st.sampled_from(["Add", "Mul", "Max"])), [x, g.draw(st.sampled_from(fits))])


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def divide(g: Growth, x: str) -> None:
    g.node("Div", [x, g.constant(1 + g.rng.random(g.shape(x)[-1:]))])


def many(g: Growth, x: str) -> None:
    g.node(g.draw(st.sampled_from(["Sum", "Mean", "Max"])), [x, g.alike(x), g.alike(x)])


def where(g: Growth, x: str) -> None:
    mask = g.constant(g.rng.random(g.shape(x)) < 0.5, np.bool_)
    g.node("Where", [mask, x, g.alike(x)])


def steps(g: Growth, x: str) -> None:
    """x plus a function with steps of a constant, since rounding moves nothing across a step."""
    kind = g.draw(st.sampled_from(["Floor", "Ceil", "Round", "Sign"]))
    g.node("Add", [x, g.node(kind, [g.constant(3 * g.normal(*g.shape(x)))])])


def conv(g: Growth, x: str) -> None:
    c, extents = g.shape(x)[1], g.shape(x)[2:]
    kind = g.draw(
        st.sampled_from(["plain", "plain", "by threes", "depthwise", "grouped", "narrow"])
    )
    free = kind != "by threes"  # else what Winograd's tiles may compute
    kernel = [g.draw(st.integers(1, 3)) if free else 3 for _ in extents]
    group = c if kind == "depthwise" else _divisor(g, c) if kind == "grouped" else 1
    out = group * g.draw(st.integers(1, 2 if group > 1 else 6))
    if kind == "narrow":  # groups of as many outputs as inputs, of which several fill a register
        x = g.node("Concat", [x] * 4, axis=1)
        out = c = g.shape(x)[1]
        group = c // g.draw(st.sampled_from([n for n in (1, 2, 4) if c % n == 0]))
    inputs = [x, g.constant(g.normal(out, c // group, *kernel) / math.sqrt(math.prod(kernel)))]
    if g.draw(st.booleans()):
        inputs.append(g.constant(g.normal(out)))
    dilations = [g.draw(st.sampled_from([1, 1, 2])) if free else 1 for _ in extents]
    pads = [g.draw(st.integers(0, k - 1)) for k in kernel * 2]
    strides = [g.draw(st.integers(1, 2)) if free else 1 for _ in extents]
    if _spans(extents, kernel, dilations, pads):
        g.node(
            "Conv", inputs, kernel_shape=kernel, dilations=dilations, pads=pads, strides=strides,
            group=group,
        )  # fmt: skip


def _spans(
    extents: Sequence[int], kernel: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> bool:
    """Whether a window fits into a padded image."""
    around = [before + after for before, after in zip(pads, pads[len(kernel) :], strict=False)]
    return all(
        n + p >= d * (k - 1) + 1
        for n, k, d, p in zip(extents, kernel, dilations, around, strict=True)
    )


def _divisor(g: Growth, n: int) -> int:
    return g.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))


def conv_transpose(g: Growth, x: str) -> None:
    c, extents = g.shape(x)[1], g.shape(x)[2:]
    kernel = [g.draw(st.integers(1, 3)) for _ in extents]
    out = g.draw(st.integers(1, 3))
    inputs = [x, g.constant(g.normal(c, out, *kernel))]
    if g.draw(st.booleans()):
        inputs.append(g.constant(g.normal(out)))
    strides = [g.draw(st.integers(1, 2)) for _ in extents]
    g.node("ConvTranspose", inputs, kernel_shape=kernel, strides=strides)


def join_grown(g: Growth, x: str) -> None:
    """Two transposed convolutions whose taps do not overlap, joined, as U-Net joins one with an image of its size."""
    c, extents = g.shape(x)[1], g.shape(x)[2:]
    taps = [g.draw(st.integers(1, 2)) for _ in extents]
    grown = []
    for _ in range(2):
        weight = g.constant(g.normal(c, g.draw(st.integers(1, 4)), *taps))
        grown.append(g.node("ConvTranspose", [x, weight], kernel_shape=taps, strides=taps))
    first, second = map(g.shape, grown)
    if first[0] == second[0] and first[2:] == second[2:]:
        g.node("Concat", grown, axis=1)


def pool(g: Growth, x: str) -> None:
    extents = g.shape(x)[2:]
    kernel = [g.draw(st.integers(1, 3)) for _ in extents]
    pads = [g.draw(st.integers(0, k // 2)) for k in kernel] * 2
    strides = [g.draw(st.integers(1, 2)) for _ in extents]
    if any(
        pads
    ):  # ONNX's evaluator is wrong of padded pools that do not stride, and of uneven pads
        strides[0] = 2
    if not _spans(extents, kernel, [1] * len(kernel), pads):
        return
    kind = g.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    more = {"count_include_pad": g.draw(st.integers(0, 1))} if kind == "AveragePool" else {}
    g.node(kind, [x], kernel_shape=kernel, pads=pads, strides=strides, **more)


def global_pool(g: Growth, x: str) -> None:
    kinds = ["GlobalAveragePool"]
    if len(g.shape(x)) == 4:  # ONNX's evaluator is wrong of other ranks
        kinds.append("GlobalMaxPool")
    g.node(g.draw(st.sampled_from(kinds)), [x])


def squeeze_excite(g: Growth, x: str) -> None:
    """A product with what its own means give: a reduction, then a broadcast."""
    c = g.shape(x)[1]
    means = g.node("GlobalAveragePool", [x])
    gates = g.node("Conv", [means, g.constant(g.normal(c, c, *(1 for _ in g.shape(x)[2:])))])
    if g.shape(gates)[:2] == g.shape(x)[:2]:
        g.node("Mul", [x, g.node("Sigmoid", [gates])])


def resize(g: Growth, x: str) -> None:
    scales = [1.0, 1.0, *(g.draw(st.sampled_from([1.0, 2.0])) for _ in g.shape(x)[2:])]
    mode = g.draw(st.sampled_from(["nearest", "linear"]))
    place = "asymmetric" if mode == "nearest" else g.draw(
        st.sampled_from(["half_pixel", "align_corners"])
    )  # fmt: skip
    g.node(
        "Resize", [x, "", g.constant(scales)], mode=mode, coordinate_transformation_mode=place,
        nearest_mode="floor",
    )  # fmt: skip


def depth_to_space(g: Growth, x: str) -> None:
    c, h, w = g.shape(x)[1:]
    if c % 4 == 0:
        g.node("DepthToSpace", [x], blocksize=2, mode=g.draw(st.sampled_from(["DCR", "CRD"])))
    elif h % 2 == 0 and w % 2 == 0:
        g.node("SpaceToDepth", [x], blocksize=2)


def batch_norm(g: Growth, x: str) -> None:
    c = g.shape(x)[1]
    scale, bias, mean = (g.constant(g.normal(c)) for _ in range(3))
    g.node("BatchNormalization", [x, scale, bias, mean, g.constant(0.5 + g.rng.random(c))])


def instance_norm(g: Growth, x: str) -> None:
    c = g.shape(x)[1]
    parts = [g.constant(g.normal(c)) for _ in range(2)]
    g.node("InstanceNormalization", [x, *parts], epsilon=0.05)


def layer_norm(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shape(x)) - 1))
    parts = [g.constant(g.normal(*g.shape(x)[axis:])) for _ in range(g.draw(st.integers(1, 2)))]
    g.node("LayerNormalization", [x, *parts], axis=axis, epsilon=0.05)


def softmax(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(-1, len(g.shape(x)) - 1))
    g.node(g.draw(st.sampled_from(["Softmax", "Softmax", "LogSoftmax"])), [x], axis=axis)


def reduce(g: Growth, x: str) -> None:
    rank = len(g.shape(x))
    axes = sorted(g.draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=2)))
    kind = g.draw(st.sampled_from(REDUCTIONS))
    keep = g.draw(st.integers(0, 1)) if len(axes) < rank else 1
    y = g.node(kind, [x, g.constant(axes, np.int64)], keepdims=keep)
    if keep and g.draw(st.booleans()):
        g.node(g.draw(st.sampled_from(["Sub", "Mul", "Add"])), [x, y])


def matmul(g: Growth, x: str) -> None:
    *batch, _, k = (1, *g.shape(x))
    n = g.draw(st.integers(1, 9))
    whole = batch[1:] if g.draw(st.booleans()) else []
    g.node("MatMul", [x, g.constant(g.normal(*whole, k, n) / math.sqrt(k))])


def gram(g: Growth, x: str) -> None:
    """A product of two tensors that are both made at run time."""
    perm = [*range(len(g.shape(x)) - 2), len(g.shape(x)) - 1, len(g.shape(x)) - 2]
    turned = g.node("Transpose", [g.alike(x)], perm=perm)
    pair = [x, turned][:: g.draw(st.sampled_from([1, -1]))]
    if g.shape(pair[0])[-1] == g.shape(pair[1])[-2]:
        g.node("MatMul", pair)


def attention(g: Growth, x: str) -> None:
    """softmax(x yᵀ) z for three tensors of one shape."""
    y, z = g.alike(x), g.alike(x)
    perm = [*range(len(g.shape(x)) - 2), len(g.shape(x)) - 1, len(g.shape(x)) - 2]
    scores = g.node("MatMul", [x, g.node("Transpose", [y], perm=perm)])
    if scores != x:
        g.node("MatMul", [g.node("Softmax", [scores], axis=-1), z])


def gemm(g: Growth, x: str) -> None:
    m, k = g.shape(x)
    trans_a, trans_b = g.draw(st.integers(0, 1)), g.draw(st.integers(0, 1))
    inner, n = (m if trans_a else k), g.draw(st.integers(1, 9))
    inputs = [x, g.constant(g.normal(*((n, inner) if trans_b else (inner, n))))]
    if g.draw(st.booleans()):
        inputs.append(g.constant(g.normal(n)))
    g.node("Gemm", inputs, transA=trans_a, transB=trans_b, alpha=0.5, beta=1.5)


def transpose(g: Growth, x: str) -> None:
    g.node("Transpose", [x], perm=g.draw(st.permutations(range(len(g.shape(x))))))


def reshape(g: Growth, x: str) -> None:
    shape = list(g.shape(x))
    at = g.draw(st.integers(0, len(shape) - 1))
    part = _divisor(g, shape[at])
    joined = (
        [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]] if at + 1 < len(shape) else []
    )
    parted = [*shape[:at], part, shape[at] // part, *shape[at + 1 :]]
    target = joined if len(joined) > 1 and g.draw(st.booleans()) else parted
    g.node("Reshape", [x, g.constant(target, np.int64)])


def squeeze(g: Growth, x: str) -> None:
    ones = [d for d, n in enumerate(g.shape(x)) if n == 1]
    if ones and len(g.shape(x)) > 2:
        g.node("Squeeze", [x, g.constant([g.draw(st.sampled_from(ones))], np.int64)])
    else:
        g.node("Unsqueeze", [x, g.constant([g.draw(st.integers(0, len(g.shape(x))))], np.int64)])


def concat(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shape(x)) - 1))
    fits = [t for t in g.values if _joins(g.shape(t), g.shape(x), axis)]
    others = g.draw(st.lists(st.sampled_from(fits), min_size=1, max_size=2))
    g.node("Concat", [x, *others], axis=axis)


def _joins(a: Sequence[int], b: Sequence[int], axis: int) -> bool:
    return len(a) == len(b) and all(
        m == n for d, (m, n) in enumerate(zip(a, b, strict=True)) if d != axis
    )


def split(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shape(x)) - 1))
    extent = g.shape(x)[axis]
    if extent > 1:
        at = g.draw(st.integers(1, extent - 1))
        g.node("Split", [x, g.constant([at, extent - at], np.int64)], outputs=2, axis=axis)


def slice(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shape(x)) - 1))
    extent = g.shape(x)[axis]
    step = g.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
    low = g.draw(st.integers(0, extent - 1))
    first, last = (low, extent) if step > 0 else (low, -extent - 1)
    operands = ([n] for n in (first, last, axis, step))
    g.node("Slice", [x, *(g.constant(row, np.int64) for row in operands)])


def pad(g: Growth, x: str) -> None:
    rank = len(g.shape(x))
    widths = [g.draw(st.sampled_from([0, 0, 1, 2])) for _ in range(2 * rank)]
    mode = g.draw(st.sampled_from(["constant", "constant", "reflect", "edge"]))
    if mode != "constant":
        widths = [min(w, n - 1) for w, n in zip(widths, g.shape(x) * 2, strict=True)]
    value = [g.constant(g.draw(st.sampled_from([0.0, 1.5, -2.0])))] if mode == "constant" else []
    g.node("Pad", [x, g.constant(widths, np.int64), *value], mode=mode)


def expand(g: Growth, x: str) -> None:
    shape = [g.draw(st.integers(1, 3)) if n == 1 else n for n in g.shape(x)]
    g.node("Expand", [x, g.constant(shape, np.int64)])


def tile(g: Growth, x: str) -> None:
    counts = [g.draw(st.sampled_from([1, 1, 2])) for _ in g.shape(x)]
    g.node("Tile", [x, g.constant(counts, np.int64)])


def gather(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shape(x)) - 1))
    extent = g.shape(x)[axis]
    rows = g.draw(st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=4))
    g.node("Gather", [x, g.constant(rows, np.int64)], axis=axis)


def unbind(g: Growth, x: str) -> None:
    """Rows one by one along an axis of a turned tensor, as queries and keys of one product."""
    perm = g.draw(st.permutations(range(len(g.shape(x)))))
    turned = g.node("Transpose", [x], perm=perm)
    axis = g.draw(st.integers(0, len(perm) - 1))
    for row in range(min(2, g.shape(turned)[axis])):
        g.node("Gather", [turned, g.constant(row, np.int64)], axis=axis)


def gather_elements(g: Growth, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shape(x)) - 1))
    rows = g.rng.integers(0, g.shape(x)[axis], g.shape(x))
    g.node("GatherElements", [x, g.constant(rows, np.int64)], axis=axis)


def running_sum(g: Growth, x: str) -> None:
    axis = g.constant(g.draw(st.integers(0, len(g.shape(x)) - 1)), np.int64)
    flags = {name: g.draw(st.integers(0, 1)) for name in ("exclusive", "reverse")}
    g.node("CumSum", [x, axis], **flags)


def triangle(g: Growth, x: str) -> None:
    g.node(
        "Trilu",
        [x, g.constant(g.draw(st.integers(-1, 2)), np.int64)],
        upper=g.draw(st.integers(0, 1)),
    )


ANY: tuple[Rule, ...] = (
    unary, unary, unary, positive, clip, binary, binary, residual, residual, divide, many, where,
    steps, softmax, layer_norm, reduce, reduce, transpose, reshape, squeeze, concat, concat, split,
    slice, pad, expand, tile, gather, gather_elements, unbind, running_sum,
)  # fmt: skip
ROWS: tuple[Rule, ...] = (matmul, matmul, gram, attention, triangle)
"""Of tensors of at least two axes."""
CHANNELS: tuple[Rule, ...] = (
    conv, conv, conv, conv, conv, conv, conv_transpose, join_grown, pool, pool, global_pool, squeeze_excite,
    batch_norm, instance_norm, prelu,
)  # fmt: skip
"""Of [N, C, D...]."""
IMAGES: tuple[Rule, ...] = (resize, depth_to_space)


def any_operator(g: Growth) -> None:
    """Add one drawn operator, or the few of a pattern, as far as there is room for them."""
    x = g.pick()
    rank = len(g.shape(x))
    if rank == 0:
        return
    menu = ANY + (ROWS if rank >= 2 else ()) + (CHANNELS if rank >= 3 else ())
    menu += ((gemm,) if rank == 2 else ()) + (IMAGES if rank == 4 else ())
    g.draw(st.sampled_from(menu))(g, x)
    assert len(g.nodes) <= MOST_OPERATORS + 3
