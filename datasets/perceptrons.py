"""The multi-layer perceptron, built here with seeded weights."""

from __future__ import annotations

import itertools

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter


def mlp(
    batch: int = 16, widths: tuple[int, ...] = (784, 512, 256, 10), seed: int = 0
) -> onnx.ModelProto:
    """Gemm + Relu layers and a Softmax: [batch, widths[0]] to [batch, widths[-1]]."""
    export = Exporter(np.random.default_rng(seed))
    x = "x"
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        w = export.weight(f"fc{index}_w", inputs, outputs)
        x = export.node("Gemm", x, w, export.vector(f"fc{index}_b", outputs))
        if index < len(widths) - 2:
            x = export.node("Relu", x)
    export.node("Softmax", x, output="y", axis=-1)
    return export.model("mlp", (batch, widths[0]), (batch, widths[-1]))
