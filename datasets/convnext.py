"""ConvNeXt-Tiny with seeded weights: wide depthwise convolutions, norms over channels, GELU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple

DEPTHS = (3, 3, 9, 3)
"""Blocks of every stage of ConvNeXt-T (section 3 of arXiv:2201.03545)."""
KERNEL = 7
LAYER_SCALE = 0.5
"""What channels of a branch are scaled by; training starts at 1e-6, where blocks do nothing."""


def convnext(
    side: int = 224,
    width: int = 96,
    depths: Sequence[int] = DEPTHS,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes]; channels double from ``width`` on.

    Raises ``ModelError`` when ``side`` cannot be halved once more than there are stages.
    """
    check_multiple("convnext", "side", side, 2 ** (len(depths) + 1))
    export = Exporter(np.random.default_rng(seed))
    x = export.conv("x", "stem", (3, width), 4, gain=1.0, stride=4)
    x = _norm(export, x, "stem_norm", width)
    for stage, blocks in enumerate(depths):
        if stage:
            x = _norm(export, x, f"halve{stage}_norm", width)
            x = export.conv(x, f"halve{stage}", (width, 2 * width), 2, gain=1.0, stride=2)
            width *= 2
        for index in range(blocks):
            x = _block(export, x, f"stage{stage}_{index}", width)
    pooled = export.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    normal = export.layer_norm(pooled, "final", width)
    weight = export.weight("classifier_w", width, classes)
    export.node("Gemm", normal, weight, export.vector("classifier_b", classes), output="y")
    return export.model("convnext", (1, 3, side, side), (1, classes))


def _block(export: Exporter, x: str, name: str, width: int) -> str:
    """Figure 4: depthwise 7×7, then norm and two layers with channels innermost."""
    y = export.conv(
        x, f"{name}_depthwise", (width, width), KERNEL, gain=1.0, pad=KERNEL // 2, group=width
    )
    y = export.layer_norm(export.node("Transpose", y, perm=[0, 2, 3, 1]), f"{name}_norm", width)
    y = export.gelu(export.linear(y, f"{name}_up", width, 4 * width))
    y = export.linear(y, f"{name}_down", 4 * width, width)
    y = export.node("Mul", export.vector(f"{name}_scale", width, LAYER_SCALE), y)
    return export.node("Add", x, export.node("Transpose", y, perm=[0, 3, 1, 2]))


def _norm(export: Exporter, x: str, name: str, width: int) -> str:
    """Layer normalisation over the channels of an image [N, C, H, W]."""
    last = export.node("Transpose", x, perm=[0, 2, 3, 1])
    return export.node("Transpose", export.layer_norm(last, name, width), perm=[0, 3, 1, 2])
