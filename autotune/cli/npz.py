"""NPZ files of arrays: the inputs that ``autotune run`` reads and the outputs that it writes."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.disk.array_file import read_arrays
from autotune.disk.atomic_file import FileKind, replacing
from autotune.errors import InputError
from autotune.operators.tensor import Array

KIND = FileKind("NPZ file", (b"pk",))
_SEPARATOR = re.compile(r"[/\\\0]|^[A-Za-z]:(?=[/\\])")


def read_inputs(path: Path) -> dict[str, Array]:
    """Return the arrays of an NPZ file by name. Raises ``InputError`` for any other file."""
    return read_arrays(path)


def write_outputs(path: Path, outputs: dict[str, Array]) -> None:
    """Write the outputs as NPZ, whole or not at all.

    Element types that NumPy lacks become float32; an input of such a type accepts them again. Raises
    ``InputError`` for a sequence and for a place that cannot hold the file, ``OSError`` when writing fails.
    """
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
    """Return names that no reader of an archive takes for a path outside of its folder.

    A safe name of a tensor stays. The parts of any other are joined by ``_``; a number tells equal ones
    apart.
    """
    members: list[str] = []
    for name in names:
        parts = _SEPARATOR.split(name)
        safe = [part for part in parts if part.strip(". ")]
        base = name if len(safe) == len(parts) else "_".join(safe) or "output"
        unique, count = base, 1
        while unique in members:
            count += 1
            unique = f"{base}_{count}"
        members.append(unique)
    return members


def _storable(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return value if value.dtype.isbuiltin == 1 else np.asarray(value.astype(np.float32))
