"""MobileNets with seeded weights, batch norms folded as an exporter in inference mode does."""

from __future__ import annotations

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import (
    InvertedResidual,
    Squeeze,
    check_multiple,
    classified,
    hard_sigmoid,
    hard_swish,
    of_eight,
    relu,
    relu6,
)

BLOCKS: tuple[tuple[int, int, int, int], ...] = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Of v2: expansion, output channels, repeats, first stride (table 2 of arXiv:1801.04381)."""

LARGE: tuple[tuple[int, int, int, bool, bool, int], ...] = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)
"""Of v3-Large: kernel, expanded channels, output channels, whether it squeezes, whether it is
hard-swish instead of ReLU, stride (table 1 of arXiv:1905.02244)."""


def mobilenet_v2(side: int = 224, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Width 1.0: [1, 3, side, side] to logits [1, classes].

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("mobilenet_v2", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    x = relu6(export, export.conv("x", "stem", (3, 32), 3, gain=1.0, stride=2, pad=1))
    channels, rectified = 32, True
    for group, (expansion, outputs, repeats, first) in enumerate(BLOCKS):
        for index in range(repeats):
            stride = first if index == 0 else 1
            block = InvertedResidual(
                channels, channels * expansion, outputs, relu6, stride=stride, rectified=rectified
            )
            x = block.added(export, x, f"block{group}_{index}")
            channels, rectified = outputs, False
    x = relu6(export, export.conv(x, "head", (channels, 1280), 1, gain=1.0))
    classified(export, x, 1280, classes)
    return export.model("mobilenet_v2", (1, 3, side, side), (1, classes))


def mobilenet_v3(
    side: int = 224, width: float = 1.0, classes: int = 1000, seed: int = 0
) -> onnx.ModelProto:
    """MobileNet-v3-Large: [1, 3, side, side] to logits [1, classes]; ``width`` scales the channels.

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("mobilenet_v3", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    channels = of_eight(16 * width)
    x = export.conv("x", "stem", (3, channels), 3, gain=1.0, stride=2, pad=1)
    x = hard_swish(export, x)
    for index, (kernel, expanded, out, squeezes, hard, stride) in enumerate(LARGE):
        inner, outputs = of_eight(expanded * width), of_eight(out * width)
        squeeze = Squeeze(of_eight(inner / 4), relu, hard_sigmoid) if squeezes else None
        activate = hard_swish if hard else relu
        block = InvertedResidual(channels, inner, outputs, activate, kernel, stride, squeeze)
        x = block.added(export, x, f"block{index}")
        channels = outputs
    last, hidden = 6 * channels, of_eight(1280 * width)
    x = hard_swish(export, export.conv(x, "last", (channels, last), 1, gain=1.0))
    # as in section 5.1, the mean comes before the widest layer
    x = export.conv(export.node("GlobalAveragePool", x), "hidden", (last, hidden), 1)
    x = export.node("Flatten", hard_swish(export, x), axis=1)
    weight = export.weight("classifier_w", hidden, classes)
    export.node("Gemm", x, weight, export.vector("classifier_b", classes), output="y")
    return export.model("mobilenet_v3", (1, 3, side, side), (1, classes))
