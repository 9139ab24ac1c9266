"""Open dimensions of a model: their extents in the arrays of a run, and inputs at other extents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.frontend.source_model import Declaration, SourceModel
from autotune.operators.tensor import NUMPY
from autotune.runtime.execution.values import AnyArray

_TERM = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Total:
    """The extent of an axis as a sum: open dimensions, and a number."""

    symbols: tuple[str, ...]
    number: int

    @classmethod
    def parse(cls, name: str) -> Total:
        """Read a dimension's name as exporters write it: ``past_sequence_length + 1``. A name that is
        no sum stands for itself."""
        terms = [term.strip() for term in name.split("+")]
        if not all(_TERM.fullmatch(term) for term in terms):
            return cls((name,), 0)
        numbers = [int(term) for term in terms if term.isdecimal()]
        return cls(tuple(term for term in terms if not term.isdecimal()), sum(numbers))

    def with_(self, bound: Mapping[str, int]) -> Total:
        """Return the sum with numbers for the symbols that are ``bound``."""
        known = sum(bound[x] for x in self.symbols if x in bound)
        return Total(tuple(x for x in self.symbols if x not in bound), self.number + known)

    def extent(self, extents: Mapping[str, int]) -> int:
        """Return the sum. Raises ``KeyError`` for an unknown symbol."""
        return sum(extents[x] for x in self.symbols) + self.number


@dataclass(frozen=True, slots=True)
class Frame:
    """What inputs of one kind are declared as: their extents, 0 for open ones, and the sums that these are."""

    shape: tuple[int, ...]
    totals: tuple[tuple[int, Total], ...]

    def takes(self, shape: tuple[int, ...], found: dict[str, int]) -> bool:
        """Return True if an array's shape fits; add to ``found`` the extents that it gives dimensions."""
        if len(shape) != len(self.shape):
            return False
        if any(n and n != m for n, m in zip(self.shape, shape, strict=True)):
            return False
        for axis, total in self.totals:
            is_plain = len(total.symbols) == 1 and not total.number
            if is_plain and found.setdefault(total.symbols[0], shape[axis]) != shape[axis]:
                return False
        return True

    def adds_up(self, shape: tuple[int, ...], found: Mapping[str, int]) -> bool:
        """Return True if open extents of an array are the sums that they are declared as."""
        return all(shape[axis] == total.extent(found) for axis, total in self.totals)


class OpenDims:
    """The open dimensions of a model all of whose inputs are tensors of known rank and type."""

    def __init__(self, inputs: tuple[Declaration, ...], bound: Mapping[str, int]) -> None:
        self._inputs = inputs
        self._totals = {
            value.name: {
                axis: Total.parse(name).with_(bound) for axis, name in value.open_axes.items()
            }
            for value in inputs
        }
        self._frames = self._framed()
        totals = [total for axes in self._totals.values() for total in axes.values()]
        alone = {t.symbols[0] for t in totals if len(t.symbols) == 1 and not t.number}
        self.symbols: tuple[str, ...] = tuple(
            sorted({x for total in totals for x in total.symbols} & alone)
        )
        self.is_closed_under_sums = all(set(t.symbols) <= alone for t in totals)

    @classmethod
    def of(cls, model: SourceModel, bound: Mapping[str, int] | None = None) -> OpenDims | None:
        """Return the open dimensions of a model in which others were ``bound``; None if it has none,
        or other inputs than tensors of known rank and type."""
        plain = all(
            value.is_tensor and value.shape is not None and value.numpy_dtype is not None
            for value in model.inputs
        )
        found = cls(model.inputs, bound or {}) if plain else None
        return found if found and found.symbols and found.is_closed_under_sums else None

    def _framed(self) -> tuple[tuple[tuple[str, ...], np.dtype[Any] | None, Frame], ...]:
        """Return the inputs that are declared alike, with their type."""
        found: dict[tuple[np.dtype[Any] | None, Frame], list[str]] = {}
        for value in self._inputs:
            totals = self._totals[value.name]
            shape = (0 if a in totals else int(n or 0) for a, n in enumerate(value.shape or ()))
            frame = Frame(tuple(shape), tuple(totals.items()))
            dtype = value.numpy_dtype if value.dtype is None else NUMPY[value.dtype]
            found.setdefault((dtype, frame), []).append(value.name)
        return tuple((tuple(names), dtype, frame) for (dtype, frame), names in found.items())

    @property
    def cache(self) -> str | None:
        """The dimension that a decoder's cache grows in: part of a sum (``past + sequence``), and an
        axis of floating-point inputs; None where there is no such dimension, or are several."""
        totals = [total for axes in self._totals.values() for total in axes.values()]
        added = {x for total in totals if len(total.symbols) > 1 for x in total.symbols}
        cached = {
            x
            for value in self._inputs
            if value.numpy_dtype is not None and value.numpy_dtype.kind == "f"
            for total in self._totals[value.name].values()
            for x in total.symbols
        }
        found = added & cached & set(self.symbols)
        return found.pop() if len(found) == 1 else None

    def extents(self, inputs: Mapping[str, object]) -> dict[str, int] | None:
        """Return the extent of every open dimension in the arrays of a run; None for what the declared inputs do not
        take, and where a sum is none of these extents."""
        if inputs.keys() != self._totals.keys():
            return None
        found: dict[str, int] = {}
        sums: list[tuple[Frame, tuple[int, ...]]] = []
        for names, dtype, frame in self._frames:
            shape = None
            for name in names:  # few calls: a decoder has an input for each layer's keys and values
                value = inputs[name]
                if not isinstance(value, np.ndarray) or value.dtype != dtype:
                    return None
                if value.shape != shape:
                    shape = value.shape
                    sums.append((frame, shape))
                    if not frame.takes(shape, found):
                        return None
        return found if all(frame.adds_up(shape, found) for frame, shape in sums) else None

    def placeholders(self, extents: Mapping[str, int]) -> dict[str, AnyArray]:
        """Return arrays for the inputs at other extents, which take no memory."""
        return {
            value.name: np.broadcast_to(
                np.zeros((), value.numpy_dtype), self._shape(value, extents)
            )
            for value in self._inputs
        }

    def _shape(self, value: Declaration, extents: Mapping[str, int]) -> tuple[int, ...]:
        totals = self._totals[value.name]
        return tuple(
            totals[axis].extent(extents) if axis in totals else int(extent or 0)
            for axis, extent in enumerate(value.shape or ())
        )
