"""One step of a GPT-2 decoder that keeps keys and values: what a token of generated text costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, floats, wholes
from autotune.datasets.transformers import check_heads

CONTEXT = 1024
"""Places that GPT-2 has learned (section 2.3 of Radford et al. 2019)."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    past: int
    width: int
    heads: int

    @property
    def depth(self) -> int:
        return self.width // self.heads


def gpt2_step(
    past: int = 127,
    width: int = 768,
    heads: int = 12,
    layers: int = 12,
    vocabulary: int = 50257,
    seed: int = 0,
) -> onnx.ModelProto:
    """GPT-2 small by default: ``input_ids`` and ``position_ids`` [1, 1] (int64) and every layer's
    ``past_key_values.N.key`` and ``.value`` [1, heads, past, depth] to ``logits`` [1, 1, vocabulary]
    and ``present.N.key`` and ``.value`` of one row more, under the names that exporters give them.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    check_heads("gpt2_step", width, heads)
    sizes = _Sizes(past, width, heads)
    export = Exporter(np.random.default_rng(seed))
    words = export.normal("wte", (vocabulary, width), 1 / math.sqrt(width))
    places = export.normal("wpe", (CONTEXT, width), 0.5 / math.sqrt(width))
    x = export.node(
        "Add",
        export.node("Gather", words, "input_ids", axis=0),
        export.node("Gather", places, "position_ids", axis=0),
    )
    for index in range(layers):
        x = _layer(export, x, index, sizes)
    x = export.layer_norm(x, "final", width)
    # the embedding is the classifier's weight too (section 3.4 of Vaswani et al. 2017)
    turned = export.node("Transpose", words, perm=[1, 0])
    export.node("MatMul", x, turned, output="logits")
    one = wholes((1, 1))
    old, new = (floats((1, heads, rows, sizes.depth)) for rows in (past, past + 1))
    kept = [(n, role) for n in range(layers) for role in ("key", "value")]
    return export.typed_model(
        "gpt2_step",
        {
            "input_ids": one,
            "position_ids": one,
            **{f"past_key_values.{n}.{role}": old for n, role in kept},
        },
        {
            "logits": floats((1, 1, vocabulary)),
            **{f"present.{n}.{role}": new for n, role in kept},
        },
    )


def _layer(export: Exporter, x: str, index: int, sizes: _Sizes) -> str:
    """x + attention(LN(x)), then x + feed-forward(LN(x))."""
    stem, width = f"layer{index}_", sizes.width
    normal = export.layer_norm(x, f"{stem}ln1", width)
    x = export.node("Add", x, _attention(export, normal, index, sizes))
    normal = export.layer_norm(x, f"{stem}ln2", width)
    hidden = export.gelu_tanh(export.linear(normal, f"{stem}up", width, 4 * width))
    return export.node("Add", x, export.linear(hidden, f"{stem}down", 4 * width, width))


def _attention(export: Exporter, x: str, index: int, sizes: _Sizes) -> str:
    """One query against all keys; a mask would hide none of them."""
    stem, width = f"layer{index}_", sizes.width
    joint = export.linear(x, f"{stem}qkv", width, 3 * width)
    parts = export.split(joint, 3, width)
    shape = export.integers(f"{stem}split_shape", 1, 1, sizes.heads, sizes.depth)
    query, key, value = (
        export.node("Transpose", export.node("Reshape", part, shape), perm=[0, 2, 1, 3])
        for part in parts
    )
    keys, values = (
        export.node(
            "Concat", f"past_key_values.{index}.{role}", new,
            output=f"present.{index}.{role}", axis=2,
        )
        for role, new in (("key", key), ("value", value))
    )  # fmt: skip
    scores = export.node("MatMul", query, export.node("Transpose", keys, perm=[0, 1, 3, 2]))
    scale = export.number(f"{stem}scale", math.sqrt(sizes.depth))
    weights = export.node("Softmax", export.node("Div", scores, scale), axis=-1)
    mixed = export.node("Transpose", export.node("MatMul", weights, values), perm=[0, 2, 1, 3])
    joined = export.node("Reshape", mixed, export.integers(f"{stem}join_shape", 1, 1, width))
    return export.linear(joined, f"{stem}out", width, width)
