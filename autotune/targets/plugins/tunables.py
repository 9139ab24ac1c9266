"""Tunable parameters that a user's machine declares, their configurations, and columns for a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from autotune.errors import InputError

Value = int | float | str | bool
Tunables = tuple[tuple[str, tuple[Value, ...]], ...]
"""Parameters by name, each with the values that it may take."""

MOST_WEIGHED = 1024
"""Configurations that are predicted for a group at most; of a larger space so many are drawn."""


def tunables_of(function: Callable[..., Any], name: str) -> Tunables:
    """Return the ``parameters`` of a timing function: a dict of lists. Raises ``InputError``."""
    declared = getattr(function, "parameters", {})
    if not isinstance(declared, Mapping):
        raise InputError(
            f"target {name}: parameters is a dict of lists, not {type(declared).__name__}"
        )
    return tuple((str(key), _checked(values, str(key), name)) for key, values in declared.items())


def _checked(values: object, key: str, name: str) -> tuple[Value, ...]:
    listed = tuple(values) if isinstance(values, (list, tuple, range)) else ()
    is_legal = all(isinstance(value, (int, float, str, bool)) for value in listed)
    if not listed or not is_legal or len({json.dumps(value) for value in listed}) < len(listed):
        raise InputError(
            f"target {name}: parameter {key} is {values!r:.60}, not a list of different numbers, texts or truth values"
        )
    return listed


def drawn(tunables: Tunables, rng: np.random.Generator) -> dict[str, Value]:
    """Draw a configuration."""
    return {name: values[int(rng.integers(len(values)))] for name, values in tunables}


def configurations(tunables: Tunables) -> Iterator[dict[str, Value]]:
    """Give all configurations, or ``MOST_WEIGHED`` drawn ones of a larger space."""
    names = [name for name, _ in tunables]
    if math.prod(len(values) for _, values in tunables) <= MOST_WEIGHED:
        yield from (
            dict(zip(names, one, strict=True)) for one in product(*(v for _, v in tunables))
        )
        return
    rng, seen = np.random.default_rng(0), set[str]()
    while len(seen) < MOST_WEIGHED:  # there are more than that
        one = drawn(tunables, rng)
        text = json.dumps(one)
        if text not in seen:
            seen.add(text)
            yield one


def columns(tunables: Tunables, configuration: Mapping[str, Value]) -> list[float]:
    """Return a configuration as features: numbers as they are, others by their place; NaN for what it lacks."""
    return [_column(values, configuration.get(name)) for name, values in tunables]


def _column(values: tuple[Value, ...], value: Value | None) -> float:
    if value is None:
        return math.nan
    if all(not isinstance(one, str) for one in values) and not isinstance(value, str):
        return float(value)
    return float(values.index(value)) if value in values else math.nan


def from_text(text: str) -> dict[str, Value]:
    """Return the configuration in a record's ``schedule_json``; empty for a machine without parameters."""
    found = json.loads(text)
    return found if isinstance(found, dict) else {}
