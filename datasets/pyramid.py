"""A RetinaNet on ResNet-18 with seeded weights: a pyramid of features and heads shared by its levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, floats
from autotune.datasets.image_blocks import check_multiple, relu

ANCHORS = 9
"""Boxes proposed at every place (section 4 of arXiv:1708.02002)."""


def retina_fpn(
    side: int = 256,
    width: int = 64,
    pyramid: int = 128,
    classes: int = 80,
    depth: int = 4,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to ``scores0`` … ``scores2`` [1, 9 · classes, H, W] and ``boxes0`` …
    [1, 36, H, W] of strides 8, 16 and 32 (RetinaNet, arXiv:1708.02002, over FPN, arXiv:1612.03144).

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("retina_fpn", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    levels = _backbone(export, width)
    merged = _pyramid(export, levels, [width << stage for stage in (1, 2, 3)], pyramid)
    heads = {"scores": ANCHORS * classes, "boxes": 4 * ANCHORS}
    for role, channels in heads.items():
        weights = _head_weights(export, role, pyramid, channels, depth)
        for index, level in enumerate(merged):
            _head(export, level, weights, f"{role}{index}")
    extents = [side // stride for stride in (8, 16, 32)]
    outputs = {
        f"{role}{index}": floats((1, channels, extent, extent))
        for role, channels in heads.items()
        for index, extent in enumerate(extents)
    }
    return export.typed_model("retina_fpn", {"x": floats((1, 3, side, side))}, outputs)


def _backbone(export: Exporter, width: int) -> list[str]:
    """ResNet-18's last three stages (table 1 of arXiv:1512.03385), batch norms folded."""
    x = relu(export, export.conv("x", "stem", (3, width), 7, gain=1.0, stride=2, pad=3))
    x = export.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs, levels = width, list[str]()
    for stage in range(4):
        outputs = width << stage
        for index in range(2):
            stride = 2 if stage and index == 0 else 1
            x = _basic(export, x, f"stage{stage}_{index}", (inputs, outputs), stride)
            inputs = outputs
        levels.append(x)
    return levels[1:]


def _basic(export: Exporter, x: str, name: str, widths: tuple[int, int], stride: int) -> str:
    """Two 3×3 convolutions beside a shortcut; sums of two equal variances: each half."""
    y = relu(export, export.conv(x, f"{name}_a", widths, 3, stride=stride, pad=1))
    y = export.conv(y, f"{name}_b", (widths[1], widths[1]), 3, gain=1.0, pad=1)
    if widths[0] != widths[1]:
        x = export.conv(x, f"{name}_shortcut", widths, 1, gain=1.0, stride=stride)
    return relu(export, export.node("Add", x, y))


def _pyramid(
    export: Exporter, levels: Sequence[str], widths: Sequence[int], width: int
) -> list[str]:
    """Every level at one width, with what comes from above added: finest first."""
    merged, above = list[str](), ""
    for index in reversed(range(len(levels))):
        x = export.conv(levels[index], f"lateral{index}", (widths[index], width), 1, gain=1.0)
        if above:
            factors = export.value(f"up{index}_scales", np.asarray([1, 1, 2, 2], np.float32))
            grown = export.node(
                "Resize", above, "", factors, mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor",
            )  # fmt: skip
            x = export.node("Add", x, grown)
        above = x
        merged.append(export.conv(x, f"smooth{index}", (width, width), 3, gain=1.0, pad=1))
    return merged[::-1]


def _head_weights(
    export: Exporter, role: str, width: int, channels: int, depth: int
) -> list[tuple[str, str]]:
    """Weights and biases of the 3×3 convolutions that all levels share."""
    widths = [width] * depth + [channels]
    return [
        (
            export.normal(f"{role}_w{i}", (out, width, 3, 3), (2 / (9 * width)) ** 0.5),
            export.vector(f"{role}_b{i}", out),
        )
        for i, out in enumerate(widths)
    ]


def _head(export: Exporter, x: str, weights: Sequence[tuple[str, str]], output: str) -> None:
    for index, (weight, bias) in enumerate(weights):
        last = index == len(weights) - 1
        x = export.node(
            "Conv", x, weight, bias, output=output if last else None,
            kernel_shape=[3, 3], pads=[1] * 4,
        )  # fmt: skip
        x = x if last else relu(export, x)
