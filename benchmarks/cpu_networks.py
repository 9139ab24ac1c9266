"""The networks of `cpu.py`: files with random weights, normal inputs, and the work they hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from autotune.datasets import NETWORKS, light_seeded
from autotune.frontend.importing import translate
from autotune.graph.work import multiply_adds
from autotune.operators.tensor import NUMPY, TensorType

SYNTHETIC = ("attention", "norm_gelu", "elementwise")
"""Single operators and chains: timed, but in no mean."""
NAMES: tuple[str, ...] = (*(name for name in NETWORKS if name not in SYNTHETIC), *SYNTHETIC)
"""In the order they are measured: all shipped networks."""

SEED = 0
ROWS = 64
"""Rows that every table of the shipped networks has at least."""


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
    np.savez(inputs, **{x: _drawn(rng, graph.types[x]) for x in graph.inputs})  # type: ignore[arg-type]
    return NetworkCase(name, network, inputs, sum(multiply_adds(op, graph) for op in graph.ops))


def _drawn(rng: np.random.Generator, kind: TensorType) -> npt.NDArray[np.generic]:
    """Normal values; numbers of rows for integers, which index tables."""
    if kind.dtype.is_integer:
        return rng.integers(0, ROWS, kind.shape).astype(NUMPY[kind.dtype])
    return rng.standard_normal(kind.shape, dtype=np.float32)
