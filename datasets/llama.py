"""One step of a Llama-like decoder: RMS norms, rotary places, grouped queries, a gated layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, floats, wholes
from autotune.datasets.image_blocks import swish
from autotune.datasets.transformers import check_heads
from autotune.errors import ModelError

CONTEXT = 2048
BASE = 10000.0
"""Of the rotary frequencies (section 3.4 of arXiv:2104.09864)."""


@dataclass(frozen=True, slots=True)
class Heads:
    """``heads`` of queries over ``shared`` ones of keys and values."""

    width: int
    heads: int
    shared: int

    @property
    def depth(self) -> int:
        """Elements of a head."""
        return self.width // self.heads


def llama_step(
    past: int = 255,
    width: int = 576,
    heads: int = 9,
    shared: int = 3,
    hidden: int = 1536,
    layers: int = 12,
    vocabulary: int = 16384,
    seed: int = 0,
) -> onnx.ModelProto:
    """Blocks of SmolLM-135M's size (Llama, arXiv:2302.13971, with grouped queries,
    arXiv:2305.13245): ``input_ids`` and ``position_ids`` [1, 1] (int64) and every layer's
    ``past_key_values.N.key`` and ``.value`` [1, shared, past, depth] to ``logits``
    [1, 1, vocabulary] and ``present.N.key`` and ``.value`` of one row more.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``, or ``heads`` of ``shared``.
    """
    sizes = grouped_heads("llama_step", width, heads, shared)
    export = Exporter(np.random.default_rng(seed))
    words = export.normal("embedding", (vocabulary, width), 1.0)
    x = export.node("Gather", words, "input_ids", axis=0)
    turns = tuple(
        export.node(
            "Unsqueeze", export.node("Gather", export.value(name, table), "position_ids", axis=0),
            export.integers(f"{name}_axis", 1),
        )
        for name, table in zip(("cosines", "sines"), rotation_tables(sizes.depth), strict=True)
    )  # fmt: skip
    for index in range(layers):
        name = f"layer{index}_"
        normal = rms_norm(export, x, f"{name}norm1", width)
        x = export.node("Add", x, _attention(export, normal, index, past, sizes, turns))
        normal = rms_norm(export, x, f"{name}norm2", width)
        x = export.node("Add", x, gated(export, normal, name, width, hidden))
    x = rms_norm(export, x, "final", width)
    export.node("MatMul", x, export.weight("head_w", width, vocabulary), output="logits")
    old, new = (floats((1, shared, rows, sizes.depth)) for rows in (past, past + 1))
    kept = [(n, role) for n in range(layers) for role in ("key", "value")]
    one = wholes((1, 1))
    return export.typed_model(
        "llama_step",
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


def grouped_heads(network: str, width: int, heads: int, shared: int) -> Heads:
    """Return the heads of a network. Raises ``ModelError`` where they do not divide each other."""
    check_heads(network, width, heads)
    if heads % shared:
        raise ModelError(f"{network}: heads {heads} is no multiple of shared {shared}")
    return Heads(width, heads, shared)


def rotation_tables(depth: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], ...]:
    """Cosines and sines of every place, both halves alike: [CONTEXT, depth]."""
    rates = BASE ** (-np.arange(0, depth, 2) / depth)
    angles = np.arange(CONTEXT)[:, None] * np.concatenate((rates, rates))[None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rms_norm(export: Exporter, x: str, name: str, width: int) -> str:
    """x / √mean(x²) · scale (arXiv:1910.07467), written out as it is exported."""
    squared = export.node("Pow", x, export.number(f"{name}_two", 2.0))
    mean = export.node("ReduceMean", squared, axes=[-1], keepdims=1)
    root = export.node("Sqrt", export.node("Add", mean, export.number(f"{name}_eps", 1e-5)))
    inverse = export.node("Div", export.number(f"{name}_one", 1.0), root)
    normal = export.node("Mul", x, inverse)
    return export.node("Mul", export.vector(f"{name}_scale", width, 1.0), normal)


def rotated(export: Exporter, x: str, turns: tuple[str, ...], depth: int) -> str:
    """Pairs of the halves of the last axis turned by their place."""
    half = depth // 2
    second = export.node("Neg", export.slice(x, half, depth))
    swapped = export.node("Concat", second, export.slice(x, 0, half), axis=-1)
    kept, turned = (export.node("Mul", a, b) for a, b in zip((x, swapped), turns, strict=True))
    return export.node("Add", kept, turned)


def _attention(
    export: Exporter, x: str, index: int, past: int, sizes: Heads, turns: tuple[str, ...]
) -> str:
    """One query against all keys; every head of keys serves heads / shared queries."""
    stem, width, depth, shared = f"layer{index}_", sizes.width, sizes.depth, sizes.shared

    def projected(role: str, count: int) -> str:
        flat = export.node("MatMul", x, export.weight(f"{stem}{role}_w", width, count * depth))
        return export.transpose(export.reshape(flat, 1, 1, count, depth), 0, 2, 1, 3)

    query = rotated(export, projected("q", sizes.heads), turns, depth)
    new = {
        "key": rotated(export, projected("k", shared), turns, depth),
        "value": projected("v", shared),
    }
    keys, values = (
        _repeated(
            export,
            export.node(
                "Concat", f"past_key_values.{index}.{role}", row,
                output=f"present.{index}.{role}", axis=2,
            ),
            past + 1,
            sizes,
        )
        for role, row in new.items()
    )  # fmt: skip
    scores = export.node("MatMul", query, export.transpose(keys, 0, 1, 3, 2))
    scaled = export.node("Div", scores, export.number(f"{stem}root", math.sqrt(depth)))
    mixed = export.node("MatMul", export.node("Softmax", scaled, axis=-1), values)
    joined = export.reshape(export.transpose(mixed, 0, 2, 1, 3), 1, 1, width)
    return export.node("MatMul", joined, export.weight(f"{stem}out_w", width, width))


def _repeated(export: Exporter, x: str, rows: int, sizes: Heads) -> str:
    """[1, shared, rows, depth] with every head as often as queries share it."""
    times = sizes.heads // sizes.shared
    stem = f"repeat{len(export.nodes)}"
    wide = export.node("Unsqueeze", x, export.integers(f"{stem}_axis", 2))
    shape = export.integers(f"{stem}_shape", 1, sizes.shared, times, rows, sizes.depth)
    return export.reshape(export.node("Expand", wide, shape), 1, sizes.heads, rows, sizes.depth)


def gated(export: Exporter, x: str, name: str, width: int, hidden: int) -> str:
    """SwiGLU (arXiv:2002.05202)."""
    gate, up = (
        export.node("MatMul", x, export.weight(f"{name}{role}_w", width, hidden))
        for role in ("gate", "up")
    )
    y = export.node("Mul", swish(export, gate), up)
    return export.node("MatMul", y, export.weight(f"{name}down_w", hidden, width))
