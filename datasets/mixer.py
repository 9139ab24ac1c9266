"""MLP-Mixer S/16 with seeded weights: layers over the tokens and over the channels in turn."""

from __future__ import annotations

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple


def mixer(
    side: int = 224,
    patch: int = 16,
    width: int = 512,
    token_width: int = 256,
    channel_width: int = 2048,
    layers: int = 8,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes] (table 1 of arXiv:2105.01601).

    Raises ``ModelError`` when ``side`` is no multiple of ``patch``.
    """
    check_multiple("mixer", "side", side, patch)
    export = Exporter(np.random.default_rng(seed))
    tokens = (side // patch) ** 2
    patches = export.conv("x", "patches", (3, width), patch, gain=1.0, stride=patch)
    flat = export.node("Reshape", patches, export.integers("tokens_shape", 1, width, tokens))
    x = export.node("Transpose", flat, perm=[0, 2, 1])
    for index in range(layers):
        x = _layer(export, x, f"layer{index}", (tokens, token_width), (width, channel_width))
    pooled = export.node("ReduceMean", export.layer_norm(x, "final", width), axes=[1], keepdims=0)
    weight = export.weight("head_w", width, classes)
    export.node("Gemm", pooled, weight, export.vector("head_b", classes), output="y")
    return export.model("mixer", (1, 3, side, side), (1, classes))


def _layer(
    export: Exporter, x: str, name: str, tokens: tuple[int, int], channels: tuple[int, int]
) -> str:
    """Section 2: mix along the tokens, then along the channels, each behind a norm and with a
    residual; pairs are outer and hidden widths."""
    width = channels[0]
    turned = export.node("Transpose", export.layer_norm(x, f"{name}_ln1", width), perm=[0, 2, 1])
    mixed = _mixed(export, turned, f"{name}_tokens", *tokens)
    x = export.node("Add", x, export.node("Transpose", mixed, perm=[0, 2, 1]))
    normal = export.layer_norm(x, f"{name}_ln2", width)
    return export.node("Add", x, _mixed(export, normal, f"{name}_channels", *channels))


def _mixed(export: Exporter, x: str, name: str, width: int, hidden: int) -> str:
    """Two layers with a GELU between them, over the last axis."""
    y = export.gelu(export.linear(x, f"{name}_up", width, hidden))
    return export.linear(y, f"{name}_down", hidden, width)
