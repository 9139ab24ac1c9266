"""The user's inputs as runs of a network: read, checked, and parted into calibration and held-out runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.disk.array_file import UNNAMED, read_array_file
from autotune.errors import InputError
from autotune.frontend.source_model import Declaration

Run = dict[str, npt.NDArray[Any]]
"""Arrays of one run by input name."""
_WANTED = "an NPY or NPZ file of arrays", "numpy.save or numpy.savez"
_SUFFIXES = (".npy", ".npz")


@dataclass(frozen=True, slots=True)
class Samples:
    """Runs to calibrate with, and others that only judge the result; ``unused`` were beyond the limit."""

    calibration: tuple[Run, ...]
    held_out: tuple[Run, ...]
    unused: int = 0


def read_samples(
    path: Path,
    inputs: Sequence[Declaration],
    held_out: float,
    most: int,
    rng: np.random.Generator,
) -> Samples:
    """Read the runs of a folder of NPY and NPZ files, or of one such file.

    An array with one axis more than its input counts runs along it. A first axis that is a multiple of a
    fixed extent holds so many runs. Where the extent is open, a file of a folder is one run, and one
    file holds a run per row. At most ``most`` runs are used; the fraction ``held_out`` of them, at least
    one, is held out, both drawn by ``rng``. Raises ``InputError`` for what fits no run of the network, for numbers
    that are not finite, and for less than two runs.
    """
    files = _files(path)
    if not files:
        raise InputError(f"{path}: holds no .npy and no .npz file; put inputs of the network there")
    drawn = sorted(rng.permutation(len(files))[:most].tolist())  # every file holds at least one run
    unused = len(files) - len(drawn)
    runs = [
        run for i in drawn for run in _runs_of_file(files[i], inputs, by_rows=not path.is_dir())
    ]
    order = rng.permutation(len(runs)).tolist()
    if len(runs) < 2:
        raise InputError(
            f"{path}: holds {len(runs)} run of the network; give two or more, as some are held out to judge the result"
        )
    kept = order[:most]
    unused += len(order) - len(kept)
    count = min(len(kept) - 1, max(1, round(held_out * len(kept))))
    judged, used = sorted(kept[:count]), sorted(kept[count:])
    return Samples(tuple(runs[i] for i in used), tuple(runs[i] for i in judged), unused)


def _files(path: Path) -> list[Path]:
    """Return the file itself, or the array files of a folder in order of their names."""
    if not path.is_dir():
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder; give inputs of the network")
        return [path]
    return sorted(x for x in path.iterdir() if x.suffix in _SUFFIXES)


def _runs_of_file(path: Path, inputs: Sequence[Declaration], by_rows: bool) -> list[Run]:
    arrays = _named(path, read_array_file(path, *_WANTED), inputs)
    columns = {x.name: _runs_of_array(path, arrays[x.name], x, by_rows) for x in inputs}
    counts = {name: len(values) for name, values in columns.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise InputError(f"{path}: holds {told}; give as many of every input")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _named(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], inputs: Sequence[Declaration]
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays by input; one array alone belongs to one input alone."""
    names = [x.name for x in inputs]
    if len(arrays) == 1 == len(names):
        return {names[0]: next(iter(arrays.values()))}
    if UNNAMED in arrays:
        raise InputError(
            f"{path}: holds one array, and the network has the inputs {', '.join(names)}; write an NPZ file with them"
        )
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(
            f"{path}: lacks the inputs {', '.join(missing)}; it holds {', '.join(arrays) or 'nothing'}"
        )
    unknown = [name for name in arrays if name not in names]
    if unknown:
        raise InputError(
            f"{path}: {', '.join(unknown)} are no inputs of the network, which has {', '.join(names)}"
        )
    return dict(arrays)


def _runs_of_array(
    path: Path, array: npt.NDArray[Any], declared: Declaration, by_rows: bool
) -> list[npt.NDArray[Any]]:
    """Cut an array into runs of an input."""
    values = _converted(path, array, declared)
    shape = declared.shape
    if shape is None:
        return [values]
    if values.ndim == len(shape) + 1 and _fits(values.shape[1:], shape):
        return list(values)
    if values.ndim == len(shape) and _fits(values.shape[1:], shape[1:]):
        if not shape:
            return [values]
        rows = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else None
        step = rows or (1 if by_rows else max(1, len(values)))
        if len(values) % step == 0:
            return [values[i : i + step] for i in range(0, len(values), step)]
    extents = ", ".join("?" if x is None else str(x) for x in shape)
    raise InputError(
        f"{path}: {declared.name!r} has shape {list(array.shape)}, which is no run and no stack of runs of [{extents}]"
    )


def _fits(extents: tuple[int, ...], shape: tuple[int | str | None, ...]) -> bool:
    return len(extents) == len(shape) and all(
        not isinstance(wanted, int) or wanted < 1 or wanted == extent
        for extent, wanted in zip(extents, shape, strict=True)
    )


def _converted(path: Path, array: npt.NDArray[Any], declared: Declaration) -> npt.NDArray[Any]:
    """Return the array in the input's element type; only a change of width is made."""
    place = f"{path}: {declared.name!r}"
    wanted = declared.numpy_dtype
    if not declared.is_tensor or wanted is None:
        raise InputError(f"{place} is {declared.type}; arrays feed tensors only")
    if array.size == 0:
        raise InputError(f"{place} is empty: shape {list(array.shape)}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{place} holds NaN or infinity; leave such runs out")
    same_kind = array.dtype.kind == wanted.kind or {array.dtype.kind, wanted.kind} <= {"i", "u"}
    if not same_kind:
        raise InputError(
            f"{place} holds {array.dtype}, the network takes {wanted}; prepare it as for a run"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(wanted)
    if wanted.kind in "iu" and not np.array_equal(converted, array):
        raise InputError(f"{place} holds numbers beyond {wanted}")
    if wanted.kind == "f" and not np.isfinite(converted).all():
        raise InputError(f"{place} holds numbers beyond {wanted}")
    return converted
