"""Reads pickled objects of named types only: files of a cache never make anything else."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any


def read_typed(content: bytes, types: Iterable[type]) -> object | None:
    """Return the object in ``content``; None if it is no pickle, or needs another type than ``types``.

    Numbers, texts and containers are always allowed.
    """
    try:
        found: object = _Reader(content, types).load()
    except pickle.UnpicklingError:
        return None
    return found


class _Reader(pickle.Unpickler):
    """Unpickler that makes objects of the given types only."""

    def __init__(self, content: bytes, types: Iterable[type]) -> None:
        super().__init__(io.BytesIO(content))
        self._by_name = {(one.__module__, one.__qualname__): one for one in types}

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the types. Raises ``UnpicklingError`` for every other name."""
        try:
            return self._by_name[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an entry") from None
