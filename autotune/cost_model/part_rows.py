"""Measured programs beside the parts that each is made of, as columns: the form of every training set."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = object

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class PartRows(DataclassInstance):
    """``r`` measurements and the ``n`` parts of all (n ≥ r); every subclass is a frozen dataclass.

    Its arrays have a row for each part where ``PER_PART`` names them, else for each measurement. ``owner`` [n] is the
    measurement of a part, ``keys`` [r] name the measured groups.
    """

    __slots__ = ()

    PER_PART: ClassVar[tuple[str, ...]]
    owner: Ints
    keys: npt.NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.keys)

    def summed(self, per_part: Floats) -> Floats:
        """Sum a quantity of parts [n] over those of each measurement [r]."""
        return np.bincount(self.owner, per_part, len(self)).astype(np.float64)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the ``chosen`` measurements [r] with their parts."""
        parts = chosen[self.owner]
        columns: dict[str, Any] = {"owner": (np.cumsum(chosen) - 1)[self.owner[parts]]}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in columns and isinstance(value, np.ndarray):
                columns[field.name] = value[parts if field.name in self.PER_PART else chosen]
        return replace(self, **columns)
