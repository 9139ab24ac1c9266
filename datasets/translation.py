"""A translation decoder with seeded weights: causal attention, and attention to another sequence."""

from __future__ import annotations

import math

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, floats
from autotune.datasets.transformers import check_heads


def marian_decoder(
    tokens: int = 32,
    source: int = 96,
    width: int = 512,
    heads: int = 8,
    hidden: int = 2048,
    layers: int = 6,
    seed: int = 0,
) -> onnx.ModelProto:
    """Embedded words ``x`` [1, tokens, width] and an encoder's ``states`` [1, source, width] to
    ``y`` [1, tokens, width]: the base decoder of arXiv:1706.03762, as Marian has it.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("marian_decoder", width, heads)
    export = Exporter(np.random.default_rng(seed))
    causal = np.triu(np.full((tokens, tokens), np.finfo(np.float32).min, np.float32), 1)
    mask = export.value("causal", causal[None, None])
    x, widths = "x", (width, heads)
    for index in range(layers):
        name = f"layer{index}"
        mixed = _attention(export, (x, x), f"{name}_self", (tokens, tokens), widths, mask)
        x = export.layer_norm(export.node("Add", x, mixed), f"{name}_ln1", width)
        mixed = _attention(export, (x, "states"), f"{name}_cross", (tokens, source), widths, None)
        x = export.layer_norm(export.node("Add", x, mixed), f"{name}_ln2", width)
        y = _feed_forward(export, x, name, width, hidden)
        output = "y" if index == layers - 1 else None
        x = export.layer_norm(export.node("Add", x, y), f"{name}_ln3", width, output)
    inputs = {"x": floats((1, tokens, width)), "states": floats((1, source, width))}
    return export.typed_model("marian_decoder", inputs, {"y": floats((1, tokens, width))})


def _feed_forward(export: Exporter, x: str, name: str, width: int, hidden: int) -> str:
    """Two layers with a Swish between them, which Marian has in place of a ReLU."""
    y = export.linear(x, f"{name}_up", width, hidden)
    y = export.node("Mul", y, export.node("Sigmoid", y))
    return export.linear(y, f"{name}_down", hidden, width)


def _attention(
    export: Exporter,
    sides: tuple[str, str],
    name: str,
    lengths: tuple[int, int],
    widths: tuple[int, int],
    mask: str | None,
) -> str:
    """``sides`` ask and are asked; ``lengths`` are theirs; ``widths`` are the width and the heads."""
    (asking, asked), (width, heads) = sides, widths
    depth = width // heads
    shapes = {"q": (asking, lengths[0]), "k": (asked, lengths[1]), "v": (asked, lengths[1])}
    scale = export.number(f"{name}_scale", 1 / math.sqrt(depth))
    parts = {}
    for role, (x, length) in shapes.items():
        y = export.linear(x, f"{name}_{role}", width, width)
        y = export.node("Mul", y, scale) if role == "q" else y
        parts[role] = export.transpose(export.reshape(y, 1, length, heads, depth), 0, 2, 1, 3)
    scores = export.node("MatMul", parts["q"], export.transpose(parts["k"], 0, 1, 3, 2))
    if mask is not None:
        scores = export.node("Add", scores, mask)
    mixed = export.node("MatMul", export.node("Softmax", scores, axis=-1), parts["v"])
    merged = export.reshape(export.transpose(mixed, 0, 2, 1, 3), 1, lengths[0], width)
    return export.linear(merged, f"{name}_out", width, width)
