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
from autotune.operators.tensor import NUMPY, Array, DType
from autotune.runtime.execution.signature import TensorInfo

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


def shipped_arrays(
    network: str, inputs: Iterable[TensorInfo]
) -> tuple[dict[str, Array], dict[str, Array]] | None:
    """Return inputs and expected outputs that the onnx package ships for a light network; None for
    other networks and for other ``inputs``."""
    from autotune.datasets import LIGHT_MODELS, light_expected

    if network not in LIGHT_MODELS:
        return None
    arrays, outputs = light_expected(network)
    same = {x: value.shape for x, value in arrays.items()} == {x.name: x.shape for x in inputs}
    return (arrays, outputs) if same else None


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
