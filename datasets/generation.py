"""Decoders as PyTorch exports them to generate text: batch, sequence and past are open dimensions.

Shapes are computed in the file, from ``Shape`` nodes; causal and attention masks are added to the scores.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, opened
from autotune.datasets.llama import (
    Heads,
    gated,
    grouped_heads,
    rms_norm,
    rotated,
    rotation_tables,
)
from autotune.datasets.transformers import check_heads

LOWEST = float(np.finfo(np.float32).min)
"""What a masked score is set to."""
BATCH, SEQUENCE, PAST = "batch_size", "sequence_length", "past_sequence_length"
TOTAL = f"{PAST} + {SEQUENCE}"


def gpt2_decoder(
    width: int = 768,
    heads: int = 12,
    layers: int = 12,
    vocabulary: int = 50257,
    context: int = 1024,
    seed: int = 0,
) -> onnx.ModelProto:
    """GPT-2 small by default (Radford et al. 2019): ``input_ids``, ``position_ids`` [batch, sequence] and
    ``attention_mask`` [batch, past + sequence] (int64), and every layer's ``past_key_values.N.key`` and
    ``.value`` [batch, heads, past, depth], to ``logits`` and ``present.N.key`` and ``.value``.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("gpt2_decoder", width, heads)
    sizes = Heads(width, heads, heads)
    export = Exporter(np.random.default_rng(seed))
    words = export.normal("wte", (vocabulary, width), 1 / math.sqrt(width))
    places = export.normal("wpe", (context, width), 0.5 / math.sqrt(width))
    x = export.node(
        "Add",
        export.node("Gather", words, "input_ids", axis=0),
        export.node("Gather", places, "position_ids", axis=0),
    )
    hidden = _hidden_keys(export)
    for index in range(layers):
        stem = f"layer{index}_"
        normal = export.layer_norm(x, f"{stem}ln1", width)
        joint = export.linear(normal, f"{stem}qkv", width, 3 * width)
        parts = export.split(joint, 3, width)
        query, key, value = (_headed(export, part, heads, sizes.depth) for part in parts)
        mixed = _attention(export, (query, key, value), index, sizes, context, hidden)
        x = export.node("Add", x, export.linear(mixed, f"{stem}out", width, width))
        normal = export.layer_norm(x, f"{stem}ln2", width)
        inner = export.gelu_tanh(export.linear(normal, f"{stem}up", width, 4 * width))
        x = export.node("Add", x, export.linear(inner, f"{stem}down", 4 * width, width))
    x = export.layer_norm(x, "final", width)
    turned = export.node("Transpose", words, perm=[1, 0])
    export.node("MatMul", x, turned, output="logits")
    return _model(export, "gpt2_decoder", layers, sizes, vocabulary)


def llama_decoder(
    width: int = 576,
    heads: int = 9,
    shared: int = 3,
    hidden: int = 1536,
    layers: int = 12,
    vocabulary: int = 16384,
    context: int = 2048,
    seed: int = 0,
) -> onnx.ModelProto:
    """Blocks of SmolLM-135M's size (Llama, arXiv:2302.13971, with grouped queries, arXiv:2305.13245);
    inputs and outputs as those of ``gpt2_decoder``, keys and values of ``shared`` heads.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``, or ``heads`` of ``shared``.
    """
    sizes = grouped_heads("llama_decoder", width, heads, shared)
    export = Exporter(np.random.default_rng(seed))
    words = export.normal("embedding", (vocabulary, width), 1.0)
    x = export.node("Gather", words, "input_ids", axis=0)
    tables = zip(("cosines", "sines"), rotation_tables(sizes.depth), strict=True)
    axis = export.integers("heads_axis", 1)
    turns = tuple(
        export.node(
            "Unsqueeze",
            export.node("Gather", export.value(name, table[:context]), "position_ids", axis=0),
            axis,
        )
        for name, table in tables
    )
    masked = _hidden_keys(export)
    for index in range(layers):
        stem = f"layer{index}_"
        normal = rms_norm(export, x, f"{stem}norm1", width)
        query, key, value = (
            _headed(
                export,
                export.node("MatMul", normal, export.weight(f"{stem}{role}_w", width, n * sizes.depth)),
                n,
                sizes.depth,
            )
            for role, n in (("q", heads), ("k", shared), ("v", shared))
        )  # fmt: skip
        query, key = (rotated(export, part, turns, sizes.depth) for part in (query, key))
        mixed = _attention(export, (query, key, value), index, sizes, context, masked)
        x = export.node(
            "Add", x, export.node("MatMul", mixed, export.weight(f"{stem}o_w", width, width))
        )
        normal = rms_norm(export, x, f"{stem}norm2", width)
        x = export.node("Add", x, gated(export, normal, stem, width, hidden))
    x = rms_norm(export, x, "final", width)
    export.node("MatMul", x, export.weight("head_w", width, vocabulary), output="logits")
    return _model(export, "llama_decoder", layers, sizes, vocabulary)


