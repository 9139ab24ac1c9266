"""MobileViT-XS with seeded weights: inverted residuals, and transformers over unfolded patches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import InvertedResidual, check_multiple, classified, swish
from autotune.datasets.self_attention import packed_attention

CHANNELS = (16, 32, 48, 64, 80, 96)
"""Of the stem and the five stages (table 4 of arXiv:2110.02178)."""
TRANSFORMERS = ((96, 2), (120, 4), (144, 3))
"""Width and layers of the last three stages."""
HEADS = 4
PATCH = 2


def mobilevit_xs(
    side: int = 256,
    channels: Sequence[int] = CHANNELS,
    transformers: Sequence[tuple[int, int]] = TRANSFORMERS,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes]. Raises ``ModelError`` when ``side`` is no multiple of
    64: the last image is cut into patches."""
    check_multiple("mobilevit_xs", "side", side, 32 * PATCH)
    export = Exporter(np.random.default_rng(seed))
    x = swish(export, export.conv("x", "stem", (3, channels[0]), 3, gain=1.0, stride=2, pad=1))
    inputs, extent = channels[0], side // 2
    for index, (outputs, stride) in enumerate(
        ((channels[1], 1), (channels[2], 2), (channels[2], 1), (channels[2], 1))
    ):
        x = _inverted(export, x, f"early{index}", (inputs, outputs), stride)
        inputs, extent = outputs, extent // stride
    for stage, ((width, layers), outputs) in enumerate(
        zip(transformers, channels[3:], strict=True)
    ):
        x = _inverted(export, x, f"halve{stage}", (inputs, outputs), 2)
        inputs, extent = outputs, extent // 2
        x = _mobilevit(export, x, f"stage{stage}", (outputs, width, extent), layers)
    x = swish(export, export.conv(x, "head", (inputs, 4 * inputs), 1))
    classified(export, x, 4 * inputs, classes)
    return export.model("mobilevit_xs", (1, 3, side, side), (1, classes))


def _inverted(export: Exporter, x: str, name: str, widths: tuple[int, int], stride: int) -> str:
    inputs, outputs = widths
    block = InvertedResidual(inputs, 4 * inputs, outputs, swish, stride=stride)
    return block.added(export, x, name)


def _mobilevit(
    export: Exporter, x: str, name: str, sizes: tuple[int, int, int], layers: int
) -> str:
    """Figure 1b: local filters, attention between equal places of all patches, and a fusion with the
    input. ``sizes`` are channels, the transformer's width and the image's extent."""
    channels, width, extent = sizes
    y = swish(export, export.conv(x, f"{name}_local", (channels, channels), 3, pad=1))
    y = export.conv(y, f"{name}_wide", (channels, width), 1, gain=1.0)
    count, area = extent // PATCH, PATCH * PATCH
    tokens = count * count
    # as timm unfolds: [width · rows, PATCH, columns, PATCH] to [PATCH², patches, width]
    y = export.transpose(export.reshape(y, width * count, PATCH, count, PATCH), 0, 2, 1, 3)
    y = export.transpose(export.reshape(y, 1, width, tokens, area), 0, 3, 2, 1)
    y = export.reshape(y, area, tokens, width)
    for index in range(layers):
        y = _transformed(export, y, f"{name}_{index}", (area, tokens, width))
    y = export.layer_norm(y, f"{name}_norm", width)
    y = export.transpose(export.reshape(y, 1, area, tokens, width), 0, 3, 2, 1)
    y = export.transpose(export.reshape(y, width * count, count, PATCH, PATCH), 0, 2, 1, 3)
    y = export.reshape(y, 1, width, extent, extent)
    y = swish(export, export.conv(y, f"{name}_narrow", (width, channels), 1))
    joined = export.node("Concat", x, y, axis=1)
    return swish(export, export.conv(joined, f"{name}_fuse", (2 * channels, channels), 3, pad=1))


def _transformed(export: Exporter, x: str, name: str, size: tuple[int, int, int]) -> str:
    """A pre-norm block with a feed-forward of twice the width and Swish."""
    width = size[2]
    normal = export.layer_norm(x, f"{name}_ln1", width)
    x = export.node("Add", x, packed_attention(export, normal, f"{name}_attention", size, HEADS))
    hidden = export.linear(
        export.layer_norm(x, f"{name}_ln2", width), f"{name}_up", width, 2 * width
    )
    return export.node(
        "Add", x, export.linear(swish(export, hidden), f"{name}_down", 2 * width, width)
    )
