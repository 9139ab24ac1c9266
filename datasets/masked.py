"""Encoders over padded batches, as PyTorch exports BERT: token numbers, an attention mask, token types."""

from __future__ import annotations

import math

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, opened
from autotune.datasets.transformers import check_heads

LOWEST = float(np.finfo(np.float32).min)
"""What is added to the score of a token that the mask hides."""


def masked_encoder(
    batch: int = 1,
    tokens: int = 128,
    width: int = 768,
    heads: int = 12,
    layers: int = 4,
    vocabulary: int = 8192,
    classes: int = 2,
    seed: int = 0,
) -> onnx.ModelProto:
    """A BERT classifier (Devlin et al. 2018, arXiv:1810.04805): ``input_ids``, ``attention_mask`` and
    ``token_type_ids`` [batch, tokens] (int64) to ``logits`` [batch, classes], computed of the first token.

    The mask's 0 hides a token from all others. Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("masked_encoder", width, heads)
    export = Exporter(np.random.default_rng(seed))
    words = export.normal("words", (vocabulary, width), 1.0)
    kinds = export.normal("kinds", (2, width), 0.1)
    x = export.node("Gather", words, "input_ids", axis=0)
    x = export.node("Add", x, export.node("Gather", kinds, "token_type_ids", axis=0))
    x = export.node("Add", x, export.normal("places", (1, tokens, width), 0.1))
    x = export.layer_norm(x, "embedding", width)
    mask = export.node("Unsqueeze", "attention_mask", export.integers("mask_axes", 1, 2))
    seen = export.node("Cast", mask, to=onnx.TensorProto.FLOAT)
    off = export.node("Sub", export.number("mask_one", 1.0), seen)
    hidden = export.node("Mul", off, export.number("mask_lowest", LOWEST))
    for index in range(layers):
        x = _layer(export, x, hidden, (batch, tokens, width, heads), f"layer{index}_")
    first = export.node("Gather", x, export.integer("first", 0), axis=1)
    pooled = export.node("Tanh", export.linear(first, "pool", width, width))
    weight, bias = export.weight("head_w", width, classes), export.vector("head_b", classes)
    export.node("Gemm", pooled, weight, bias, output="logits")
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    names = ("input_ids", "attention_mask", "token_type_ids")
    return export.typed_model(
        "masked_encoder",
        {name: opened(whole, batch, tokens) for name in names},
        {"logits": opened(real, batch, classes)},
    )


def _layer(
    export: Exporter, x: str, hidden: str, sizes: tuple[int, int, int, int], stem: str
) -> str:
    """LN(x + attention(x)), then LN(x + feed-forward(x)); ``hidden`` is added to the scores."""
    batch, tokens, width, heads = sizes
    depth = width // heads
    query, key, value = (
        export.transpose(
            export.reshape(
                export.linear(x, stem + role, width, width), batch, tokens, heads, depth
            ),
            *perm,
        )
        for role, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3)))
    )
    root = export.number(f"{stem}root", math.sqrt(depth))
    scores = export.node("Div", export.node("MatMul", query, key), root)
    weights = export.node("Softmax", export.node("Add", scores, hidden), axis=-1)
    mixed = export.transpose(export.node("MatMul", weights, value), 0, 2, 1, 3)
    mixed = export.linear(export.reshape(mixed, batch, tokens, width), f"{stem}out", width, width)
    x = export.layer_norm(export.node("Add", x, mixed), f"{stem}ln1", width)
    inner = export.gelu(export.linear(x, f"{stem}up", width, 4 * width))
    inner = export.linear(inner, f"{stem}down", 4 * width, width)
    return export.layer_norm(export.node("Add", x, inner), f"{stem}ln2", width)
