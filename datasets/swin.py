"""Swin-T with seeded weights: attention inside windows that shift from block to block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple
from autotune.datasets.self_attention import feed_forward, packed_attention

DEPTHS = (2, 2, 6, 2)
"""Blocks of every stage of Swin-T (table 7 of arXiv:2103.14030)."""
MASKED = -100.0
"""Added to scores between places that the shift alone made neighbours (reference implementation)."""


def swin_tiny(
    side: int = 224,
    patch: int = 4,
    window: int = 7,
    width: int = 96,
    heads: int = 3,
    depths: Sequence[int] = DEPTHS,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes]; width and heads double from stage to stage.

    Raises ``ModelError`` when the image of the last stage is no multiple of ``window``.
    """
    check_multiple("swin_tiny", "side", side, patch * window * 2 ** (len(depths) - 1))
    export = Exporter(np.random.default_rng(seed))
    extent = side // patch
    x = export.conv("x", "patches", (3, width), patch, gain=1.0, stride=patch)
    x = export.transpose(export.reshape(x, 1, width, extent * extent), 0, 2, 1)
    x = export.layer_norm(x, "patches_norm", width)
    for stage, blocks in enumerate(depths):
        if stage:
            x = _merged(export, x, f"merge{stage}", extent, width)
            extent, width, heads = extent // 2, 2 * width, 2 * heads
        for index in range(blocks):
            shift = window // 2 if index % 2 and extent > window else 0
            x = _block(export, x, f"stage{stage}_{index}", (extent, window, shift), width, heads)
    x = export.layer_norm(x, "final", width)
    pooled = export.node("ReduceMean", x, axes=[1], keepdims=0)
    weight = export.weight("head_w", width, classes)
    export.node("Gemm", pooled, weight, export.vector("head_b", classes), output="y")
    return export.model("swin_tiny", (1, 3, side, side), (1, classes))


def _block(
    export: Exporter, x: str, name: str, places: tuple[int, int, int], width: int, heads: int
) -> str:
    """Section 3.2: attention in windows of an image of ``places`` = extent, window, shift."""
    extent, window, shift = places
    count, tokens = (extent // window) ** 2, window * window
    y = export.reshape(export.layer_norm(x, f"{name}_ln1", width), 1, extent, extent, width)
    y = _rolled(export, y, shift, extent)
    split = (1, extent // window, window, extent // window, window, width)
    y = export.transpose(export.reshape(y, *split), 0, 1, 3, 2, 4, 5)
    biases: tuple[str, ...] = (export.normal(f"{name}_relative", (1, heads, tokens, tokens), 0.5),)
    if shift:
        biases += (export.value(f"{name}_mask", _mask(extent, window, shift)),)
    windows = export.reshape(y, count, tokens, width)
    size = (count, tokens, width)
    y = packed_attention(export, windows, f"{name}_attention", size, heads, biases)
    joined = (1, extent // window, extent // window, window, window, width)
    y = export.transpose(export.reshape(y, *joined), 0, 1, 3, 2, 4, 5)
    y = _rolled(export, export.reshape(y, 1, extent, extent, width), extent - shift, extent)
    x = export.node("Add", x, export.reshape(y, 1, extent * extent, width))
    normal = export.layer_norm(x, f"{name}_ln2", width)
    return export.node("Add", x, feed_forward(export, normal, name, width, 4 * width))


def _rolled(export: Exporter, x: str, shift: int, extent: int) -> str:
    """Rows and columns of [1, extent, extent, C] moved up and left by ``shift``, around the edge."""
    if shift % extent == 0:
        return x
    for axis in (1, 2):
        last, first = export.cut(x, axis, shift, extent), export.cut(x, axis, 0, shift)
        x = export.node("Concat", last, first, axis=axis)
    return x


def _mask(
    extent: int, window: int, shift: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """0 between places of one region and ``MASKED`` between others: [windows, 1, tokens, tokens]."""
    edges = (0, extent - window, extent - shift, extent)
    band = np.searchsorted(edges, np.arange(extent), side="right")
    regions = band[:, None] * len(edges) + band[None, :]
    count = extent // window
    cut = regions.reshape(count, window, count, window).transpose(0, 2, 1, 3)
    rows = cut.reshape(count * count, window * window)
    return np.where(rows[:, None, :, None] == rows[:, None, None, :], 0, MASKED).astype(np.float32)


def _merged(export: Exporter, x: str, name: str, extent: int, width: int) -> str:
    """Every 2×2 places as one of twice the width (section 3.1)."""
    image = export.reshape(x, 1, extent, extent, width)
    axes = export.integers(f"{name}_axes", 1, 2)
    ends, steps = (
        export.integers(f"{name}_{k}", v, v) for k, v in (("ends", extent), ("steps", 2))
    )
    quarters = [
        export.node(
            "Slice", image, export.integers(f"{name}_start{row}{column}", row, column),
            ends, axes, steps,
        )
        for column in (0, 1)
        for row in (0, 1)
    ]  # fmt: skip
    joined = export.reshape(
        export.node("Concat", *quarters, axis=-1), 1, extent * extent // 4, 4 * width
    )
    normal = export.layer_norm(joined, f"{name}_norm", 4 * width)
    return export.node("MatMul", normal, export.weight(f"{name}_w", 4 * width, 2 * width))
