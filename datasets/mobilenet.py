"""MobileNet-v2 with seeded weights, batch norms folded as an exporter in inference mode does."""

from __future__ import annotations

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter

BLOCKS: tuple[tuple[int, int, int, int], ...] = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, repeats, first stride (table 2 of arXiv:1801.04381)."""


def mobilenet_v2(side: int = 224, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Width 1.0: [1, 3, side, side] to logits [1, classes]; ``side`` a multiple of 32."""
    export = Exporter(np.random.default_rng(seed))
    x = _relu6(export, export.conv("x", "stem", (3, 32), 3, gain=1.0, stride=2, pad=1))
    channels, rectified = 32, True
    for group, (expansion, outputs, repeats, first) in enumerate(BLOCKS):
        for index in range(repeats):
            stride = first if index == 0 else 1
            name = f"block{group}_{index}"
            x = _block(export, x, name, (channels, outputs), expansion, stride, rectified)
            channels, rectified = outputs, False
    x = _relu6(export, export.conv(x, "head", (channels, 1280), 1, gain=1.0))
    pooled = export.node("Flatten", export.node("GlobalAveragePool", x), axis=1)
    weight = export.weight("classifier_w", 1280, classes)
    export.node("Gemm", pooled, weight, export.vector("classifier_b", classes), output="y")
    return export.model("mobilenet_v2", (1, 3, side, side), (1, classes))


def _relu6(export: Exporter, x: str) -> str:
    stem = f"relu{len(export.nodes)}"
    low, high = export.number(f"{stem}_low", 0.0), export.number(f"{stem}_high", 6.0)
    return export.node("Clip", x, low, high)


def _block(
    export: Exporter,
    x: str,
    name: str,
    channels: tuple[int, int],
    expansion: int,
    stride: int,
    rectified: bool,
) -> str:
    """Expand, filter depthwise, project linearly; a residual where the shape stays."""
    inputs, outputs = channels
    inner = inputs * expansion
    y = x
    if expansion > 1:
        gain = 2.0 if rectified else 1.0
        y = _relu6(export, export.conv(y, f"{name}_expand", (inputs, inner), 1, gain=gain))
    depthwise = export.conv(
        y, f"{name}_depthwise", (inner, inner), 3, stride=stride, pad=1, group=inner
    )
    y = export.conv(_relu6(export, depthwise), f"{name}_project", (inner, outputs), 1)
    return export.node("Add", x, y) if stride == 1 and inputs == outputs else y
