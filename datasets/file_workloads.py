"""Draws small ONNX files with operators that import writes in others, and with sizes that generated graphs do not have.

Systems that read ONNX are timed on a file's own nodes: a recurrent layer is one node there and hundreds of operators here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autotune.datasets.image_blocks import swish
from autotune.datasets.sketch import Sketch
from autotune.datasets.workloads import log_uniform

Draw = np.random.Generator
Image = tuple[str, int, int]
"""A tensor [1, channels, side, side]: name, channels, side."""

RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Recurrent operators with their gates."""
MOST_STEPS = 64
"""Steps of a recurrent layer, both directions together, at most: import writes some thirty operators for each."""
MOST_ELEMENTS = 1 << 24
"""Elements of a streamed tensor or a weight at most: 64 MiB, more than caches hold."""
IMAGE_ELEMENTS = 1 << 20
"""Elements of an image at most."""
MOST_MULTIPLY_ADDS = 1 << 29
"""Work of a convolution or a product at most."""


def random_files(rng: Draw) -> Iterator[bytes]:
    """Give endless ONNX files of one output, by weight from ``FILES``; a seed reproduces them all."""
    names = list(FILES)
    shares = np.array([FILES[name][0] for name in names])
    while True:
        name = names[int(rng.choice(len(names), p=shares / shares.sum()))]
        export = Sketch(rng)
        yield export.finished(name, FILES[name][1](rng, export)).SerializeToString()


def _chance(rng: Draw, share: float) -> bool:
    return bool(rng.random() < share)


def _one_of(rng: Draw, *names: str) -> str:
    return names[int(rng.integers(len(names)))]


