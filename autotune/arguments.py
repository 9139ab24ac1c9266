"""Checks of public arguments: a wrong type is told by name, before a library's own error does."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autotune.errors import InputError


def path_of(value: Path | str, what: str) -> Path:
    """Return a path. Raises ``InputError`` for what is neither a path nor a text."""
    if isinstance(value, (str, Path)):
        return Path(value)
    raise InputError(f"{what} is a path, not {type(value).__name__}: {value!r:.60}")


def integer_of(value: int, what: str, least: int | None = None) -> int:
    """Return a whole number, of at least ``least``. Raises ``InputError`` for anything else."""
    try:
        found = operator.index(value)
    except TypeError:
        raise InputError(
            f"{what} is a whole number, not {type(value).__name__}: {value!r:.60}"
        ) from None
    if least is not None and found < least:
        raise InputError(f"{what} = {found}: give {least} or more")
    return found


def seconds_of(value: float | None, what: str) -> float | None:
    """Return seconds above 0, or None for None. Raises ``InputError`` for anything else."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError(f"{what} is {value!r:.60}; give seconds above 0, or leave it out")
    return float(value)


def mapping_of(value: Mapping[str, Any] | None, what: str, items: str) -> Mapping[str, Any]:
    """Return a mapping by name, an empty one for None. Raises ``InputError`` for anything else;
    ``items`` says what it maps."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return value
    raise InputError(f"{what} maps {items}, got {type(value).__name__}: {value!r:.60}")


def dims_of_texts(texts: Iterable[str], what: str) -> dict[str, int]:
    """Return dimensions given as ``NAME=INT``. Raises ``InputError`` naming ``what`` they were given as."""
    extents: dict[str, int] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if not name or not value.isdigit() or int(value) < 1:
            raise InputError(
                f"{what} {text!r} is not NAME=INT with INT ≥ 1, such as {what} batch=1"
            )
        if extents.setdefault(name, int(value)) != int(value):
            raise InputError(
                f"{what} {name}: given as {extents[name]} and as {value}; give it once"
            )
    return extents


def dims_of(value: Mapping[str, int] | None) -> dict[str, int]:
    """Return bound dimensions. Raises ``InputError`` for what is no mapping of names to whole
    numbers."""
    given = mapping_of(value, "dims", "names of dimensions to extents, such as {'batch': 1}")
    return {name: integer_of(extent, f"dims[{name!r}]") for name, extent in given.items()}
