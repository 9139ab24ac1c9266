"""Segmentation with seeded weights: DeepLabV3's dilated head and SegFormer-B0."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple, relu
from autotune.datasets.transformers import check_heads

RATES = (12, 24, 36)
"""Dilations of the head at an output stride of 8 (section 3.3 of arXiv:1706.05587)."""


def aspp_head(
    side: int = 16,
    channels: int = 960,
    width: int = 256,
    rates: Sequence[int] = RATES,
    classes: int = 21,
    upsampling: int = 16,
    seed: int = 0,
) -> onnx.ModelProto:
    """The head of DeepLabV3 over features [1, channels, side, side], as behind MobileNetV3-Large, to
    logits [1, classes, upsampling · side, upsampling · side]."""
    export = Exporter(np.random.default_rng(seed))
    branches = [relu(export, export.conv("x", "point", (channels, width), 1, gain=1.0))]
    for rate in rates:
        y = export.conv("x", f"rate{rate}", (channels, width), 3, gain=1.0, pad=rate, dilation=rate)
        branches.append(relu(export, y))
    pooled = export.conv(
        export.node("GlobalAveragePool", "x"), "pooled", (channels, width), 1, gain=1.0
    )
    sizes = export.integers("pooled_sizes", 1, width, side, side)
    branches.append(export.node("Resize", relu(export, pooled), "", "", sizes, mode="linear"))
    joined = export.node("Concat", *branches, axis=1)
    y = relu(export, export.conv(joined, "project", (len(branches) * width, width), 1))
    y = relu(export, export.conv(y, "refine", (width, width), 3, pad=1))
    y = export.conv(y, "classes", (width, classes), 1, gain=1.0)
    grown = upsampling * side
    shape = export.integers("grown_sizes", 1, classes, grown, grown)
    export.node(
        "Resize", y, "", "", shape, output="y",
        mode="linear", coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    return export.model("aspp_head", (1, channels, side, side), (1, classes, grown, grown))


WIDTHS = (32, 64, 160, 256)
HEADS = (1, 2, 5, 8)
REDUCTIONS = (8, 4, 2, 1)
"""Of SegFormer-B0, stage by stage (table 6 of arXiv:2105.15203): keys and values come from an image
shrunk by the reduction."""


def segformer_b0(
    side: int = 256,
    widths: Sequence[int] = WIDTHS,
    heads: Sequence[int] = HEADS,
    depth: int = 2,
    decoder: int = 256,
    classes: int = 150,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 3, side, side] to logits [1, classes, side / 4, side / 4], ``depth`` blocks a stage.

    Raises ``ModelError`` when ``side`` is no multiple of 32, or a width of its heads.
    """
    check_multiple("segformer_b0", "side", side, 32)
    export = Exporter(np.random.default_rng(seed))
    x, inputs, extent, levels = "x", 3, side, list[tuple[str, int, int]]()
    for stage, (width, count) in enumerate(zip(widths, heads, strict=True)):
        check_heads("segformer_b0", width, count)
        kernel, stride = (7, 4) if stage == 0 else (3, 2)
        x = export.conv(
            x, f"embed{stage}", (inputs, width), kernel, gain=1.0, stride=stride, pad=kernel // 2
        )
        extent //= stride
        x = export.transpose(export.reshape(x, 1, width, extent * extent), 0, 2, 1)
        x = export.layer_norm(x, f"embed{stage}_norm", width)
        for index in range(depth):
            places = (extent, width, count, REDUCTIONS[stage])
            x = _block(export, x, f"stage{stage}_{index}", places)
        x = export.layer_norm(x, f"stage{stage}_norm", width)
        levels.append((x, extent, width))
        x = export.reshape(export.transpose(x, 0, 2, 1), 1, width, extent, extent)
        inputs = width
    _decoded(export, levels, decoder, classes)
    shape = (1, classes, side // 4, side // 4)
    return export.model("segformer_b0", (1, 3, side, side), shape)


def _block(export: Exporter, x: str, name: str, places: tuple[int, int, int, int]) -> str:
    """Section 3.1: attention to a shrunk image, then a feed-forward with a depthwise convolution.
    ``places`` are the image's extent, the width, the heads and the reduction."""
    extent, width, _, _ = places
    tokens, hidden = extent * extent, 4 * width
    normal = export.layer_norm(x, f"{name}_ln1", width)
    x = export.node("Add", x, _attention(export, normal, name, places))
    y = export.linear(export.layer_norm(x, f"{name}_ln2", width), f"{name}_up", width, hidden)
    image = export.reshape(export.transpose(y, 0, 2, 1), 1, hidden, extent, extent)
    image = export.conv(
        image, f"{name}_depthwise", (hidden, hidden), 3, gain=1.0, pad=1, group=hidden
    )
    y = export.transpose(export.reshape(image, 1, hidden, tokens), 0, 2, 1)
    y = export.linear(export.gelu(y), f"{name}_down", hidden, width)
    return export.node("Add", x, y)


def _attention(export: Exporter, x: str, name: str, places: tuple[int, int, int, int]) -> str:
    extent, width, heads, reduction = places
    depth, tokens, kept = width // heads, extent * extent, (extent // reduction) ** 2
    query = export.linear(x, f"{name}_q", width, width)
    query = export.transpose(export.reshape(query, 1, tokens, heads, depth), 0, 2, 1, 3)
    if reduction > 1:
        image = export.reshape(export.transpose(x, 0, 2, 1), 1, width, extent, extent)
        image = export.conv(
            image, f"{name}_reduce", (width, width), reduction, gain=1.0, stride=reduction
        )
        x = export.transpose(export.reshape(image, 1, width, kept), 0, 2, 1)
        x = export.layer_norm(x, f"{name}_reduce_norm", width)
    key, value = (
        export.reshape(export.linear(x, f"{name}_{role}", width, width), 1, kept, heads, depth)
        for role in "kv"
    )
    scores = export.node("MatMul", query, export.transpose(key, 0, 2, 3, 1))
    scaled = export.node("Div", scores, export.number(f"{name}_root", math.sqrt(depth)))
    weights = export.node("Softmax", scaled, axis=-1)
    mixed = export.node("MatMul", weights, export.transpose(value, 0, 2, 1, 3))
    merged = export.reshape(export.transpose(mixed, 0, 2, 1, 3), 1, tokens, width)
    return export.linear(merged, f"{name}_out", width, width)


def _decoded(
    export: Exporter, levels: Sequence[tuple[str, int, int]], width: int, classes: int
) -> None:
    """Section 3.2: all stages at one width and the first one's extent, joined and classified."""
    largest, grown = levels[0][1], list[str]()
    for index, (x, extent, inputs) in enumerate(levels):
        y = export.transpose(export.linear(x, f"decode{index}", inputs, width), 0, 2, 1)
        y = export.reshape(y, 1, width, extent, extent)
        if extent != largest:
            sizes = export.integers(f"decode{index}_sizes", 1, width, largest, largest)
            y = export.node(
                "Resize", y, "", "", sizes,
                mode="linear", coordinate_transformation_mode="half_pixel",
            )  # fmt: skip
        grown.append(y)
    joined = export.node("Concat", *reversed(grown), axis=1)
    y = relu(export, export.conv(joined, "fuse", (len(levels) * width, width), 1, gain=1.0))
    export.conv(y, "classes", (width, classes), 1, gain=1.0, output="y")
