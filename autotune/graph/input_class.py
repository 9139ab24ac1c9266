"""Classes of inputs: what all arrays of an input have in common, and the exact check of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from autotune.errors import InputError
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array

CHUNK = 1 << 14
"""Elements that are checked at once: they stay in the first cache, and a difference ends the check."""
_ONES = np.ones(CHUNK, np.float32).tobytes()


class InputClass(Protocol):
    """A set of arrays for one input of a network. Arrays are float32, C-contiguous and of its shape."""

    @property
    def text(self) -> str:
        """The class in a few words, behind the name of the input."""
        ...

    def holds(self, value: Array) -> bool:
        """Return True if an array is of the class; never for one that is not."""
        ...

    def constant(self, shape: tuple[int, ...]) -> Array | None:
        """Return the only array of the class; None if it has several. Raises ``InputError`` for a
        shape that no array of the class has."""
        ...

    @property
    def interval(self) -> Interval:
        """Bounds of all numbers of the class."""
        ...

    def draw(self, value: Array) -> Array:
        """Return an array of the class that is near to ``value``."""
        ...


@dataclass(frozen=True, slots=True)
class AllEqual:
    """Every element is ``value``, with its sign where that is 0."""

    value: float
    _content: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not np.isfinite(np.float32(self.value)):
            raise InputError(f"a class of inputs that are all {self.value}; give a finite number")
        object.__setattr__(self, "_content", np.full(CHUNK, self.value, np.float32).tobytes())

    @property
    def text(self) -> str:
        """The class in a few words."""
        return f"all {self.value:g}"

    def holds(self, value: Array) -> bool:
        """Compare bits: −0 is not 0, and a NaN is no number."""
        flat, wanted = value.reshape(-1), self._content
        if flat.size <= CHUNK:
            return flat.tobytes() == wanted[: 4 * flat.size]
        return all(
            flat[at : at + CHUNK].tobytes() == wanted[: 4 * min(CHUNK, flat.size - at)]
            for at in range(0, flat.size, CHUNK)
        )

    def constant(self, shape: tuple[int, ...]) -> Array | None:
        """Return the filled array."""
        return np.full(shape, self.value, np.float32)

    @property
    def interval(self) -> Interval:
        """Return the number alone."""
        return Interval(float(np.float32(self.value)), float(np.float32(self.value)))

    def draw(self, value: Array) -> Array:
        """Return the filled array."""
        return np.full_like(value, self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Equal:
    """The array is ``value``, bit by bit."""

    value: Array
    _content: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fixed = np.array(self.value, np.float32, order="C")
        fixed.setflags(write=False)
        object.__setattr__(self, "value", fixed)
        object.__setattr__(self, "_content", fixed.tobytes())

    @property
    def text(self) -> str:
        """The class in a few words."""
        return f"one array {list(self.value.shape)}"

    def holds(self, value: Array) -> bool:
        """Compare bits."""
        if value.shape != self.value.shape:
            return False
        flat = value.reshape(-1)
        return all(
            flat[at : at + CHUNK].tobytes() == self._content[4 * at : 4 * (at + CHUNK)]
            for at in range(0, flat.size, CHUNK)
        )

    def constant(self, shape: tuple[int, ...]) -> Array | None:
        """Return the array."""
        if shape != self.value.shape:
            raise InputError(
                f"the assumed array has shape {list(self.value.shape)}, expected {list(shape)}"
            )
        return self.value

    @property
    def interval(self) -> Interval:
        """Return the least and the largest number."""
        return Interval(float(self.value.min()), float(self.value.max()))

    def draw(self, value: Array) -> Array:
        """Return the array."""
        return self.value


@dataclass(frozen=True, slots=True)
class Between:
    """Every element is a number from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InputError(
                f"a class of inputs from {self.low} to {self.high} has no numbers; give the least first"
            )

    @property
    def text(self) -> str:
        """The class in a few words."""
        return f"{self.low:g} to {self.high:g}"

    def holds(self, value: Array) -> bool:
        """Compare the extremes: NaN is less and greater than nothing."""
        flat = value.reshape(-1)
        for at in range(0, flat.size, CHUNK):
            part = flat[at : at + CHUNK]
            if not (self.low <= part.min() and part.max() <= self.high):
                return False
        return True

    def constant(self, shape: tuple[int, ...]) -> Array | None:
        """Return None: it has more than one array."""
        return None

    @property
    def interval(self) -> Interval:
        """Return the bounds."""
        return Interval(self.low, self.high)

    def draw(self, value: Array) -> Array:
        """Return the array with all its numbers moved between the bounds."""
        return np.clip(value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Padded:
    """A mask of numbers from 0 to 1 along the last axis: the first is 1, and from ``length`` on all are 0."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InputError(f"a mask that is padded from {self.length} on; give 1 or more")

    @property
    def text(self) -> str:
        """The class in a few words."""
        return f"padded from {self.length} on"

    def holds(self, value: Array) -> bool:
        """Look at the first element, at the end, and at the extremes; NaN fails all of them."""
        if not value.ndim or not value.size:
            return False
        if value.size <= CHUNK and self._is_plain(value):
            return True
        rows = value.reshape(-1, value.shape[-1])
        if rows[:, self.length :].any() or not (rows[:, 0] == 1).all():
            return False
        return bool(rows.min() >= 0 and rows.max() <= 1)

    def _is_plain(self, value: Array) -> bool:
        """Return True if every row is ones, one at least, and then zeros: the usual mask, seen by its bytes alone."""
        content, width = value.tobytes(), 4 * value.shape[-1]
        for at in range(0, len(content), width):
            shown = content[at : at + width].rstrip(b"\0")
            if not 0 < len(shown) <= 4 * self.length or shown != _ONES[: len(shown)]:
                return False
        return True

    def constant(self, shape: tuple[int, ...]) -> Array | None:
        """Return None: it has more than one array."""
        return None

    @property
    def interval(self) -> Interval:
        """Return the bounds of a mask."""
        return Interval(0.0, 1.0)

    def draw(self, value: Array) -> Array:
        """Return the mask that hides all places from the length on."""
        made = np.zeros_like(value)
        made[..., : self.length] = 1
        return made


Classes = Mapping[str, InputClass]
"""Classes by input name."""


def describe(classes: Classes) -> str:
    """Return the classes in one line."""
    return ", ".join(f"{name} {one.text}" for name, one in classes.items())
