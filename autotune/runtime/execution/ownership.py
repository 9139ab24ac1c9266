"""Ownership of arrays: outputs of a run are the caller's, constants of a version are its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from autotune.runtime.execution.values import AnyArray, Value, Values


def read_only(array: AnyArray) -> AnyArray:
    """Return a view for data that outlives a run: neither it nor views of it can be written to."""
    view = np.asarray(array).view()  # evaluation may have made a scalar
    view.flags.writeable = False
    return view


def owned(outputs: Values, inputs: Values) -> dict[str, Value]:
    """Return outputs that the caller may write to.

    Copies read-only arrays, and arrays that share memory with an input or with another output. A
    sequence is a new list.
    """
    taken = list(_arrays(inputs.values()))
    found: dict[str, Value] = {}
    for name, value in outputs.items():
        found[name] = _own(value, taken)
        if isinstance(found[name], np.ndarray):
            taken.append(found[name])
    return found


def shared(array: AnyArray, others: Iterable[AnyArray]) -> bool:
    """Return True if an array may share memory with one of the others."""
    return any(np.may_share_memory(array, other) for other in others)


def _own(value: Value, taken: list[AnyArray]) -> Value:
    if isinstance(value, list):
        return [_own(item, taken) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return value.copy() if not value.flags.writeable or shared(value, taken) else value


def _arrays(values: Iterable[Value]) -> Iterator[AnyArray]:
    for value in values:
        if isinstance(value, list):
            yield from _arrays(value)
        elif isinstance(value, np.ndarray):
            yield value
