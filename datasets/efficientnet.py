"""EfficientNet-B0 with seeded weights, batch norms folded as an exporter in inference mode does."""

from __future__ import annotations

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import (
    InvertedResidual,
    Squeeze,
    check_multiple,
    classified,
    of_eight,
    sigmoid,
    swish,
)

STAGES: tuple[tuple[int, int, int, int, int], ...] = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
"""Expansion, kernel, output channels, repeats, first stride (table 1 of arXiv:1905.11946)."""


def efficientnet(
    side: int = 224,
    width: float = 1.0,
    repeats: int | None = None,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """B0: [1, 3, side, side] to logits [1, classes]; ``width`` scales the channels, ``repeats``
    replaces those of all stages. Squeezes are a quarter of a block's input (section 5).

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("efficientnet", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    channels = of_eight(32 * width)
    x = swish(export, export.conv("x", "stem", (3, channels), 3, gain=1.0, stride=2, pad=1))
    for stage, (expansion, kernel, out, times, first) in enumerate(STAGES):
        outputs = of_eight(out * width)
        for index in range(times if repeats is None else repeats):
            block = InvertedResidual(
                channels,
                channels * expansion,
                outputs,
                swish,
                kernel,
                first if index == 0 else 1,
                Squeeze(max(1, channels // 4), swish, sigmoid),
            )
            x = block.added(export, x, f"stage{stage}_{index}")
            channels = outputs
    head = of_eight(1280 * width)
    x = swish(export, export.conv(x, "head", (channels, head), 1))
    classified(export, x, head, classes)
    return export.model("efficientnet", (1, 3, side, side), (1, classes))
