"""What legal configurations tell of a kernel: which products of parameters they bound, which quotients they keep whole.

Where no legal configuration has both the widest and the highest block, their product (threads) is what the machine
limits, and what time depends on. Where one parameter always divides another, their quotient (work of a thread) is a
count of its own. Names say nothing here; the list of legal configurations does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_RELATIONS = 8
"""Relations that count; each is one more dimension to fit."""
LEAST_BOUND = 2.0
"""Product of the largest levels over the largest legal product, from which a product is bounded."""
STEPS = 2
"""Levels of a relation in one octave."""
LEAST_LEVELS = 3
MOST_TWOS = 6
"""Factors of two that count: 64 threads are the widest unit that any device issues."""

Column = tuple[str, Floats, Ints]
"""Name, ascending numbers [k] and the level [n] of every configuration."""
Relation = tuple[str, Floats, Ints]
"""Name, ascending values [k] and the level [n] of every configuration."""


def relations(columns: Sequence[Column]) -> list[Relation]:
    """Return the products and quotients that the legal configurations hint at, as base-2 logarithms."""
    counted = [column for column in columns if column[1][0] > 0 and len(column[1]) >= LEAST_LEVELS]
    pairs = combinations(counted, 2)
    hints = [(hint, one, other) for one, other in pairs for hint in _hints(one, other)]
    hints.sort(key=lambda row: -row[0][0])
    found: list[Relation] = []
    for (_, name, table), one, other in hints:
        values, places = np.unique(np.round(STEPS * table) / STEPS, return_inverse=True)
        codes = places.reshape(table.shape)[one[2], other[2]]
        present, codes = np.unique(codes, return_inverse=True)
        if len(present) >= LEAST_LEVELS:
            found.append((name, values[present], codes.astype(np.int64)))
    return found[:MOST_RELATIONS]


def _hints(one: Column, other: Column) -> Iterator[tuple[float, str, Floats]]:
    """Yield tightness, name, and values [k, m] by levels of a pair's relations; a quotient is tightest."""
    (name, numbers, codes), (second, others, more) = one, other
    pairs = np.bincount(codes * len(others) + more, minlength=len(numbers) * len(others))
    is_legal = pairs.reshape(len(numbers), len(others)) > 0
    products = numbers[:, None] * others
    tightness = float(products.max() / products[is_legal].max())
    if tightness >= LEAST_BOUND:
        yield tightness, f"{name} × {second}", np.log2(products)
        if (products == np.floor(products)).all() and (np.log2(products) % 1).any():
            yield tightness, f"{name} × {second}: factors of two", factors_of_two(products)
    logs = np.log2(numbers[:, None] / others)
    for title, remainders, quotients in (
        (f"{name} ÷ {second}", numbers[:, None] % others, logs),
        (f"{second} ÷ {name}", others % numbers[:, None], -logs),
    ):
        if (remainders[is_legal] == 0).all() and (remainders != 0).any():
            yield np.inf, title, quotients


def factors_of_two(numbers: Floats) -> Floats:
    """Return how often 2 divides whole numbers, ``MOST_TWOS`` at most, and for 0."""
    whole = numbers.astype(np.int64)
    lowest = np.where(whole == 0, 1 << MOST_TWOS, whole & -whole)
    return np.asarray(np.minimum(np.log2(lowest), MOST_TWOS))
