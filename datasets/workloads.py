"""Draws small graphs like those found in real networks: what calibration measures.

Timing does not depend on values, so weights are read-only views of a few random numbers
(``numpy.broadcast_to``): a graph with hundreds of megabytes of weights holds a few bytes. Numbers
stay well-defined (finite, positive variances), so the graphs can also be executed and compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind

Draw = np.random.Generator

ACTIVATIONS = (
    OpKind.RELU,
    OpKind.SIGMOID,
    OpKind.TANH,
    OpKind.GELU,
    OpKind.GELU_TANH,
    OpKind.LEAKY_RELU,
    OpKind.ABS,
    OpKind.NEG,
)
MAX_MULTIPLY_ADDS = 1 << 29
"""Work of one convolution or matmul at most: the largest in ResNet-50 and VGG-19 is near 2³¹,
but a measurement must take milliseconds."""

MAX_ACTIVATION_ELEMENTS = 1 << 21
"""Elements of one activation at most, above ResNet-50's largest (64 × 112 × 112 = 0.8 million)."""


def random_graphs(rng: np.random.Generator, count: int) -> Iterator[Graph]:
    """``count`` graphs, shapes drawn by weight from ``SHAPES``; a seed reproduces them all."""
    names = list(SHAPES)
    weights = np.asarray([SHAPES[name][0] for name in names], dtype=np.float64)
    for index in range(count):
        name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        yield SHAPES[name][1](rng, GraphBuilder(f"{name}_{index}"))


def log_uniform(rng: Draw, low: int, high: int, multiple: int = 1) -> int:
    """An integer in low..high, uniform in its logarithm, rounded to ``multiple`` half of the time."""
    value = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    if rng.random() < 0.5:
        value = max(1, round(value / multiple)) * multiple
    return min(high, max(low, value))


def weights(rng: Draw, b: GraphBuilder, *shape: int) -> str:
    """A constant of this shape that takes no memory: rows repeat one short random line."""
    fan_in = max(1, math.prod(shape[1:]) if len(shape) == 4 else shape[0])
    line = (rng.standard_normal(shape[-1]) / math.sqrt(fan_in)).astype(np.float32)
    values: npt.NDArray[np.float32] = np.broadcast_to(line, shape)
    return b.constant(values)


