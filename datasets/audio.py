"""Audio networks with seeded weights: Whisper's encoder, Conv-TasNet and a Conformer."""

from __future__ import annotations

import math

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import swish
from autotune.datasets.self_attention import encoder_block, packed_attention
from autotune.datasets.transformers import check_heads


def whisper_encoder(
    frames: int = 3000,
    bands: int = 80,
    width: int = 384,
    heads: int = 6,
    layers: int = 4,
    seed: int = 0,
) -> onnx.ModelProto:
    """Whisper tiny's encoder: a log-mel spectrogram [1, bands, frames] to states
    [1, frames / 2, width] (section 2.2 of arXiv:2212.04356).

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("whisper_encoder", width, heads)
    export = Exporter(np.random.default_rng(seed))
    x = export.gelu(export.conv1d("x", "conv1", (bands, width), 3, gain=2.0))
    x = export.gelu(export.conv1d(x, "conv2", (width, width), 3, gain=2.0, stride=2))
    tokens = (frames + 1) // 2
    x = export.node(
        "Add", export.transpose(x, 0, 2, 1), export.value("places", _sines(tokens, width))
    )
    for index in range(layers):
        x = encoder_block(export, x, f"layer{index}", (1, tokens, width), heads)
    export.layer_norm(x, "final", width, output="y")
    return export.model("whisper_encoder", (1, bands, frames), (1, tokens, width))


def _sines(tokens: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Sinusoids of geometrically spaced lengths (section 3.5 of arXiv:1706.03762)."""
    half = width // 2
    rates = np.exp(-math.log(10000.0) / max(half - 1, 1) * np.arange(half))
    angles = np.arange(tokens)[:, None] * rates[None, :]
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1).astype(np.float32)


FILTER = 16
"""Samples of an encoder's filter; its stride is half of that (table 1 of arXiv:1809.07454)."""


def conv_tasnet(
    samples: int = 8000,
    filters: int = 512,
    bottleneck: int = 128,
    hidden: int = 512,
    blocks: int = 8,
    repeats: int = 3,
    speakers: int = 2,
    seed: int = 0,
) -> onnx.ModelProto:
    """Conv-TasNet (arXiv:1809.07454): a mixture [1, 1, samples] to voices [speakers, 1, samples].

    Dilations double from block to block and start again ``repeats`` times.
    """
    export = Exporter(np.random.default_rng(seed))
    stride = FILTER // 2
    frames = (samples - FILTER) // stride + 1
    weight = export.normal("encoder_w", (filters, 1, FILTER), math.sqrt(2 / FILTER))
    coded = export.node("Conv", "x", weight, kernel_shape=[FILTER], strides=[stride])
    coded = export.node("Relu", coded)
    x = _global_norm(export, coded, "norm", filters)
    x = export.conv1d(x, "bottleneck", (filters, bottleneck), 1)
    skipped = ""
    for index in range(repeats * blocks):
        widths = (bottleneck, hidden)
        x, skip = _separated(export, x, f"block{index}", widths, 2 ** (index % blocks))
        skipped = export.node("Add", skipped, skip) if skipped else skip
    slope = export.value("mask_slope", np.full((1, 1), 0.25, np.float32))
    masks = export.node("PRelu", skipped, slope)
    masks = export.conv1d(masks, "masks", (bottleneck, speakers * filters), 1, gain=0.5)
    masks = export.reshape(export.node("Sigmoid", masks), speakers, filters, frames)
    voices = export.node("Mul", masks, coded)
    decoder = export.normal("decoder_w", (filters, 1, FILTER), math.sqrt(1 / filters))
    export.node(
        "ConvTranspose", voices, decoder, output="y", kernel_shape=[FILTER], strides=[stride]
    )
    length = (frames - 1) * stride + FILTER
    return export.model("conv_tasnet", (1, 1, samples), (speakers, 1, length))


