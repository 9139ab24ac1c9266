"""The networks of `cpu.py`: files with random weights, normal inputs, and the work they hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from autotune.datasets import LIGHT_MODELS, NETWORKS, light_seeded
from autotune.graph.onnx_import import translate
from autotune.graph.work import multiply_adds

BUILT = (
    "bert_layer",
    "bert_small",
    "vit_tiny",
    "mobilenet_v2",
    "mlp",
    "attention",
    "norm_gelu",
    "elementwise",
)
NAMES: tuple[str, ...] = (*LIGHT_MODELS, *BUILT)
"""In the order they are measured."""

LEFT_OUT = (
    "transformer_block",
    "mobilenet_v3",
    "efficientnet_b0",
    "resnext50",
    "unet",
    "unet_resize",
    "convnext_tiny",
    "mixer_s16",
    "gpt2_step",
    "lstm",
    "lstm_layer",
    "gru",
    "gru_layer",
    "yolo_head",
)
"""Networks of which no figures are published."""

SEED = 0


@dataclass(frozen=True, slots=True)
class NetworkCase:
    """An ONNX file, its inputs (npz), and the multiply-adds of its contractions in one run."""

    name: str
    network: Path
    inputs: Path
    multiply_adds: int


def make_case(name: str, folder: Path) -> NetworkCase:
    """Build a network's files in ``folder``; light networks get random weights."""
    builder = NETWORKS[name].builder
    model = light_seeded(name, SEED) if builder is None else builder()
    network, inputs = folder / f"{name}.onnx", folder / f"{name}.npz"
    onnx.save(model, network)
    graph = translate(model, name, {})
    rng = np.random.default_rng(SEED)
    feeds = {x: rng.standard_normal(graph.shape(x), dtype=np.float32) for x in graph.inputs}
    np.savez(inputs, **feeds)  # type: ignore[arg-type]
    return NetworkCase(name, network, inputs, sum(multiply_adds(op, graph) for op in graph.ops))
