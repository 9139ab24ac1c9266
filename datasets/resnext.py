"""ResNeXt-50 32×4d with seeded weights, batch norms folded as an exporter in inference mode does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple, classified, relu

STAGES = ((3, 1), (4, 2), (6, 2), (3, 2))
"""Repeats and first stride (table 1 of arXiv:1611.05431)."""
REPEATS = tuple(count for count, _ in STAGES)


def resnext(
    side: int = 224,
    cardinality: int = 32,
    depth: int = 4,
    repeats: Sequence[int] = REPEATS,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes]: ``cardinality`` groups of ``depth`` channels in the
    first stage, twice as deep in each further one.

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("resnext", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    inner = cardinality * depth
    channels = inner // 2
    x = relu(export, export.conv("x", "stem", (3, channels), 7, gain=1.0, stride=2, pad=3))
    x = export.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (times, (_, first)) in enumerate(zip(repeats, STAGES, strict=True)):
        for index in range(times):
            stride = first if index == 0 else 1
            widths = (channels, inner, 2 * inner)
            x = _block(export, x, f"stage{stage}_{index}", widths, cardinality, stride)
            channels = 2 * inner
        inner *= 2
    classified(export, x, channels, classes)
    return export.model("resnext", (1, 3, side, side), (1, classes))


def _block(
    export: Exporter, x: str, name: str, widths: tuple[int, int, int], groups: int, stride: int
) -> str:
    """Figure 3c: reduce, a grouped 3×3, expand; the shortcut is projected where the shape changes."""
    inputs, inner, outputs = widths
    y = relu(export, export.conv(x, f"{name}_reduce", (inputs, inner), 1))
    y = export.conv(y, f"{name}_grouped", (inner, inner), 3, stride=stride, pad=1, group=groups)
    # sums of two equal variances: each half
    y = export.conv(relu(export, y), f"{name}_expand", (inner, outputs), 1, gain=1.0)
    if inputs != outputs or stride != 1:
        x = export.conv(x, f"{name}_shortcut", (inputs, outputs), 1, gain=1.0, stride=stride)
    return relu(export, export.node("Add", x, y))
