"""Arrays that ``autotune run`` feeds, saves and compares. Apart, as NumPy takes longer to import than all
else that a command needs to say how it is used."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autotune.disk.atomic_file import FileKind, replacing
from autotune.disk.regular_file import open_regular
from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.graph.index_limits import index_limits
from autotune.operators.tensor import NUMPY, Array, DType

RTOL, ATOL = 1e-3, 1e-5
_UNREADABLE = (
    *(ValueError, EOFError, AttributeError, KeyError, MemoryError, NotImplementedError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error),
)
"""All that NumPy and zipfile raise for damaged, encrypted or foreign archives."""
KIND = FileKind("NPZ file", (b"pk",))
_SEPARATOR = re.compile(r"[/\\\0]|^[A-Za-z]:(?=[/\\])")


def read_inputs(path: Path) -> dict[str, Array]:
    """Arrays of an NPZ file. Raises ``InputError`` for anything else."""
    try:
        with open_regular(path) as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without a name")
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        if error.filename is not None:  # else a place beyond the archive
            raise
        raise _not_arrays(path, error) from None
    except _UNREADABLE as error:
        raise _not_arrays(path, error) from None


def _not_arrays(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: not an NPZ file of arrays ({error}); write it with numpy.savez")


def default_inputs(graph: Graph, seed: int) -> dict[str, npt.NDArray[Any]]:
    """The inputs that ship with one of ONNX's light networks (their uniform weights make anything
    else ill-conditioned); standard normal arrays, and legal indices, for every other network."""
    shipped = _shipped(graph)
    if shipped is not None:
        return dict(shipped[0])
    from autotune.runtime.session.exploration import drawn

    rng = np.random.default_rng(seed)
    given = {x: drawn(graph.types[x], rng) for x in graph.inputs}
    for limit in index_limits(graph):
        if limit.extents.min() < 2:  # drawn are 0 and 1
            given[limit.input] = np.zeros_like(given[limit.input])
    return given


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
    """Write the outputs as NPZ, whole or not at all; element types that NumPy lacks become float32, which an
    input of such a type takes again. Raises ``InputError`` for a sequence and for a place that cannot
    hold the file, ``OSError`` when writing fails."""
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray):
            raise InputError(
                f"{path}: output {name!r} is a sequence; an NPZ file holds arrays only"
            )
    with replacing(path, KIND) as file, zipfile.ZipFile(file, "w") as archive:
        for name, value in zip(member_names(outputs), outputs.values(), strict=True):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(value), allow_pickle=False)


def member_names(names: Iterable[str]) -> list[str]:
    """Names in an archive that no reader takes for a path outside of its folder: the tensors' own where
    they are safe, else their parts joined by ``_``, numbered where two would be one."""
    found: list[str] = []
    for name in names:
        parts = _SEPARATOR.split(name)
        safe = [part for part in parts if part.strip(". ")]
        base = name if len(safe) == len(parts) else "_".join(safe) or "output"
        unique, count = base, 1
        while unique in found:
            count += 1
            unique = f"{base}_{count}"
        found.append(unique)
    return found


def _storable(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return value if value.dtype.isbuiltin == 1 else np.asarray(value.astype(np.float32))


def compare(
    graph: Graph, feeds: dict[str, Array], outputs: dict[str, npt.NDArray[Any]]
) -> dict[str, tuple[float, bool]]:
    """Per output: largest difference from the reference, which enters and leaves as the run does, and
    whether it is within tolerance; for a light network on its shipped inputs, the same against the
    shipped outputs."""
    from autotune.graph.evaluation import evaluate
    from autotune.runtime.execution.io_adapter import IoAdapter

    adapter = IoAdapter(graph)
    wanted = adapter.from_float32(evaluate(graph, adapter.to_float32(feeds)))
    shipped = _shipped(graph)
    if shipped is not None and all(np.array_equal(feeds[x], v) for x, v in shipped[0].items()):
        wanted |= {f"{name} (shipped)": value for name, value in shipped[1].items()}
    return {
        name: difference(outputs[name.removesuffix(" (shipped)")], value)
        for name, value in wanted.items()
    }


def difference(output: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> tuple[float, bool]:
    """The largest difference of arrays of one size, and whether it is within tolerance: in float64,
    which tells integers and booleans apart as they are. Equal infinities and NaNs do not differ. Narrow floats may be one step
    further apart than others: close numbers may round to neighbours."""
    given = np.asarray(output.reshape(wanted.shape), np.float64)
    exact = np.asarray(wanted, np.float64)
    close = bool(np.allclose(given, exact, RTOL + _step(wanted.dtype), ATOL, equal_nan=True))
    with np.errstate(invalid="ignore"):
        apart = np.abs(given - exact)
    same = (given == exact) | (np.isnan(given) & np.isnan(exact))
    return float(np.where(same, 0.0, apart).max(initial=0.0)), close


def _step(dtype: np.dtype[Any]) -> float:
    """From 1 to the next number of a float narrower than float32."""
    named = {NUMPY[kind]: kind for kind in DType}.get(dtype, DType.FLOAT32)
    if not named.is_float or named is DType.FLOAT32:
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps)
