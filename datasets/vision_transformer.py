"""ViT-B/32 with seeded weights: 50 tokens, a class token, packed queries, keys and values."""

from __future__ import annotations

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple
from autotune.datasets.self_attention import encoder_block
from autotune.datasets.transformers import check_heads


def vit_b32(
    side: int = 224,
    patch: int = 32,
    width: int = 768,
    heads: int = 12,
    layers: int = 12,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes] (table 1 of arXiv:2010.11929).

    Raises ``ModelError`` when ``side`` is no multiple of ``patch``, or ``width`` of ``heads``.
    """
    check_multiple("vit_b32", "side", side, patch)
    check_heads("vit_b32", width, heads)
    export = Exporter(np.random.default_rng(seed))
    tokens = (side // patch) ** 2 + 1
    patches = export.conv("x", "patches", (3, width), patch, gain=1.0, stride=patch)
    x = export.transpose(export.reshape(patches, 1, width, tokens - 1), 0, 2, 1)
    x = export.node("Concat", export.normal("class_token", (1, 1, width), 0.5), x, axis=1)
    x = export.node("Add", x, export.normal("positions", (1, tokens, width), 0.5))
    for index in range(layers):
        x = encoder_block(export, x, f"layer{index}", (1, tokens, width), heads)
    x = export.layer_norm(x, "final", width)
    first = export.node("Gather", x, export.integer("class_row", 0), axis=1)
    weight = export.weight("head_w", width, classes)
    export.node("Gemm", first, weight, export.vector("head_b", classes), output="y")
    return export.model("vit_b32", (1, 3, side, side), (1, classes))
