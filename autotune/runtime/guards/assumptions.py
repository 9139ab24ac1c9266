"""Assumptions about inputs as users state them: by class, or by examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotune.errors import InputError
from autotune.graph.input_class import AllEqual, Between, Classes, Equal, InputClass, Padded
from autotune.operators.tensor import EXACT_LIMIT

Assumption = str | float | tuple[float, float] | np.ndarray[Any, Any]
"""``ones``, ``zeros``, ``padded:LENGTH``, a number that all elements have, a least and a largest one, or the whole array."""
Assumptions = Mapping[str, Assumption] | Sequence[Mapping[str, Any]]
"""Assumptions by input name, or examples of inputs by name."""

PADDED = "padded:"
WORDS = {"ones": 1.0, "zeros": 0.0}
USUAL_RANGES = (
    (0.0, 1.0),
    (-1.0, 1.0),
    (0.0, 255.0),
    (0.0, float("inf")),
)
"""Ranges that are inferred from examples of floating-point numbers: the first that holds them."""
_FORMS = (
    "'ones', 'zeros', 'padded:LENGTH', a number, (least, largest) or an array, such as "
    "{'attention_mask': 'ones'}"
)


def classes_of(assume: Assumptions | None) -> dict[str, InputClass]:
    """Return the classes that a user states, or that hold all examples.

    Raises ``InputError`` for what is neither.
    """
    if assume is None:
        return {}
    if isinstance(assume, Mapping):
        return {str(name): _class_of(str(name), value) for name, value in assume.items()}
    if isinstance(assume, Sequence) and not isinstance(assume, str):
        return infer(assume)
    raise InputError(
        f"assume maps names of inputs to {_FORMS}, or is a list of examples; got "
        f"{type(assume).__name__}: {assume!r:.60}"
    )


def _class_of(name: str, value: object) -> InputClass:
    if isinstance(value, str) and value in WORDS:
        return AllEqual(WORDS[value])
    if isinstance(value, str) and value.startswith(PADDED) and value[len(PADDED) :].isdecimal():
        return Padded(int(value[len(PADDED) :]))
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return AllEqual(_number(name, float(value)))
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "biuf":
        return Equal(_held(name, value))
    if isinstance(value, (tuple, list)) and len(value) == 2:
        try:
            return Between(float(value[0]), float(value[1]))
        except (TypeError, ValueError):
            pass
    raise InputError(f"assume[{name!r}] is {value!r:.60}; give {_FORMS}")


def _number(name: str, value: float) -> float:
    if float(np.float32(value)) != value:
        raise InputError(f"assume[{name!r}] is {value!r}, which float32 does not hold; round it")
    return value


def _held(name: str, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.dtype.kind in "iu" and int(np.abs(value.astype(np.float64)).max()) > EXACT_LIMIT:
        raise InputError(
            f"assume[{name!r}] holds integers beyond {EXACT_LIMIT}, which programs do not hold; "
            "leave it out"
        )
    held = value.astype(np.float32)
    if not np.isfinite(held).all():
        raise InputError(f"assume[{name!r}] holds NaN or infinity; leave it out")
    return held


def infer(examples: Sequence[Mapping[str, Any]]) -> dict[str, InputClass]:
    """Return the narrowest usual class of every input that holds all examples; none for other inputs.

    Raises ``InputError`` for examples that are no mappings of the same names to arrays.
    """
    if not examples or not all(isinstance(one, Mapping) for one in examples):
        raise InputError(
            "assume is an empty list, or not of mappings; give examples of inputs by name"
        )
    names = set(examples[0])
    if any(set(one) != names for one in examples):
        raise InputError("assume: the examples have inputs of different names; give the same ones")
    found = {
        name: class_of_arrays([np.asarray(one[name]) for one in examples]) for name in examples[0]
    }
    return {name: one for name, one in found.items() if one is not None}


def class_of_arrays(values: Sequence[np.ndarray[Any, Any]]) -> InputClass | None:
    """Return the narrowest usual class that holds all arrays; None if there is none."""
    if not all(value.size and value.dtype.kind in "biuf" for value in values):
        return None
    first = (
        AllEqual(float(values[0].reshape(-1)[0])) if np.isfinite(values[0].reshape(-1)[0]) else None
    )
    if first is not None and abs(first.value) <= EXACT_LIMIT:
        held = (np.ascontiguousarray(value, np.float32) for value in values)
        if all(map(first.holds, held)):
            return first
    if values[0].dtype.kind != "f" or any(np.isnan(value).any() for value in values):
        return None
    low = min(float(value.min()) for value in values)
    high = max(float(value.max()) for value in values)
    ranges = (one for one in USUAL_RANGES if one[0] <= low and high <= one[1])
    return next((Between(*one) for one in ranges), None)


def check_names(network: str, inputs: Sequence[str], classes: Classes) -> None:
    """Raise ``InputError`` for a class of an input that the network does not have."""
    for name in classes:
        if name not in inputs:
            names = ", ".join(map(repr, inputs))
            raise InputError(f"{network}: assumes of {name!r}; the inputs are {names}")
