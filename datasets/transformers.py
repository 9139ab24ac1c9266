"""Transformers as exporters write them: blocks, BERT and ViT encoders, attention alone."""

from __future__ import annotations

import math

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.errors import ModelError


def transformer_block(
    tokens: int = 64, width: int = 128, heads: int = 4, expansion: int = 4, seed: int = 0
) -> onnx.ModelProto:
    """One pre-norm encoder block over [1, tokens, width]: attention and feed-forward, residuals.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("transformer_block", width, heads)
    export = Exporter(np.random.default_rng(seed))
    normal = export.layer_norm("x", "ln1", width)
    x = export.node("Add", "x", _attention(export, normal, tokens, width, heads))
    normal = export.layer_norm(x, "ln2", width)
    hidden = export.gelu(export.linear(normal, "up", width, expansion * width))
    export.node("Add", x, export.linear(hidden, "down", expansion * width, width), output="y")
    return export.model("transformer_block", (1, tokens, width), (1, tokens, width))


def bert_layer(
    tokens: int = 128, width: int = 768, heads: int = 12, seed: int = 0
) -> onnx.ModelProto:
    """One layer of BERT-base over hidden states [1, tokens, width]: norms behind the residuals.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("bert_layer", width, heads)
    export = Exporter(np.random.default_rng(seed))
    _post_norm(export, "x", tokens, width, heads, "layer0_", "y")
    return export.model("bert_layer", (1, tokens, width), (1, tokens, width))


def bert_small(
    tokens: int = 64, width: int = 128, heads: int = 2, layers: int = 2, seed: int = 0
) -> onnx.ModelProto:
    """A small BERT encoder (BERT-tiny's size) over word embeddings [1, tokens, width].

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("bert_small", width, heads)
    export = Exporter(np.random.default_rng(seed))
    place = export.weight("positions", tokens, width)
    x = export.layer_norm(export.node("Add", "x", place), "embedding", width)
    for index in range(layers):
        output = "y" if index == layers - 1 else None
        x = _post_norm(export, x, tokens, width, heads, f"layer{index}_", output)
    return export.model("bert_small", (1, tokens, width), (1, tokens, width))


def vit(
    side: int = 224,
    patch: int = 16,
    width: int = 192,
    heads: int = 3,
    layers: int = 12,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """A vision transformer, ViT-Ti/16 by default: [1, 3, side, side] to logits [1, classes].

    Dosovitskiy et al. 2020, arXiv:2010.11929, with the mean over the tokens in place of a class
    token (Beyer et al. 2022, arXiv:2205.01580).

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("vit", width, heads)
    export = Exporter(np.random.default_rng(seed))
    tokens = (side // patch) ** 2
    patches = export.conv("x", "patches", (3, width), patch, gain=1.0, stride=patch)
    flat = export.node("Reshape", patches, export.integers("tokens_shape", 1, width, tokens))
    x = export.node("Transpose", flat, perm=[0, 2, 1])
    x = export.node("Add", x, export.weight("positions", tokens, width))
    for index in range(layers):
        x = _pre_norm(export, x, tokens, width, heads, f"layer{index}_", None)
    pooled = export.node("ReduceMean", export.layer_norm(x, "final", width), axes=[1], keepdims=0)
    weight = export.weight("head_w", width, classes)
    export.node("Gemm", pooled, weight, export.vector("head_b", classes), output="y")
    return export.model("vit", (1, 3, side, side), (1, classes))


def attention(heads: int = 8, tokens: int = 256, depth: int = 64) -> onnx.ModelProto:
    """softmax(Q · Kᵀ / √depth) · V over inputs q, k, v of shape [1, heads, tokens, depth]."""
    export = Exporter(np.random.default_rng(0))
    turned = export.node("Transpose", "k", perm=[0, 1, 3, 2])
    scale = export.number("scale", 1 / math.sqrt(depth))
    scores = export.node("Mul", export.node("MatMul", "q", turned), scale)
    export.node("MatMul", export.node("Softmax", scores, axis=-1), "v", output="y")
    shape = (1, heads, tokens, depth)
    return export.model("attention", shape, shape, ("q", "k", "v"))


def check_heads(network: str, width: int, heads: int) -> None:
    """Raises ``ModelError`` when ``width`` is not a multiple of ``heads``."""
    if width % heads:
        raise ModelError(f"{network}: width {width} is no multiple of heads {heads}")


def _post_norm(
    export: Exporter,
    x: str,
    tokens: int,
    width: int,
    heads: int,
    prefix: str,
    output: str | None,
) -> str:
    """LN(x + attention(x)), then LN(x + feed-forward(x)), as in the first transformers."""
    mixed = export.node("Add", x, _attention(export, x, tokens, width, heads, prefix))
    x = export.layer_norm(mixed, f"{prefix}ln1", width)
    mixed = export.node("Add", x, _feed_forward(export, x, width, prefix))
    return export.layer_norm(mixed, f"{prefix}ln2", width, output)


def _pre_norm(
    export: Exporter,
    x: str,
    tokens: int,
    width: int,
    heads: int,
    prefix: str,
    output: str | None,
) -> str:
    """x + attention(LN(x)), then x + feed-forward(LN(x))."""
    normal = export.layer_norm(x, f"{prefix}ln1", width)
    x = export.node("Add", x, _attention(export, normal, tokens, width, heads, prefix))
    normal = export.layer_norm(x, f"{prefix}ln2", width)
    return export.node("Add", x, _feed_forward(export, normal, width, prefix), output=output)


def _feed_forward(export: Exporter, x: str, width: int, prefix: str) -> str:
    hidden = export.gelu(export.linear(x, f"{prefix}up", width, 4 * width))
    return export.linear(hidden, f"{prefix}down", 4 * width, width)


def _attention(
    export: Exporter, x: str, tokens: int, width: int, heads: int, prefix: str = ""
) -> str:
    depth = width // heads
    split = export.integers(f"{prefix}split_shape", 1, tokens, heads, depth)
    joined = export.integers(f"{prefix}join_shape", 1, tokens, width)
    scale = export.number(f"{prefix}scale", 1 / math.sqrt(depth))

    def head(name: str, perm: list[int]) -> str:
        projected = export.linear(x, prefix + name, width, width)
        return export.node("Transpose", export.node("Reshape", projected, split), perm=perm)

    query, key, value = head("q", [0, 2, 1, 3]), head("k", [0, 2, 3, 1]), head("v", [0, 2, 1, 3])
    scores = export.node("Mul", export.node("MatMul", query, key), scale)
    mixed = export.node("MatMul", export.node("Softmax", scores, axis=-1), value)
    merged = export.node("Reshape", export.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    return export.linear(merged, f"{prefix}out", width, width)
