"""Kernel variants (tile emitters) and the micro-kernels that instructions execute; compiled."""

from importlib.machinery import EXTENSION_SUFFIXES as _SUFFIXES
from pathlib import Path as _Path

_HERE = _Path(__file__).parent
if not any(path.name.endswith(tuple(_SUFFIXES)) for path in _HERE.glob("*/*")):
    raise ImportError(
        f"{_HERE.resolve()}: sources without compiled kernels, which hide an installed autotune; "
        "run Python in another folder, or install by 'pip install -e .' there"
    )
