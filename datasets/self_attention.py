"""Self-attention as PyTorch exports it: one product for queries, keys and values, split by Gather."""

from __future__ import annotations

import math

from autotune.datasets.exporter import Exporter


def packed_attention(
    export: Exporter,
    x: str,
    name: str,
    size: tuple[int, int, int],
    heads: int,
    biases: tuple[str, ...] = (),
) -> str:
    """Attention over the tokens of ``x`` [batch, tokens, width] = ``size``.

    ``biases`` are added to the scores [batch, heads, tokens, tokens] before the softmax.
    """
    batch, tokens, width = size
    depth = width // heads
    joint = export.linear(x, f"{name}_qkv", width, 3 * width)
    parts = export.transpose(export.reshape(joint, batch, tokens, 3, heads, depth), 2, 0, 3, 1, 4)
    query, key, value = (
        export.node("Gather", parts, export.integer(f"{name}_part{i}", i), axis=0) for i in range(3)
    )
    scaled = export.node("Mul", query, export.number(f"{name}_scale", 1 / math.sqrt(depth)))
    scores = export.node("MatMul", scaled, export.transpose(key, 0, 1, 3, 2))
    for bias in biases:
        scores = export.node("Add", scores, bias)
    mixed = export.node("MatMul", export.node("Softmax", scores, axis=-1), value)
    merged = export.reshape(export.transpose(mixed, 0, 2, 1, 3), batch, tokens, width)
    return export.linear(merged, f"{name}_out", width, width)


def feed_forward(export: Exporter, x: str, name: str, width: int, hidden: int) -> str:
    """Two layers with a GELU between them."""
    y = export.gelu(export.linear(x, f"{name}_up", width, hidden))
    return export.linear(y, f"{name}_down", hidden, width)


def encoder_block(
    export: Exporter, x: str, name: str, size: tuple[int, int, int], heads: int, expansion: int = 4
) -> str:
    """x + attention(LN(x)), then x + feed-forward(LN(x)), over [batch, tokens, width] = ``size``."""
    width = size[2]
    normal = export.layer_norm(x, f"{name}_ln1", width)
    x = export.node("Add", x, packed_attention(export, normal, f"{name}_attention", size, heads))
    normal = export.layer_norm(x, f"{name}_ln2", width)
    return export.node("Add", x, feed_forward(export, normal, name, width, expansion * width))