def _separated(
    export: Exporter, x: str, name: str, widths: tuple[int, int], dilation: int
) -> tuple[str, str]:
    """Figure 1C: the block's output and its skip connection."""
    outer, hidden = widths
    y = export.conv1d(x, f"{name}_in", (outer, hidden), 1)
    y = _global_norm(export, _prelu(export, y, f"{name}_slope1"), f"{name}_norm1", hidden)
    y = export.conv1d(y, f"{name}_depth", (hidden, hidden), 3, dilation=dilation, group=hidden)
    y = _global_norm(export, _prelu(export, y, f"{name}_slope2"), f"{name}_norm2", hidden)
    skip = export.conv1d(y, f"{name}_skip", (hidden, outer), 1, gain=0.1)
    return export.node("Add", x, export.conv1d(y, f"{name}_out", (hidden, outer), 1)), skip


def _prelu(export: Exporter, x: str, name: str) -> str:
    return export.node("PRelu", x, export.value(name, np.full((1, 1), 0.25, np.float32)))


def _global_norm(export: Exporter, x: str, name: str, channels: int) -> str:
    """Normalisation over channels and time (section 2.3 of arXiv:1809.07454), written out."""
    mean = export.node("ReduceMean", x, axes=[1, 2], keepdims=1)
    centred = export.node("Sub", x, mean)
    squared = export.node("Pow", centred, export.number(f"{name}_two", 2.0))
    variance = export.node("ReduceMean", squared, axes=[1, 2], keepdims=1)
    deviation = export.node(
        "Sqrt", export.node("Add", variance, export.number(f"{name}_eps", 1e-8))
    )
    scaled = export.node(
        "Mul", export.vector(f"{name}_scale", channels, 1.0, spatial=1),
        export.node("Div", centred, deviation),
    )  # fmt: skip
    return export.node("Add", scaled, export.vector(f"{name}_bias", channels, spatial=1))


def conformer(
    tokens: int = 200,
    width: int = 256,
    heads: int = 4,
    layers: int = 4,
    kernel: int = 31,
    seed: int = 0,
) -> onnx.ModelProto:
    """Conformer blocks (arXiv:2005.08100) over features [1, tokens, width], with plain attention.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("conformer", width, heads)
    export = Exporter(np.random.default_rng(seed))
    x = "x"
    for index in range(layers):
        name = f"layer{index}"
        x = _half_step(export, x, f"{name}_first", width)
        normal = export.layer_norm(x, f"{name}_attention_norm", width)
        size = (1, tokens, width)
        mixed = packed_attention(export, normal, f"{name}_attention", size, heads)
        x = export.node("Add", x, mixed)
        x = export.node("Add", x, _convolved(export, x, f"{name}_conv", width, kernel))
        x = _half_step(export, x, f"{name}_second", width)
        output = "y" if index == layers - 1 else None
        x = export.layer_norm(x, f"{name}_norm", width, output)
    return export.model("conformer", (1, tokens, width), (1, tokens, width))


def _half_step(export: Exporter, x: str, name: str, width: int) -> str:
    """x + feed-forward(LN(x)) / 2 (section 2.3)."""
    hidden = export.linear(
        export.layer_norm(x, f"{name}_norm", width), f"{name}_up", width, 4 * width
    )
    y = export.linear(swish(export, hidden), f"{name}_down", 4 * width, width)
    return export.node("Add", x, export.node("Mul", y, export.number(f"{name}_half", 0.5)))


def _convolved(export: Exporter, x: str, name: str, width: int, kernel: int) -> str:
    """Section 2.2: a gated point-wise layer, a depthwise filter over time, a point-wise layer."""
    y = export.transpose(export.layer_norm(x, f"{name}_norm", width), 0, 2, 1)
    y = export.conv1d(y, f"{name}_gated", (width, 2 * width), 1)
    gate = export.node("Sigmoid", export.cut(y, 1, width, 2 * width))
    y = export.node("Mul", export.cut(y, 1, 0, width), gate)
    y = export.conv1d(y, f"{name}_depthwise", (width, width), kernel, gain=4.0, group=width)
    scale, bias = export.vector(f"{name}_scale", width, 1.0), export.vector(f"{name}_bias", width)
    mean, variance = (
        export.vector(f"{name}_{k}", width, c) for k, c in (("mean", 0.0), ("var", 1.0))
    )
    y = swish(export, export.node("BatchNormalization", y, scale, bias, mean, variance))
    return export.transpose(export.conv1d(y, f"{name}_out", (width, width), 1), 0, 2, 1)
