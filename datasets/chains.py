"""Chains without a contraction: what is bound by memory and by vector arithmetic."""

from __future__ import annotations

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter


def norm_gelu(
    tokens: int = 512, width: int = 768, depth: int = 4, seed: int = 0
) -> onnx.ModelProto:
    """``depth`` times x + GELU(LayerNorm(x)) over [1, tokens, width]."""
    export = Exporter(np.random.default_rng(seed))
    x = "x"
    for index in range(depth):
        active = export.gelu(export.layer_norm(x, f"ln{index}", width))
        x = export.node("Add", x, active, output="y" if index == depth - 1 else None)
    return export.model("norm_gelu", (1, tokens, width), (1, tokens, width))


def elementwise(channels: int = 64, side: int = 512, seed: int = 0) -> onnx.ModelProto:
    """Ten element-wise operators over [1, channels, side, side]: 64 MiB, more than caches hold."""
    export = Exporter(np.random.default_rng(seed))

    def row(name: str, centre: float) -> str:
        return export.vector(name, channels, centre, spatial=2)

    y = export.node("Add", export.node("Mul", "x", row("scale", 1.0)), row("shift", 0.2))
    y = export.node("LeakyRelu", y, alpha=0.1)
    y = export.node("Mul", y, export.number("half", 0.5))
    y = export.node("Abs", export.node("Sub", y, row("centre", 0.3)))
    y = export.node("Add", y, "x")
    y = export.node("Max", y, row("floor", -0.4))
    gate = export.node("Clip", y, export.number("zero", 0.0), export.number("one", 1.0))
    export.node("Mul", y, gate, output="y")
    shape = (1, channels, side, side)
    return export.model("elementwise", shape, shape)
