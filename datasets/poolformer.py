"""PoolFormer-S12 with seeded weights: tokens mixed by average pooling, norms over whole images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple

WIDTHS = (64, 128, 320, 512)
DEPTHS = (2, 2, 6, 2)
"""Channels and blocks of every stage of S12 (table 1 of arXiv:2111.11418)."""
LAYER_SCALE = 0.5
"""Trained values differ; training starts at 1e-5, where blocks do nothing."""


def poolformer_s12(
    side: int = 224,
    widths: Sequence[int] = WIDTHS,
    depths: Sequence[int] = DEPTHS,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes].

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("poolformer_s12", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    x, inputs, extent = "x", 3, side
    for stage, (width, blocks) in enumerate(zip(widths, depths, strict=True)):
        kernel, stride, pad = (7, 4, 2) if stage == 0 else (3, 2, 1)
        x = export.conv(
            x, f"embed{stage}", (inputs, width), kernel, gain=1.0, stride=stride, pad=pad
        )
        inputs, extent = width, extent // stride
        for index in range(blocks):
            x = _block(export, x, f"stage{stage}_{index}", width, extent)
    x = _group_norm(export, x, "final", inputs, extent)
    pooled = export.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    weight = export.weight("head_w", inputs, classes)
    export.node("Gemm", pooled, weight, export.vector("head_b", classes), output="y")
    return export.model("poolformer_s12", (1, 3, side, side), (1, classes))


def _block(export: Exporter, x: str, name: str, width: int, extent: int) -> str:
    """Algorithm 1 of arXiv:2111.11418, then two point-wise layers; both scaled and added."""
    normal = _group_norm(export, x, f"{name}_norm1", width, extent)
    pooled = export.node(
        "AveragePool", normal, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4,
        count_include_pad=0,
    )  # fmt: skip
    mixed = export.node("Sub", pooled, normal)
    x = export.node("Add", x, _scaled(export, mixed, f"{name}_scale1", width))
    y = _group_norm(export, x, f"{name}_norm2", width, extent)
    y = export.gelu(export.conv(y, f"{name}_up", (width, 4 * width), 1, gain=1.0))
    y = export.conv(y, f"{name}_down", (4 * width, width), 1, gain=1.0)
    return export.node("Add", x, _scaled(export, y, f"{name}_scale2", width))


def _scaled(export: Exporter, x: str, name: str, width: int) -> str:
    return export.node("Mul", x, export.vector(name, width, LAYER_SCALE, spatial=2))


def _group_norm(export: Exporter, x: str, name: str, width: int, extent: int) -> str:
    """GroupNorm of one group, as PyTorch exports it before opset 18."""
    one = export.value(f"{name}_one", np.ones(1, np.float32))
    zero = export.value(f"{name}_zero", np.zeros(1, np.float32))
    flat = export.reshape(x, 1, 1, -1)
    normal = export.node("InstanceNormalization", flat, one, zero, epsilon=1e-5)
    image = export.reshape(normal, 1, width, extent, extent)
    scaled = export.node("Mul", image, export.vector(f"{name}_scale", width, 1.0, spatial=2))
    return export.node("Add", scaled, export.vector(f"{name}_bias", width, spatial=2))