def _image(rng: Draw, b: GraphBuilder, multiple: int = 8) -> str:
    """An input [1, C, H, W] with C 8..1024 and H = W 7..112, as deep layers are small."""
    size = log_uniform(rng, 7, 112, 7)
    most = min(1024, MAX_ACTIVATION_ELEMENTS // (size * size))
    channels = log_uniform(rng, 8, most, multiple)
    return b.input("x", (1, max(multiple, channels // multiple * multiple), size, size))


def _conv(
    rng: Draw,
    b: GraphBuilder,
    x: str,
    kernel: int,
    stride: int = 1,
    group: int = 1,
    outputs: int | None = None,
) -> str:
    """A convolution with "same" padding, mostly with bias, of bounded work."""
    _, channels, height, width = b.shape(x)
    if outputs is None:
        per_output = channels // group * kernel * kernel * height * width // stride**2
        most = min(1024, max(group, MAX_MULTIPLY_ADDS // max(1, per_output)))
        outputs = max(1, log_uniform(rng, 8, max(8, most), 8) // group) * group
    operands = [x, weights(rng, b, outputs, channels // group, kernel, kernel)]
    if rng.random() < 0.8:
        operands.append(weights(rng, b, outputs))
    pads = (kernel // 2,) * 4
    return b.add(OpKind.CONV, *operands, strides=(stride, stride), pads=pads, group=group)


def _kernel(rng: Draw) -> tuple[int, int]:
    """Kernel and stride as often as real CNNs have them."""
    kernel = int(rng.choice([1, 3, 5, 7], p=[0.4, 0.4, 0.1, 0.1]))
    return kernel, int(rng.choice([1, 2], p=[0.75, 0.25]))


def _activation(rng: Draw, b: GraphBuilder, x: str, relu: float = 0.6) -> str:
    if rng.random() < relu:
        return b.add(OpKind.RELU, x)
    return b.add(ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))], x)


def _finish(b: GraphBuilder, y: str) -> Graph:
    return b.build([y])


def conv(rng: Draw, b: GraphBuilder) -> Graph:
    """One dense convolution."""
    return _finish(b, _conv(rng, b, _image(rng, b), *_kernel(rng)))


def conv_activation(rng: Draw, b: GraphBuilder) -> Graph:
    """Convolution and activation."""
    return _finish(b, _activation(rng, b, _conv(rng, b, _image(rng, b), *_kernel(rng))))


def conv_residual(rng: Draw, b: GraphBuilder) -> Graph:
    """The end of a residual block: relu(conv(x) + shortcut)."""
    y = _conv(rng, b, _image(rng, b), *_kernel(rng))
    shortcut = b.input("shortcut", b.shape(y))
    y = b.add(OpKind.ADD, y, shortcut)
    return _finish(b, b.add(OpKind.RELU, y))


def conv_scale_shift(rng: Draw, b: GraphBuilder) -> Graph:
    """A convolution with an unfolded batch norm and an activation."""
    y = _conv(rng, b, _image(rng, b), *_kernel(rng))
    channels = b.shape(y)[1]
    y = b.add(OpKind.MUL, y, weights(rng, b, channels, 1, 1))
    y = b.add(OpKind.ADD, y, weights(rng, b, channels, 1, 1))
    return _finish(b, _activation(rng, b, y))


def depthwise(rng: Draw, b: GraphBuilder) -> Graph:
    """A depthwise convolution, with an activation half of the time."""
    x = _image(rng, b)
    channels = b.shape(x)[1]
    kernel, stride = int(rng.choice([3, 5])), int(rng.choice([1, 2]))
    y = _conv(rng, b, x, kernel, stride, channels, channels)
    return _finish(b, _activation(rng, b, y) if rng.random() < 0.5 else y)


def grouped(rng: Draw, b: GraphBuilder) -> Graph:
    """A grouped convolution of 2 to 32 groups."""
    group = int(2 ** rng.integers(1, 6))
    x = _image(rng, b, multiple=max(8, group))
    return _finish(b, _conv(rng, b, x, int(rng.choice([1, 3])), 1, group))


def depthwise_pointwise(rng: Draw, b: GraphBuilder) -> Graph:
    """A MobileNet pair: depthwise 3×3, activation, pointwise."""
    x = _image(rng, b)
    channels = b.shape(x)[1]
    y = _conv(rng, b, x, 3, int(rng.choice([1, 2])), channels, channels)
    if rng.random() < 0.7:
        y = b.add(OpKind.CLIP, y, min=0.0, max=6.0)
    return _finish(b, _conv(rng, b, y, 1))


def conv_pair(rng: Draw, b: GraphBuilder) -> Graph:
    """Two convolutions with an activation between: 1×1 → 3×3, 3×3 → 1×1 and 3×3 → 3×3."""
    first, second = ((1, 3), (3, 1), (3, 3))[int(rng.integers(3))]
    y = b.add(OpKind.RELU, _conv(rng, b, _image(rng, b), first))
    y = _conv(rng, b, y, second)
    return _finish(b, b.add(OpKind.RELU, y) if rng.random() < 0.5 else y)


def bottleneck(rng: Draw, b: GraphBuilder) -> Graph:
    """A ResNet bottleneck: 1×1, 3×3, 1×1 with a shortcut over all three."""
    x = _image(rng, b, multiple=16)
    channels = b.shape(x)[1]
    middle = max(4, channels // 4)
    y = b.add(OpKind.RELU, _conv(rng, b, x, 1, 1, 1, middle))
    y = b.add(OpKind.RELU, _conv(rng, b, y, 3, 1, 1, middle))
    y = b.add(OpKind.ADD, _conv(rng, b, y, 1, 1, 1, channels), x)
    return _finish(b, b.add(OpKind.RELU, y))


def conv_concat(rng: Draw, b: GraphBuilder) -> Graph:
    """A SqueezeNet fire or Inception part: parallel convolutions, concatenated."""
    x = _image(rng, b)
    branches = [
        b.add(OpKind.RELU, _conv(rng, b, x, kernel))
        for kernel in ((1, 3), (1, 3, 5))[int(rng.integers(2))]
    ]
    return _finish(b, b.add(OpKind.CONCAT, *branches, axis=1))


def pool(rng: Draw, b: GraphBuilder) -> Graph:
    """Max or average pooling, sometimes after an activation."""
    x = _image(rng, b)
    if rng.random() < 0.4:
        x = b.add(OpKind.RELU, x)
    kernel, stride = int(rng.choice([2, 3, 7])), int(rng.choice([1, 2]))
    kind = (OpKind.MAX_POOL, OpKind.AVERAGE_POOL)[int(rng.integers(2))]
    pads = (kernel // 2 if kernel == 3 else 0,) * 4
    y = b.add(kind, x, kernel=(kernel, kernel), strides=(stride, stride), pads=pads)
    return _finish(b, y)


def conv_pool(rng: Draw, b: GraphBuilder) -> Graph:
    """Convolution, relu and pooling, as at the head of a CNN."""
    y = b.add(OpKind.RELU, _conv(rng, b, _image(rng, b), *_kernel(rng)))
    if min(b.shape(y)[2:]) < 3 or rng.random() < 0.4:
        return _finish(b, b.add(OpKind.REDUCE_MEAN, y, axes=(2, 3)))
    y = b.add(OpKind.MAX_POOL, y, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    return _finish(b, y)


def _sequence(rng: Draw, b: GraphBuilder) -> str:
    """An input [1, tokens, width] or [tokens, width]; tokens 16..512, width 64..2048."""
    tokens, width = log_uniform(rng, 16, 512, 16), log_uniform(rng, 64, 2048, 32)
    return b.input("x", (1, tokens, width) if rng.random() < 0.5 else (tokens, width))


def _linear(rng: Draw, b: GraphBuilder, x: str, bias: float = 0.7, most: int = 2048) -> str:
    *rows, inner = b.shape(x)
    most = min(most, MAX_MULTIPLY_ADDS // (math.prod(rows) * inner))
    columns = log_uniform(rng, min(64, most), max(64, most), 32)
    y = b.add(OpKind.MATMUL, x, weights(rng, b, inner, columns))
    return b.add(OpKind.ADD, y, weights(rng, b, columns)) if rng.random() < bias else y


def matmul(rng: Draw, b: GraphBuilder) -> Graph:
    """One matmul, now and then with a transposed weight."""
    x = _sequence(rng, b)
    if rng.random() < 0.7:
        return _finish(b, _linear(rng, b, x, bias=0.0))
    w = weights(rng, b, log_uniform(rng, 64, 1024, 32), b.shape(x)[-1])
    return _finish(b, b.add(OpKind.MATMUL, x, w, trans_b=1))


def matmul_activation(rng: Draw, b: GraphBuilder) -> Graph:
    """Matmul, bias, activation (GELU most often)."""
    y = _linear(rng, b, _sequence(rng, b), bias=1.0)
    return _finish(b, b.add(OpKind.GELU, y) if rng.random() < 0.5 else _activation(rng, b, y))


def matmul_softmax(rng: Draw, b: GraphBuilder) -> Graph:
    """A classifier head: matmul, bias, softmax over the columns."""
    y = _linear(rng, b, _sequence(rng, b))
    return _finish(b, b.add(OpKind.SOFTMAX, y, axis=-1))


def layer_norm(rng: Draw, b: GraphBuilder) -> Graph:
    """A layer norm, followed by a matmul most of the time."""
    x = _sequence(rng, b)
    width = b.shape(x)[-1]
    y = b.add(OpKind.LAYER_NORM, x, weights(rng, b, width), weights(rng, b, width), axis=-1)
    return _finish(b, _linear(rng, b, y) if rng.random() < 0.6 else y)


def matmul_chain(rng: Draw, b: GraphBuilder) -> Graph:
    """A feed-forward block: matmul, bias, activation, matmul, sometimes with its residual."""
    x = _sequence(rng, b)
    width = b.shape(x)[-1]
    y = _linear(rng, b, x, bias=1.0)
    y = b.add(OpKind.GELU, y) if rng.random() < 0.5 else b.add(OpKind.RELU, y)
    y = b.add(OpKind.MATMUL, y, weights(rng, b, b.shape(y)[-1], width))
    return _finish(b, b.add(OpKind.ADD, y, x) if rng.random() < 0.5 else y)


def attention(rng: Draw, b: GraphBuilder) -> Graph:
    """softmax(Q · Kᵀ / √d) · V over several heads, or its first part only."""
    heads, depth = int(rng.choice([1, 2, 4, 8, 12])), int(rng.choice([32, 64]))
    tokens = log_uniform(rng, 16, 256, 16)
    shape = (1, heads, tokens, depth)
    scores = b.add(OpKind.MATMUL, b.input("q", shape), b.input("k", shape), trans_b=1)
    scores = b.add(OpKind.MUL, scores, b.constant(1 / math.sqrt(depth)))
    y = b.add(OpKind.SOFTMAX, scores, axis=-1)
    return _finish(b, b.add(OpKind.MATMUL, y, b.input("v", shape)) if rng.random() < 0.6 else y)


def _any_input(rng: Draw, b: GraphBuilder) -> str:
    return _image(rng, b) if rng.random() < 0.5 else _sequence(rng, b)


def elementwise(rng: Draw, b: GraphBuilder) -> Graph:
    """A chain of one to four element-wise operators, some with a second operand."""
    y = _any_input(rng, b)
    for index in range(int(rng.integers(1, 5))):
        if rng.random() < 0.5:
            y = _activation(rng, b, y, relu=0.3)
            continue
        kind = (OpKind.ADD, OpKind.MUL, OpKind.SUB, OpKind.MAXIMUM)[int(rng.integers(4))]
        other = b.input(f"other_{index}", b.shape(y))
        y = b.add(kind, y, other)
    return _finish(b, y)


def broadcast(rng: Draw, b: GraphBuilder) -> Graph:
    """An element-wise operator with a per-channel or per-column constant, then an activation."""
    x = _any_input(rng, b)
    shape = b.shape(x)
    constant = weights(rng, b, shape[1], 1, 1) if len(shape) == 4 else weights(rng, b, shape[-1])
    kind = (OpKind.ADD, OpKind.MUL)[int(rng.integers(2))]
    return _finish(b, _activation(rng, b, b.add(kind, x, constant)))


def reduction(rng: Draw, b: GraphBuilder) -> Graph:
    """A mean, sum or maximum over the spatial axes or the last one."""
    x = _any_input(rng, b)
    if rng.random() < 0.4:
        x = _activation(rng, b, x)
    kind = (OpKind.REDUCE_MEAN, OpKind.REDUCE_SUM, OpKind.REDUCE_MAX)[int(rng.integers(3))]
    axes = (2, 3) if len(b.shape(x)) == 4 and rng.random() < 0.8 else (-1,)
    return _finish(b, b.add(kind, x, axes=axes))


def softmax(rng: Draw, b: GraphBuilder) -> Graph:
    """A softmax over the last axis."""
    return _finish(b, b.add(OpKind.SOFTMAX, _sequence(rng, b), axis=-1))


def transpose(rng: Draw, b: GraphBuilder) -> Graph:
    """A transpose, as between attention heads, NCHW to NHWC, or of a matrix."""
    x = _any_input(rng, b)
    rank = len(b.shape(x))
    by_rank: dict[int, list[tuple[int, ...]]] = {
        2: [(1, 0)],
        3: [(0, 2, 1)],
        4: [(0, 2, 3, 1), (0, 2, 1, 3)],
    }
    perms = by_rank[rank]
    return _finish(b, b.add(OpKind.TRANSPOSE, x, perm=perms[int(rng.integers(len(perms)))]))


SHAPES: dict[str, tuple[float, Callable[[Draw, GraphBuilder], Graph]]] = {
    "conv": (3.0, conv),
    "conv_activation": (3.0, conv_activation),
    "conv_residual": (2.0, conv_residual),
    "conv_scale_shift": (1.0, conv_scale_shift),
    "depthwise": (1.0, depthwise),
    "grouped": (1.0, grouped),
    "depthwise_pointwise": (2.0, depthwise_pointwise),
    "conv_pair": (3.0, conv_pair),
    "bottleneck": (1.0, bottleneck),
    "conv_concat": (1.0, conv_concat),
    "pool": (1.0, pool),
    "conv_pool": (1.0, conv_pool),
    "matmul": (2.0, matmul),
    "matmul_activation": (2.0, matmul_activation),
    "matmul_softmax": (1.0, matmul_softmax),
    "layer_norm": (1.0, layer_norm),
    "matmul_chain": (2.0, matmul_chain),
    "attention": (1.0, attention),
    "elementwise": (1.5, elementwise),
    "broadcast": (1.0, broadcast),
    "reduction": (1.0, reduction),
    "softmax": (0.5, softmax),
    "transpose": (0.5, transpose),
}
"""Workload shape to (weight, builder): how often it is drawn and how it is made."""
