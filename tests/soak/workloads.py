"""What is served in a soak: networks with open dimensions, control flow or neither, their inputs and right answers.

The answers are those of ONNX's reference evaluator: nothing of ours computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from autotune.datasets.chains import norm_gelu
from autotune.datasets.generation import gpt2_decoder
from autotune.datasets.perceptrons import mlp
from autotune.datasets.transformers import transformer_block
from autotune.datasets.unet import unet
from autotune.graph.accuracy import Accuracy
from tests.runtime.control_case import COUNTED, GROWING, model_of

Arrays = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator], Arrays]
CASES = 8
"""Inputs of each network, drawn once: reference evaluators are slow."""
BOUND = {Accuracy.EXACT: 4e-5, Accuracy.CLOSE: 4e-5, Accuracy.FAST: 2e-3}
"""Greatest distance from the right answer, as a share of the output's range (tests/networks/test_close_accuracy.py)."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request and its right answer."""

    inputs: Arrays
    wanted: Arrays

    def complaint(self, outputs: Mapping[str, Any], accuracy: Accuracy) -> str | None:
        """Say in one line what is wrong with outputs; None where nothing is."""
        if set(outputs) != set(self.wanted):
            return f"outputs {sorted(outputs)}, wanted {sorted(self.wanted)}"
        for name, wanted in self.wanted.items():
            found = np.asarray(outputs[name])
            if found.shape != wanted.shape or found.dtype != wanted.dtype:
                return (
                    f"{name} is {found.dtype} {found.shape}, wanted {wanted.dtype} {wanted.shape}"
                )
            distance = _distance(found, wanted)
            if not distance <= BOUND[accuracy]:  # NaN is wrong, too
                return f"{name} is off by {distance:.2e} of its range, the bound is {BOUND[accuracy]:g}"
        return None


def _distance(found: np.ndarray, wanted: np.ndarray) -> float:
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind in "biu":
        return float(np.any(found != wanted))
    wide = wanted.astype(np.float64)
    extent = max(float(np.ptp(wide)), float(np.abs(wide).max()), 1e-30)
    return float(np.abs(found - wide).max()) / extent


@dataclass(frozen=True, slots=True)
class Workload:
    """One network as it is served: on ``machine``, learning or not. ``unfused`` starts from one group per operator."""

    name: str
    model: Callable[[], onnx.ModelProto]
    draw: Draw
    machine: str
    online: bool = False
    accuracy: Accuracy = Accuracy.EXACT
    unfused: bool = False

    @property
    def is_dynamic(self) -> bool:
        """True if shapes or control flow depend on the inputs."""
        return self.model in (layers, counted, growing, decoder)

    def saved(self, folder: Path) -> Path:
        """Write the network's file; return it."""
        path = folder / f"{self.name}.onnx"
        onnx.save(self.model(), path)
        return path

    def cases(self, path: Path, seed: int) -> tuple[Case, ...]:
        """Draw requests and have them answered by ONNX's reference evaluator."""
        rng, evaluator = np.random.default_rng(seed), ReferenceEvaluator(onnx.load(path))
        drawn = [self.draw(rng) for _ in range(CASES)]
        names = evaluator.output_names
        return tuple(
            Case(
                inputs, dict(zip(names, map(np.asarray, evaluator.run(None, inputs)), strict=True))
            )
            for inputs in drawn
        )


def layers() -> onnx.ModelProto:
    """A product with two open dimensions."""
    weights = ", ".join(f"{0.1 * ((7 * i) % 11) - 0.5:.1f}" for i in range(32))
    return model_of(
        "layers (float[batch, seq, 8] x, float[batch, 1, 8] shift) => (float[batch, seq, 4] y)\n"
        f"<float[8, 4] w = {{{weights}}}> {{\n"
        "    moved = Add (x, shift)\n    h = MatMul (moved, w)\n    y = Relu (h)\n}"
    )


def counted() -> onnx.ModelProto:
    """A loop that its body may end."""
    return model_of(COUNTED)


def growing() -> onnx.ModelProto:
    """A loop that adds rows."""
    return model_of(GROWING)


def decoder() -> onnx.ModelProto:
    """A small GPT-2 whose cache of keys and values has an open length."""
    return gpt2_decoder(width=32, heads=2, layers=1, vocabulary=50, context=64)


def _dense(**shapes: tuple[int, ...]) -> Draw:
    return lambda rng: {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


def _layers_inputs(rng: np.random.Generator) -> Arrays:
    batch, seq = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    return _dense(x=(batch, seq, 8), shift=(batch, 1, 8))(rng)


def _counted_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "trips": np.array(rng.integers(1, 6), np.int64),
        "go": np.array(True),
        "x": rng.standard_normal(6).astype(np.float32),
        "limit": np.array(1e6, np.float32),
    }


def _growing_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "trips": np.array(rng.integers(1, 4), np.int64),
        "x": rng.standard_normal((1, 3)).astype(np.float32),
    }


def _decoder_inputs(rng: np.random.Generator) -> Arrays:
    past = int(rng.integers(1, 12))
    cache = _dense(**{f"past_key_values.0.{x}": (1, 2, past, 16) for x in ("key", "value")})(rng)
    return {
        "input_ids": rng.integers(0, 50, (1, 1)),
        "position_ids": np.full((1, 1), past),
        "attention_mask": np.ones((1, past + 1), np.int64),
        **cache,
    }


def _unet() -> onnx.ModelProto:
    return unet(side=32, channels=16, levels=2)


def _block() -> onnx.ModelProto:
    return transformer_block(tokens=24, width=48)


def _mlp() -> onnx.ModelProto:
    return mlp(batch=8, widths=(64, 96, 32))


def _small_mlp() -> onnx.ModelProto:
    return mlp(batch=3, widths=(9, 8, 7))


def _chain() -> onnx.ModelProto:
    return norm_gelu(tokens=5, width=11)


_IMAGE, _TOKENS = _dense(x=(1, 1, 32, 32)), _dense(x=(1, 24, 48))
WORKLOADS = (
    Workload("block-learning", _block, _TOKENS, "cpu", online=True, unfused=True),
    Workload("block-swapped", _block, _TOKENS, "cpu:1"),
    Workload("unet-close", _unet, _IMAGE, "cpu", online=True, accuracy=Accuracy.CLOSE),
    Workload("mlp-fast", _mlp, _dense(x=(8, 64)), "cpu:1", accuracy=Accuracy.FAST),
    Workload("layers-learning", layers, _layers_inputs, "cpu:1", online=True),
    Workload("decoder", decoder, _decoder_inputs, "cpu"),
    Workload("counted", counted, _counted_inputs, "cpu:1"),
    Workload("growing", growing, _growing_inputs, "cpu:1"),
    Workload("edge-mlp-learning", _small_mlp, _dense(x=(3, 9)), "edge", online=True),
    Workload(
        "edge-chain-learning", _chain, _dense(x=(1, 5, 11)), "edge", online=True, unfused=True
    ),
    Workload("edge-mlp-swapped", _small_mlp, _dense(x=(3, 9)), "edge"),
    Workload("edge-layers", layers, _layers_inputs, "edge"),
    Workload("edge-counted", counted, _counted_inputs, "edge"),
)
"""Served all at once."""
