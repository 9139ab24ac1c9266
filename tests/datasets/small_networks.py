"""Every built network at a small size, and inputs for networks of any element types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx

from autotune.datasets.chains import elementwise, norm_gelu
from autotune.datasets.convnext import convnext
from autotune.datasets.decoder import gpt2_step
from autotune.datasets.detection import yolo_head
from autotune.datasets.efficientnet import efficientnet
from autotune.datasets.mixer import mixer
from autotune.datasets.mobilenet import mobilenet_v2, mobilenet_v3
from autotune.datasets.perceptrons import mlp
from autotune.datasets.recurrent import gru, gru_layer, lstm, lstm_layer
from autotune.datasets.resnext import resnext
from autotune.datasets.transformers import attention, bert_layer, bert_small, transformer_block, vit
from autotune.datasets.unet import unet, unet_resize
from autotune.graph.graph import Graph
from autotune.graph.tensor import NUMPY

SMALL: dict[str, Callable[[], onnx.ModelProto]] = {
    "bert_layer": lambda: bert_layer(tokens=7, width=24, heads=3),
    "bert_small": lambda: bert_small(tokens=5, width=16),
    "vit_tiny": lambda: vit(side=48, width=12, layers=2, classes=9),
    "mobilenet_v2": lambda: mobilenet_v2(side=32, classes=9),
    "mobilenet_v3": lambda: mobilenet_v3(side=32, width=0.25, classes=9),
    "efficientnet_b0": lambda: efficientnet(side=32, width=0.25, repeats=1, classes=9),
    "resnext50": lambda: resnext(32, 4, 2, repeats=(1, 2, 1, 1), classes=9),
    "unet": lambda: unet(side=12, channels=3, levels=2),
    "unet_resize": lambda: unet_resize(side=12, channels=3, levels=2),
    "convnext_tiny": lambda: convnext(side=32, width=4, depths=(1, 2, 1, 1), classes=9),
    "mixer_s16": lambda: mixer(48, 16, 12, token_width=7, channel_width=20, layers=2, classes=9),
    "gpt2_step": lambda: gpt2_step(past=6, width=12, heads=3, layers=2, vocabulary=29),
    "lstm": lambda: lstm(steps=3, batch=2, inputs=5, width=6),
    "gru": lambda: gru(steps=3, batch=2, inputs=5, width=6),
    "lstm_layer": lambda: lstm_layer(steps=3, batch=2, inputs=5, width=6),
    "gru_layer": lambda: gru_layer(steps=3, batch=2, inputs=5, width=6),
    "yolo_head": lambda: yolo_head(32, channels=(3, 4, 5), classes=4, keep=7),
    "attention": lambda: attention(heads=2, tokens=9, depth=8),
    "norm_gelu": lambda: norm_gelu(tokens=5, width=11),
    "elementwise": lambda: elementwise(channels=3, side=7),
    "mlp": lambda: mlp(batch=3, widths=(9, 8, 7)),
    "transformer_block": lambda: transformer_block(tokens=6, width=12, heads=3),
}
"""By name, as the table has them."""

ROWS = 5
"""Rows that every table of the small networks has at least: whole numbers are drawn below it."""


def feeds(graph: Graph, seed: int = 0) -> dict[str, npt.NDArray[np.generic]]:
    """Normal values, and row numbers where an input holds integers, of the network's own types."""
    rng = np.random.default_rng(seed)
    fed: dict[str, npt.NDArray[np.generic]] = {}
    for x in graph.inputs:
        kind = graph.types[x]
        if kind.dtype.is_integer:
            fed[x] = rng.integers(0, ROWS, kind.shape).astype(NUMPY[kind.dtype])
        else:
            fed[x] = rng.standard_normal(kind.shape).astype(np.float32)
    return fed


def widened(fed: dict[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.float32]]:
    """The same inputs as graphs take them: all float32."""
    return {x: np.asarray(value, np.float32) for x, value in fed.items()}
