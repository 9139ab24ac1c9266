"""Reads NPY and NPZ files of arrays; nothing in them is unpickled."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.disk.regular_file import open_regular
from autotune.errors import InputError

UNNAMED = ""
"""Name of the array in an NPY file."""
_UNREADABLE = (
    *(ValueError, EOFError, AttributeError, KeyError, MemoryError, NotImplementedError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error),
)
"""Errors of NumPy and zipfile for damaged, encrypted or foreign archives."""


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an NPZ file by name. Raises ``InputError`` for any other file."""
    arrays = read_array_file(path, "an NPZ file of arrays", "numpy.savez")
    if UNNAMED in arrays:
        raise _refusal(
            path, "an NPZ file of arrays", "numpy.savez", "it holds one array without a name"
        )
    return arrays


def read_array_file(path: Path, what: str, writer: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an NPZ file by name, or the one of an NPY file under ``UNNAMED``.

    ``what`` and ``writer`` say in the message which file is wanted, and how it is written. Raises
    ``InputError`` for any other file, ``OSError`` for one that cannot be opened.
    """
    try:
        with open_regular(path) as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                return {UNNAMED: np.asarray(content)}
            return {name: content[name] for name in content.files}
    except OSError as error:
        if error.filename is not None:  # else a place beyond the archive
            raise
        raise _refusal(path, what, writer, error) from None
    except _UNREADABLE as error:
        raise _refusal(path, what, writer, error) from None


def _refusal(path: Path, what: str, writer: str, reason: object) -> InputError:
    return InputError(f"{path}: not {what} ({reason}); write it with {writer}")
