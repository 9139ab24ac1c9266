"""Arrays that ``autotune run`` feeds, saves and compares. Apart, as NumPy takes longer to import than all
else that a command needs to say how it is used."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.graph.graph import Array, Graph
from autotune.graph.tensor import NUMPY, TensorType

RTOL, ATOL = 1e-3, 1e-5


def read_inputs(path: Path) -> dict[str, Array]:
    """Arrays of an NPZ file. Raises ``InputError`` for anything else."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise InputError(
            f"{path}: not an NPZ file of arrays ({error}); write it with numpy.savez"
        ) from None


def default_inputs(graph: Graph, seed: int) -> dict[str, npt.NDArray[Any]]:
    """The inputs that ship with one of ONNX's light networks (their uniform weights make anything
    else ill-conditioned); standard normal arrays for every other network."""
    shipped = _shipped(graph)
    if shipped is not None:
        return dict(shipped[0])
    rng = np.random.default_rng(seed)
    return {x: _drawn(graph.types[x], rng) for x in graph.inputs}


def _drawn(kind: TensorType, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Standard normal numbers; integers and booleans are 0 or 1, which every look-up has."""
    if kind.dtype.is_float:
        normal = rng.standard_normal(kind.shape, dtype=np.float32)
        return np.asarray(normal.astype(NUMPY[kind.dtype], copy=False))
    return np.asarray(rng.integers(0, 2, kind.shape).astype(NUMPY[kind.dtype]))


def _shipped(graph: Graph) -> tuple[dict[str, Array], dict[str, Array]] | None:
    """Inputs and expected outputs that the onnx package ships for a light network."""
    from autotune.datasets import LIGHT_MODELS, light_expected

    if graph.name not in LIGHT_MODELS:
        return None
    inputs, outputs = light_expected(graph.name)
    same = {x: value.shape for x, value in inputs.items()} == {
        x: graph.shape(x) for x in graph.inputs
    }
    return (inputs, outputs) if same else None


def save(path: Path, outputs: dict[str, Array]) -> None:
    """Write the outputs as NPZ, whole or not at all."""
    part = path.with_name(f".{path.name}.part.npz")
    np.savez(part, allow_pickle=False, **outputs)
    part.replace(path)


def compare(
    graph: Graph, feeds: dict[str, Array], outputs: dict[str, Array]
) -> dict[str, tuple[float, bool]]:
    """Per output: largest difference from the reference, and whether it is within tolerance; for a
    light network on its shipped inputs, the same against the shipped outputs."""
    from autotune.graph.reference import evaluate

    wanted = dict(evaluate(graph, feeds))
    shipped = _shipped(graph)
    if shipped is not None and all(np.array_equal(feeds[x], v) for x, v in shipped[0].items()):
        wanted |= {f"{name} (shipped)": value for name, value in shipped[1].items()}
    return {
        name: _difference(outputs[name.removesuffix(" (shipped)")], value)
        for name, value in wanted.items()
    }


def _difference(output: Array, wanted: Array) -> tuple[float, bool]:
    given = output.reshape(wanted.shape)
    close = bool(np.allclose(given, wanted, rtol=RTOL, atol=ATOL))
    return float(np.abs(given - wanted).max()), close
