"""Every built network at a small size, and inputs for networks of any element types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx

from autotune.datasets.audio import conformer, conv_tasnet, whisper_encoder
from autotune.datasets.chains import elementwise, norm_gelu
from autotune.datasets.convnext import convnext
from autotune.datasets.decoder import gpt2_step
from autotune.datasets.detection import yolo_head
from autotune.datasets.efficientnet import efficientnet
from autotune.datasets.llama import llama_step
from autotune.datasets.mixer import mixer
from autotune.datasets.mobilenet import mobilenet_v2, mobilenet_v3
from autotune.datasets.mobilevit import mobilevit_xs
from autotune.datasets.perceptrons import mlp
from autotune.datasets.poolformer import poolformer_s12
from autotune.datasets.pyramid import retina_fpn
from autotune.datasets.recurrent import gru, gru_layer, lstm, lstm_layer
from autotune.datasets.resnext import resnext
from autotune.datasets.segmentation import aspp_head, segformer_b0
from autotune.datasets.swin import swin_tiny
from autotune.datasets.transformers import attention, bert_layer, bert_small, transformer_block, vit
from autotune.datasets.translation import marian_decoder
from autotune.datasets.unet import unet, unet_resize
from autotune.datasets.vision_transformer import vit_b32
from autotune.graph.graph import Graph
from autotune.operators.tensor import NUMPY

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
    "vit_b32": lambda: vit_b32(side=96, width=12, heads=3, layers=2, classes=9),
    "swin_tiny": lambda: swin_tiny(16, 2, 2, width=6, heads=1, depths=(2, 2), classes=9),
    "aspp_head": lambda: aspp_head(8, channels=10, width=6, rates=(3, 6, 9), upsampling=4),
    "segformer_b0": lambda: segformer_b0(32, (4, 8, 10, 16), depth=1, decoder=8, classes=9),
    "whisper_encoder": lambda: whisper_encoder(frames=18, bands=5, width=12, heads=3, layers=2),
    "conv_tasnet": lambda: conv_tasnet(120, 16, 8, 12, blocks=3, repeats=2),
    "conformer": lambda: conformer(tokens=9, width=12, heads=3, layers=2, kernel=5),
    "retina_fpn": lambda: retina_fpn(32, width=4, pyramid=6, classes=3, depth=2),
    "mobilevit_xs": lambda: mobilevit_xs(64, (4, 4, 6, 6, 8, 8), ((8, 1), (8, 2), (12, 1)), 9),
    "poolformer_s12": lambda: poolformer_s12(32, (4, 6, 8, 10), (1, 1, 2, 1), classes=9),
    "llama_step": lambda: llama_step(5, 12, 3, 1, hidden=20, layers=2, vocabulary=29),
    "marian_decoder": lambda: marian_decoder(5, 7, width=12, heads=3, hidden=20, layers=2),
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
