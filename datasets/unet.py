"""U-Net with seeded weights: a path down, a path up, and every level's image taken across."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import check_multiple, relu


class Upsampling(StrEnum):
    """How images grow on the way up."""

    TRANSPOSED = "transposed"
    """A 2×2 transposed convolution of stride 2, as in the paper."""
    RESIZE = "resize"
    """Linear interpolation and a 1×1 convolution, which leaves no chequers (Odena et al. 2016,
    doi:10.23915/distill.00003)."""


def unet(
    side: int = 256,
    channels: int = 64,
    levels: int = 4,
    classes: int = 2,
    upsampling: Upsampling = Upsampling.TRANSPOSED,
    seed: int = 0,
) -> onnx.ModelProto:
    """[1, 1, side, side] to logits [1, classes, side, side] (Ronneberger et al. 2015,
    arXiv:1505.04597, figure 1), with padded convolutions, so that nothing is cropped.

    Raises ``ModelError`` when ``side`` cannot be halved ``levels`` times.
    """
    check_multiple("unet", "side", side, 2**levels)
    export = Exporter(np.random.default_rng(seed))
    x, inputs, across = "x", 1, list[str]()
    for level in range(levels + 1):
        width = channels << level
        x = _double(export, x, f"down{level}", inputs, width)
        inputs = width
        if level < levels:
            across.append(x)
            x = export.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for level in reversed(range(levels)):
        width = channels << level
        grown = _grown(export, x, f"up{level}", width, upsampling)
        joined = export.node("Concat", across[level], grown, axis=1)
        x = _double(export, joined, f"join{level}", 2 * width, width)
    export.conv(x, "logits", (channels, classes), 1, gain=1.0, output="y")
    return export.model("unet", (1, 1, side, side), (1, classes, side, side))


def unet_resize(
    side: int = 256, channels: int = 64, levels: int = 4, classes: int = 2, seed: int = 0
) -> onnx.ModelProto:
    """U-Net that grows by interpolation. Raises ``ModelError`` as ``unet`` does."""
    return unet(side, channels, levels, classes, Upsampling.RESIZE, seed)


def _double(export: Exporter, x: str, name: str, inputs: int, width: int) -> str:
    """Two 3×3 convolutions, each with a ReLU."""
    x = relu(export, export.conv(x, f"{name}_a", (inputs, width), 3, pad=1))
    return relu(export, export.conv(x, f"{name}_b", (width, width), 3, pad=1))


def _grown(export: Exporter, x: str, name: str, width: int, upsampling: Upsampling) -> str:
    """x [1, 2 · width, H, W] as [1, width, 2 · H, 2 · W]."""
    if upsampling is Upsampling.RESIZE:
        factors = export.value(f"{name}_scales", np.asarray([1, 1, 2, 2], np.float32))
        x = export.node(
            "Resize", x, "", factors, mode="linear", coordinate_transformation_mode="half_pixel"
        )
        return export.conv(x, f"{name}_conv", (2 * width, width), 1)
    # strides as long as the kernel: every output element is a sum over the channels alone
    weight = export.normal(f"{name}_w", (2 * width, width, 2, 2), math.sqrt(1 / width))
    bias = export.vector(f"{name}_b", width)
    return export.node("ConvTranspose", x, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