def _size(export: Exporter, x: str, axis: int) -> str:
    """One extent of a tensor at run time, of no axis."""
    stem = f"size{len(export.nodes)}"
    return export.node("Gather", export.node("Shape", x), export.integer(stem, axis), axis=0)


def _shape(export: Exporter, *extents: str | int) -> str:
    """A shape of extents that are known at run time (names) and numbers."""
    axes = export.integers(f"axes{len(export.nodes)}", 0)
    rows = [
        export.integers(f"extent{len(export.nodes)}_{place}", n)
        if isinstance(n, int)
        else export.node("Unsqueeze", n, axes)
        for place, n in enumerate(extents)
    ]
    return export.node("Concat", *rows, axis=0)


def _headed(export: Exporter, x: str, heads: int, depth: int) -> str:
    """[batch, sequence, heads · depth] to [batch, heads, sequence, depth]."""
    shape = _shape(export, _size(export, x, 0), _size(export, x, 1), heads, depth)
    return export.transpose(export.node("Reshape", x, shape), 0, 2, 1, 3)


def _hidden_keys(export: Exporter) -> str:
    """What the attention mask adds to scores: 0, or the lowest number; [batch, 1, 1, past + sequence]."""
    axes = export.integers("mask_axes", 1, 2)
    mask = export.node("Cast", export.node("Unsqueeze", "attention_mask", axes), to=1)
    off = export.node("Sub", export.number("mask_one", 1.0), mask)
    return export.node("Mul", off, export.number("mask_lowest", LOWEST))


def _attention(
    export: Exporter,
    parts: tuple[str, str, str],
    index: int,
    sizes: Heads,
    context: int,
    hidden: str,
) -> str:
    """Queries against all keys up to their own place; the result is [batch, sequence, width]."""
    query = parts[0]
    keys, values = (
        export.node(
            "Concat", f"past_key_values.{index}.{role}", new,
            output=f"present.{index}.{role}", axis=2,
        )
        for role, new in zip(("key", "value"), parts[1:], strict=True)
    )  # fmt: skip
    masked = _causal(export, query, keys, index, context)
    if sizes.shared < sizes.heads:
        keys, values = (_repeated(export, x, sizes) for x in (keys, values))
    scores = export.node("MatMul", query, export.transpose(keys, 0, 1, 3, 2))
    scaled = export.node("Div", scores, export.number(f"layer{index}_root", math.sqrt(sizes.depth)))
    seen = export.node("Where", masked, scaled, export.number(f"layer{index}_lowest", LOWEST))
    weights = export.node("Softmax", export.node("Add", seen, hidden), axis=-1)
    mixed = export.transpose(export.node("MatMul", weights, values), 0, 2, 1, 3)
    shape = _shape(export, _size(export, mixed, 0), _size(export, mixed, 1), sizes.width)
    return export.node("Reshape", mixed, shape)


def _causal(export: Exporter, query: str, keys: str, index: int, context: int) -> str:
    """Rows past … past + sequence of a stored lower triangle, columns of all keys."""
    if not index:
        shape = (1, 1, context, context)
        export.value("triangle", np.tril(np.ones(shape[2:], bool)).reshape(shape))
    total = _size(export, keys, 2)
    first = export.node("Sub", total, _size(export, query, 2))
    axes = export.integers(f"row{len(export.nodes)}", 0)
    begin, end = (export.node("Unsqueeze", n, axes) for n in (first, total))
    stem = f"triangle{len(export.nodes)}"
    rows = export.node("Slice", "triangle", begin, end, export.integers(f"{stem}_rows", 2))
    nought = export.integers(f"{stem}_nought", 0)
    return export.node("Slice", rows, nought, end, export.integers(f"{stem}_columns", 3))


def _repeated(export: Exporter, x: str, sizes: Heads) -> str:
    """[batch, shared, rows, depth] with every head as often as queries share it."""
    times = sizes.heads // sizes.shared
    batch, rows = (_size(export, x, axis) for axis in (0, 2))
    wide = export.node("Unsqueeze", x, export.integers(f"repeat{len(export.nodes)}", 2))
    shape = _shape(export, batch, sizes.shared, times, rows, sizes.depth)
    last = _shape(export, batch, sizes.heads, rows, sizes.depth)
    return export.node("Reshape", export.node("Expand", wide, shape), last)


def _model(
    export: Exporter, name: str, layers: int, sizes: Heads, vocabulary: int
) -> onnx.ModelProto:
    kept = [f"{n}.{role}" for n in range(layers) for role in ("key", "value")]
    old, new = ((BATCH, sizes.shared, rows, sizes.depth) for rows in (PAST, TOTAL))
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    return export.typed_model(
        name,
        {
            "input_ids": opened(whole, BATCH, SEQUENCE),
            "attention_mask": opened(whole, BATCH, TOTAL),
            "position_ids": opened(whole, BATCH, SEQUENCE),
            **{f"past_key_values.{x}": opened(real, *old) for x in kept},
        },
        {
            "logits": opened(real, BATCH, SEQUENCE, vocabulary),
            **{f"present.{x}": opened(real, *new) for x in kept},
        },
    )