def recurrent_layer(rng: Draw, e: Sketch) -> str:
    """An LSTM, a GRU or an RNN, in one direction or both."""
    operator = _one_of(rng, *RECURRENT)
    directions = 2 if _chance(rng, 0.4) else 1
    steps = log_uniform(rng, 4, MOST_STEPS // directions)
    batch = log_uniform(rng, 1, 4)
    inputs, width = log_uniform(rng, 32, 512, 32), log_uniform(rng, 32, 512, 32)
    rows = RECURRENT[operator] * width
    weights = (
        e.normal("w", (directions, rows, inputs), inputs**-0.5),
        e.normal("r", (directions, rows, width), width**-0.5),
        e.normal("b", (directions, 2 * rows), 0.1),
    )
    attrs: dict[str, Any] = {"direction": "bidirectional"} if directions == 2 else {}
    if operator == "GRU":
        attrs["linear_before_reset"] = int(_chance(rng, 0.7))
    y = e.node(operator, e.input(steps, batch, inputs), *weights, hidden_size=width, **attrs)
    return e.reshape(e.transpose(y, 0, 2, 1, 3), 0, 0, -1) if _chance(rng, 0.6) else y


def _image(rng: Draw, e: Sketch, least: int = 7, most: int = 112) -> Image:
    side = log_uniform(rng, least, most, 7)
    channels = log_uniform(rng, 8, min(512, IMAGE_ELEMENTS // side**2), 8)
    return e.input(1, channels, side, side), channels, side


def _conv(rng: Draw, e: Sketch, image: Image, kernel: int = 0) -> Image:
    """A convolution that keeps the sides."""
    x, channels, side = image
    kernel = kernel or (1, 3, 5)[int(rng.choice(3, p=(0.4, 0.5, 0.1)))]
    most = MOST_MULTIPLY_ADDS // (channels * kernel**2 * side**2)
    outputs = log_uniform(rng, 8, max(8, min(512, most)), 8)
    y = e.conv(x, e.named("conv"), (channels, outputs), kernel, pad=kernel // 2)
    return y, outputs, side


def _depthwise(rng: Draw, e: Sketch, image: Image) -> Image:
    x, channels, side = image
    kernel = 3 if _chance(rng, 0.6) else 5
    y = e.conv(x, e.named("dw"), (channels, channels), kernel, pad=kernel // 2, group=channels)
    return y, channels, side


def responses(rng: Draw, e: Sketch) -> str:
    """A convolution normalised over neighbouring channels, as in the first CNNs, and a pool."""
    y = e.node("Relu", _conv(rng, e, _image(rng, e, least=14))[0])
    if _chance(rng, 0.3):
        y = e.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2])
    y = e.node("LRN", y, size=5, alpha=1e-4, beta=0.75, bias=1.0)
    if _chance(rng, 0.5):
        y = e.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    return y


def mobile_block(rng: Draw, e: Sketch) -> str:
    """Point-wise and depth-wise convolutions with the hard functions or Swish; half of the time squeezed and excited."""

    def activated(image: Image) -> Image:
        y, *rest = image
        y = e.node("HardSwish", y) if hard else swish(e, y)
        return (y, *rest)  # type: ignore[return-value]

    hard = _chance(rng, 0.6)
    image = activated(_conv(rng, e, _image(rng, e), kernel=1))
    image = activated(_depthwise(rng, e, image))
    y, channels, _ = image
    if _chance(rng, 0.5):
        middle = max(4, channels // 4)
        gate = e.node("GlobalAveragePool", y)
        gate = e.node("Relu", e.conv(gate, "squeeze", (channels, middle), 1))
        gate = e.conv(gate, "excite", (middle, channels), 1)
        y = e.node("Mul", y, e.node("HardSigmoid" if hard else "Sigmoid", gate))
    return _conv(rng, e, (y, *image[1:]), kernel=1)[0]


def normalised_image(rng: Draw, e: Sketch) -> str:
    """A convolution whose channels are normalised one by one, by stored statistics or by their own."""
    y, channels, _ = _conv(rng, e, _image(rng, e))
    scale, bias = e.vector("scale", channels, 1.0), e.vector("bias", channels)
    if _chance(rng, 0.5):
        y = e.node("InstanceNormalization", y, scale, bias)
    else:
        y = e.node("Relu", y)  # else the normalisation becomes part of the convolution
        mean, spread = e.vector("mean", channels), e.vector("spread", channels, 1.0)
        y = e.node("BatchNormalization", y, scale, bias, mean, spread)
    return e.node(_one_of(rng, "Relu", "Sigmoid", "Tanh"), y)


def resized(rng: Draw, e: Sketch) -> str:
    """An image enlarged two or four times and joined to a larger one, as in pyramids and decoders."""
    x, channels, side = _image(rng, e, most=56)
    scale = 2 if channels * side**2 * 16 > 4 * IMAGE_ELEMENTS or _chance(rng, 0.7) else 4
    mode = _one_of(rng, "nearest", "linear")
    how = {"coordinate_transformation_mode": "half_pixel"}
    if mode == "nearest":
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = e.value("scales", np.array([1, 1, scale, scale], np.float32))
    y = e.node("Resize", x, "", scales, mode=mode, **how)
    shape = (1, channels, scale * side, scale * side)
    match _one_of(rng, "add", "concat", "conv"):
        case "add":
            return e.node("Add", y, e.input(*shape))
        case "concat":
            return e.node("Concat", y, e.input(*shape), axis=1)
        case _:
            return _conv(rng, e, (y, channels, scale * side))[0]


def transposed_convolution(rng: Draw, e: Sketch) -> str:
    """A transposed convolution that doubles the sides, with its activation."""
    x, channels, side = _image(rng, e, most=56)
    kernel = 2 if _chance(rng, 0.6) else 4
    most = MOST_MULTIPLY_ADDS // (channels * kernel**2 * side**2)
    outputs = log_uniform(rng, 8, max(8, min(256, most)), 8)
    y = e.node(
        "ConvTranspose",
        x,
        e.normal("w", (channels, outputs, kernel, kernel), channels**-0.5),
        e.vector("b", outputs),
        kernel_shape=[kernel] * 2,
        strides=[2, 2],
        pads=[(kernel - 2) // 2] * 4,
    )
    return e.node("Relu", y) if _chance(rng, 0.5) else y


def signal(rng: Draw, e: Sketch) -> str:
    """Convolutions of one dimension: point-wise, dilated depth-wise or dense, with activations of audio networks."""
    frames = log_uniform(rng, 64, 4096, 8)
    channels = log_uniform(rng, 16, min(512, IMAGE_ELEMENTS // frames), 16)
    y = e.input(1, channels, frames)
    for _ in range(int(rng.integers(1, 4))):
        kernel = int(rng.choice([1, 1, 3, 5, 15]))
        if kernel > 1 and _chance(rng, 0.6):
            dilation = 2 ** int(rng.integers(0, 6)) if kernel == 3 else 1
            y = e.conv1d(
                y, e.named("dw"), (channels, channels), kernel, dilation=dilation, group=channels
            )
        else:
            most = MOST_MULTIPLY_ADDS // (channels * kernel * frames)
            outputs = log_uniform(rng, 16, max(16, min(512, most)), 16)
            y = e.conv1d(y, e.named("conv"), (channels, outputs), kernel)
            channels = outputs
        match _one_of(rng, "PRelu", "PRelu", "Relu", "swish", "gelu", "none", "Add"):
            case "PRelu":
                y = e.node("PRelu", y, e.value(e.named("slope"), np.full((1, 1), 0.25, np.float32)))
            case "swish":
                y = swish(e, y)
            case "gelu":
                y = e.gelu(y)
            case "Add":
                y = e.node("Add", y, e.input(1, channels, frames))
            case "Relu":
                y = e.node("Relu", y)
    return y


def stream(rng: Draw, e: Sketch) -> str:
    """Element-wise operators over tensors from what a cache holds to what none does."""
    elements = log_uniform(rng, 1 << 14, MOST_ELEMENTS)
    channels = log_uniform(rng, 1, 256, 8)
    side = max(1, math.isqrt(elements // channels))
    shape = (1, channels, side, side)
    y = e.input(*shape)
    for _ in range(int(rng.integers(1, 6))):
        match _one_of(rng, "one", "channels", "number", "tensor", "clip"):
            case "one":
                name = _one_of(rng, "Abs", "Relu", "LeakyRelu", "Neg", "Sigmoid", "Sqrt", "Tanh")
                y = e.node(name, e.node("Abs", y) if name == "Sqrt" else y)
            case "channels":
                row = e.vector(e.named("row"), channels, 1.0, spatial=2)
                y = e.node(_one_of(rng, "Add", "Mul", "Sub", "Max", "Min", "Div"), y, row)
            case "number":
                y = e.node(_one_of(rng, "Add", "Mul", "Sub", "Div"), y, e.number(e.named("k"), 0.7))
            case "tensor":
                other = _one_of(rng, *e.inputs) if _chance(rng, 0.5) else e.input(*shape)
                y = e.node(_one_of(rng, "Add", "Mul", "Sub", "Max"), y, other)
            case _:
                y = e.node("Clip", y, e.number(e.named("low"), 0.0), e.number(e.named("top"), 1.0))
    return y


def _row_product(rng: Draw, e: Sketch, x: str, width: int, outputs: int = 0) -> tuple[str, int]:
    """A product of few rows with a weight of up to ``MOST_ELEMENTS``."""
    outputs = outputs or log_uniform(rng, 64, min(16384, MOST_ELEMENTS // width), 64)
    return e.node("MatMul", x, e.weight(e.named("w"), width, outputs)), outputs


def _root_mean_square(e: Sketch, x: str, width: int) -> str:
    """Values over their root mean square, written out as decoders are exported."""
    square = e.node("Pow", x, e.number(e.named("two"), 2.0))
    mean = e.node("ReduceMean", square, axes=[-1])
    root = e.node("Sqrt", e.node("Add", mean, e.number(e.named("eps"), 1e-5)))
    return e.node("Mul", e.node("Div", x, root), e.vector(e.named("scale"), width, 1.0))


def dense_rows(rng: Draw, e: Sketch) -> str:
    """Dense layers of one row or a few, as behind the images of a CNN: products and Gemms whose weights stream."""
    rows, width = log_uniform(rng, 1, 8), log_uniform(rng, 64, 8192, 64)
    y = e.input(rows, width)
    for _ in range(int(rng.integers(1, 3))):
        outputs = log_uniform(rng, 64, min(8192, MOST_ELEMENTS // width), 64)
        y = e.node(
            "Gemm",
            y,
            e.weight(e.named("w"), outputs, width),
            e.vector(e.named("b"), outputs),
            transB=1,
        )
        y, width = e.node(_one_of(rng, "Relu", "Tanh", "Sigmoid"), y), outputs
    return e.node("Softmax", y, axis=-1) if _chance(rng, 0.3) else y


def decoder_step(rng: Draw, e: Sketch) -> str:
    """A normalisation and the dense layers of one token: gated, or with GELU, and added to what came in."""
    width = log_uniform(rng, 128, 2048, 64)
    x = e.input(1, 1, width)
    if _chance(rng, 0.5):
        y = _root_mean_square(e, x, width)
        up, middle = _row_product(rng, e, y, width)
        gate, _ = _row_product(rng, e, y, width, middle)
        y = e.node("Mul", swish(e, gate), up)
    else:
        y, middle = _row_product(rng, e, e.layer_norm(x, "norm", width), width)
        y = e.node("Add", y, e.vector("b", middle))
        y = e.gelu_tanh(y) if _chance(rng, 0.5) else e.gelu(y)
    y, _ = _row_product(rng, e, y, middle, width)
    return e.node("Add", x, y)


def cached_attention(rng: Draw, e: Sketch) -> str:
    """One token's attention over a cache of keys and values that it joins."""
    heads, depth = int(rng.choice([2, 4, 8, 12, 16])), int(rng.choice([32, 64, 128]))
    tokens = log_uniform(rng, 16, 1024, 16)
    query, key, value = (
        e.reshape(e.input(1, 1, heads * depth), 1, heads, 1, depth) for _ in range(3)
    )
    keys = e.node("Concat", e.input(1, heads, tokens, depth), key, axis=2)
    values = e.node("Concat", e.input(1, heads, tokens, depth), value, axis=2)
    scores = e.node("MatMul", query, e.transpose(keys, 0, 1, 3, 2))
    scores = e.node("Div", scores, e.number("scale", math.sqrt(depth)))
    y = e.node("MatMul", e.node("Softmax", scores, axis=-1), values)
    return e.reshape(y, 1, 1, heads * depth)


def token_block(rng: Draw, e: Sketch) -> str:
    """Attention over tokens as it is exported: dense layers, heads cut and turned, mask, softmax, sometimes by Einsum."""
    tokens, heads = log_uniform(rng, 16, 512, 16), int(rng.choice([2, 3, 4, 6, 8, 12]))
    depth = int(rng.choice([16, 32, 64]))
    width = heads * depth
    x = e.input(1, tokens, width)
    is_normalised_first = _chance(rng, 0.5)
    y = e.layer_norm(x, "norm", width) if is_normalised_first else x

    def headed(role: str, *perm: int) -> str:
        part = e.reshape(e.linear(y, role, width, width), 1, tokens, heads, depth)
        return e.transpose(part, *perm)

    if _chance(rng, 0.3):
        query, key = headed("q", 0, 2, 1, 3), headed("k", 0, 2, 1, 3)
        scores = e.node("Einsum", query, key, equation="bhqd,bhkd->bhqk")
    else:
        query, key = headed("q", 0, 2, 1, 3), headed("k", 0, 2, 3, 1)
        scores = e.node("MatMul", query, key)
    scores = e.node("Mul", scores, e.number("scale", depth**-0.5))
    if _chance(rng, 0.4):
        scores = e.node("Add", scores, e.input(1, 1, 1, tokens))
    z = e.node("MatMul", e.node("Softmax", scores, axis=-1), headed("v", 0, 2, 1, 3))
    z = e.reshape(e.transpose(z, 0, 2, 1, 3), 1, tokens, width)
    z = e.node("Add", x, e.linear(z, "out", width, width))
    return z if is_normalised_first else e.layer_norm(z, "norm", width)


def image_tokens(rng: Draw, e: Sketch) -> str:
    """An image taken for tokens and back: normalised and mixed by channels there, by a window here."""
    x, channels, side = _image(rng, e, most=56)
    tokens = side * side
    y = e.transpose(e.reshape(x, 1, channels, tokens), 0, 2, 1)
    y = e.layer_norm(y, "norm", channels)
    most = min(1024, MOST_MULTIPLY_ADDS // (tokens * channels))
    middle = log_uniform(rng, min(16, most), most, 16)
    y = e.linear(y, "up", channels, middle)
    if _chance(rng, 0.6):
        image = e.reshape(e.transpose(y, 0, 2, 1), 1, middle, side, side)
        image = _depthwise(rng, e, (image, middle, side))[0]
        if _chance(rng, 0.4):
            return e.gelu(image)
        y = e.transpose(e.reshape(image, 1, middle, tokens), 0, 2, 1)
    y = e.linear(e.gelu(y), "down", middle, channels)
    if _chance(rng, 0.5):
        return e.node("Add", x, e.reshape(e.transpose(y, 0, 2, 1), 1, channels, side, side))
    return e.layer_norm(y, "last", channels)


def written_out_norm(rng: Draw, e: Sketch) -> str:
    """A normalisation over the last axis in nine operators, with GELU behind it half of the time."""
    tokens, width = log_uniform(rng, 16, 2048, 16), log_uniform(rng, 64, 1024, 32)
    x = e.input(1, tokens, width)
    if _chance(rng, 0.4):
        y = _root_mean_square(e, x, width)
    else:
        centred = e.node("Sub", x, e.node("ReduceMean", x, axes=[-1]))
        square = e.node("Pow", centred, e.number("two", 2.0))
        spread = e.node("Add", e.node("ReduceMean", square, axes=[-1]), e.number("eps", 1e-5))
        y = e.node(
            "Mul", e.node("Div", centred, e.node("Sqrt", spread)), e.vector("scale", width, 1.0)
        )
        y = e.node("Add", y, e.vector("bias", width))
    if _chance(rng, 0.5):
        y = e.gelu(y) if _chance(rng, 0.6) else e.gelu_tanh(y)
    return y


def small_operators(rng: Draw, e: Sketch) -> str:
    """Many operators on some hundred numbers: slices, products and functions, where calls cost more than work."""
    width = log_uniform(rng, 32, 512, 32)
    found, unread = [e.input(1, width), e.input(1, width)], list[str]()
    for _ in range(log_uniform(rng, 4, 64)):
        x = found[-1] if _chance(rng, 0.6) else _one_of(rng, *found)
        other = _one_of(rng, *found)
        kind = _one_of(rng, "two", "two", "one", "product", "slice", "step", "view")
        match kind:
            case "two":
                y = e.node(_one_of(rng, "Add", "Mul", "Sub"), x, other)
            case "one":
                y = e.node(_one_of(rng, "Sigmoid", "Tanh", "Relu", "Exp", "Neg"), x)
            case "product":
                y = e.linear(x, e.named("dense"), width, width)
            case "slice":
                wide = e.node("Concat", x, other, axis=1)
                start = int(rng.integers(0, 2)) * width
                y = e.slice(wide, start, start + width)
            case "step":
                steps = e.input(int(rng.integers(2, 17)), 1, width)
                y = e.node("Add", x, e.node("Gather", steps, e.integer(e.named("step"), 1), axis=0))
            case _:
                y = e.reshape(e.node("Unsqueeze", x, e.integers(e.named("axis"), 0)), 1, width)
        found.append(y)
        read = (x, other) if kind in ("two", "slice") else (x,)
        unread = [*(z for z in unread if z not in read), y]
    return e.node("Concat", *unread, axis=1) if len(unread) > 1 else unread[0]


FILES: dict[str, tuple[float, Callable[[Draw, Sketch], str]]] = {
    "recurrent_layer": (2.0, recurrent_layer),
    "responses": (1.5, responses),
    "mobile_block": (1.5, mobile_block),
    "normalised_image": (1.0, normalised_image),
    "resized": (1.0, resized),
    "transposed_convolution": (1.0, transposed_convolution),
    "signal": (2.0, signal),
    "stream": (2.0, stream),
    "dense_rows": (1.0, dense_rows),
    "decoder_step": (1.5, decoder_step),
    "cached_attention": (1.0, cached_attention),
    "token_block": (2.0, token_block),
    "image_tokens": (1.5, image_tokens),
    "written_out_norm": (1.0, written_out_norm),
    "small_operators": (1.5, small_operators),
}
"""File to (weight, builder): how often it is drawn and how it is made. Builders return the tensor that the file gives."""
