"""ONNX's operators on sequences and optionals: they move whole tensors and compute nothing.

A sequence is a list of arrays, an empty optional is None. Both exist only between the pieces of a
tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError

Value = Any
"""An array, a list of arrays, or None."""

Attrs = dict[str, Any]
Moving = Callable[[Attrs, Sequence[Value]], Value]


def _place(values: Sequence[Value], index: int, end: int) -> int:
    """Return the position that an operator addresses, counted from the start; by default ``end``."""
    given = values[index] if index < len(values) else None
    if given is None:
        return end
    place = int(np.asarray(given).reshape(()))
    length = len(values[0])
    if not -length <= place <= end:
        raise InputError(
            f"position {place} lies outside of a sequence of {length}; check the model's indices"
        )
    return place + length if place < 0 else place


def _insert(attrs: Attrs, values: Sequence[Value]) -> Value:
    sequence, item = values[0], values[1]
    at = _place(values, 2, len(sequence))
    return [*sequence[:at], item, *sequence[at:]]


def _erase(attrs: Attrs, values: Sequence[Value]) -> Value:
    at = _place(values, 1, len(values[0]) - 1)
    return [*values[0][:at], *values[0][at + 1 :]]


def _at(attrs: Attrs, values: Sequence[Value]) -> Value:
    return values[0][_place(values, 1, len(values[0]) - 1)]


def _concat(attrs: Attrs, values: Sequence[Value]) -> Value:
    join = np.stack if attrs.get("new_axis", 0) else np.concatenate
    return join(values[0], axis=attrs.get("axis", 0))


def _split(attrs: Attrs, values: Sequence[Value]) -> Value:
    data, axis = values[0], attrs.get("axis", 0)
    sizes = values[1] if len(values) > 1 else None
    if sizes is None:
        pieces = _cut(data, [1] * data.shape[axis], axis)
        return pieces if attrs.get("keepdims", 1) else [np.squeeze(x, axis) for x in pieces]
    if np.ndim(sizes) == 0:
        whole, rest = divmod(data.shape[axis], int(sizes))
        sizes = [int(sizes)] * whole + ([rest] if rest else [])
    return _cut(data, [int(size) for size in sizes], axis)


def _cut(data: npt.NDArray[Any], sizes: Sequence[int], axis: int) -> list[npt.NDArray[Any]]:
    return list(np.split(data, np.cumsum(sizes)[:-1], axis=axis))


def _get(attrs: Attrs, values: Sequence[Value]) -> Value:
    if values[0] is None:
        raise InputError("an optional without a value is read; guard it with OptionalHasElement")
    return values[0]


SEQUENCES: dict[str, Moving] = {
    "SequenceEmpty": lambda attrs, values: [],
    "SequenceConstruct": lambda attrs, values: list(values),
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": lambda attrs, values: np.asarray(len(values[0]), np.int64),
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
    "Optional": lambda attrs, values: values[0] if values else None,
    "OptionalGetElement": _get,
    "OptionalHasElement": lambda attrs, values: np.asarray(bool(values) and values[0] is not None),
}


_OF_SEQUENCES = frozenset(
    {
        "SequenceInsert",
        "SequenceErase",
        "SequenceAt",
        "SequenceLength",
        "ConcatFromSequence",
    }
)
"""Operators whose first input is a sequence."""


def move(operator: str, attrs: Attrs, values: Sequence[Value]) -> Value:
    """Return the output of an operator. Raises ``InputError`` without the node's name."""
    if operator in _OF_SEQUENCES and not (values and isinstance(values[0], list)):
        raise InputError(f"{operator} reads what is no sequence; export the model again")
    try:
        return SEQUENCES[operator](attrs, values)
    except (ValueError, TypeError, IndexError, AttributeError, ZeroDivisionError) as error:
        raise InputError(f"{error}; check the model's sequences") from None
