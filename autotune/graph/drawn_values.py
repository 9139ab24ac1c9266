"""Values for tensors whose own are unknown or do not matter, drawn at random."""

from __future__ import annotations

import math

import numpy as np

from autotune.operators.tensor import Array

DIFFERENT = 1 << 18
"""Different numbers of a tensor; a larger one repeats them, since drawing takes longer than timing."""


def normal_values(shape: tuple[int, ...], rng: np.random.Generator, added: int = 1) -> Array:
    """Return normal fp32 values. Divided by √``added``, sums of so many products with them keep the size of one factor."""
    values = rng.standard_normal(min(DIFFERENT, math.prod(shape)), np.float32)
    return np.asarray(np.resize(values / np.float32(math.sqrt(added)), shape), dtype=np.float32)


def values_near_one(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return fp32 values from 0.5 to 1.5."""
    values = rng.uniform(0.5, 1.5, min(DIFFERENT, math.prod(shape))).astype(np.float32)
    return np.asarray(np.resize(values, shape), dtype=np.float32)
