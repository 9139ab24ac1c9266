"""Prices of ``KERNEL_KINDS`` on a machine, fitted to measurements of bound programs.

Work of a family adds up; its arithmetic and its traffic overlap: together they take the square root of the sum
of their squares, between the longer one and both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.cost_model.bound.kernel_kinds import (
    KERNEL_KINDS,
    KERNEL_PRICES,
    Floats,
    KernelFamily,
)

ROUNDS = 20
STEP = 0.5
"""Part of the way that prices go in a round: the problem that it solves is a linear one nearby."""
CALM = 0.2
"""Log errors above this count by their size instead of its square: timings have outliers."""
REACH = 0.7
"""Largest log error that a round corrects at once."""
TRUST = 0.02
"""Weight of the typical prices against that of all measurements together."""
LEAST = 1e-3
"""Of its typical price that a kind costs at least."""


def _columns(family: KernelFamily, traffic: bool) -> npt.NDArray[np.int64]:
    return np.array(
        [
            column
            for column, kind in enumerate(KERNEL_KINDS)
            if kind.family is family and kind.traffic == traffic
        ],
        dtype=np.int64,
    )


_OVERLAPPING = tuple(
    (_columns(family, False), _columns(family, True))
    for family in KernelFamily
    if family is not KernelFamily.PROGRAM
)
_PLAIN = _columns(KernelFamily.PROGRAM, False)


def kernel_cycles(work: Floats, prices: Floats) -> Floats:
    """Return the cycles [n] of counted work [n, K] at prices [K], at least one."""
    return _weighed(work * prices)[1]


def family_cycles(work: Floats, prices: Floats) -> Floats:
    """Return arithmetic and traffic of each family [n, 2 · families], in cycles."""
    cycles = work * prices
    return np.stack(
        [cycles[:, columns].sum(axis=1) for pair in _OVERLAPPING for columns in pair], axis=1
    )


def _weighed(cycles: Floats) -> tuple[Floats, Floats]:
    """Return how much of each kind's cycles [n, K] counts where kinds overlap, and the total [n]."""
    weights: Floats = np.ones_like(cycles)
    total = cycles[:, _PLAIN].sum(axis=1)
    for computed, traffic in _OVERLAPPING:
        first, second = cycles[:, computed].sum(axis=1), cycles[:, traffic].sum(axis=1)
        both = np.hypot(first, second)
        safe = np.maximum(both, 1e-9)
        weights[:, computed] = (first / safe)[:, None]
        weights[:, traffic] = (second / safe)[:, None]
        total = total + both
    return weights, np.maximum(total, 1.0)


def fit_kernel_prices(work: Floats, cycles: Floats, weight: Floats) -> Floats:
    """Fit prices [K] so that ``work`` [r, K] at them takes ``cycles`` [r], errors being of logarithms.

    Gauss-Newton steps on non-negative least squares (Lawson and Hanson 1974, *Solving Least Squares
    Problems*, ch. 23) with Huber's weights. The overlap is homogeneous, so that a row's total is its
    weighed work at the prices themselves (Euler).
    """
    from scipy.optimize import nnls  # slow to import; sessions that plan by rule never fit

    used = np.flatnonzero(work.any(axis=0))
    typical = work * KERNEL_PRICES
    kinds = len(used)
    hold = np.sqrt(TRUST * weight.sum() / max(1, kinds)) * np.eye(kinds)
    factors: Floats = np.ones(work.shape[1])
    for _ in range(ROUNDS):
        weights, guess = _weighed(typical * factors)
        error = np.log(cycles / guess)
        each = np.sqrt(weight / np.maximum(1.0, np.abs(error) / CALM))
        rows = (typical * weights)[:, used] / guess[:, None] * each[:, None]
        wanted = (1.0 + np.clip(error, -REACH, REACH)) * each
        found, _ = nnls(np.concatenate([rows, hold]), np.concatenate([wanted, hold.sum(axis=0)]))
        factors[used] = np.maximum((1.0 - STEP) * factors[used] + STEP * found, LEAST)
    return factors * KERNEL_PRICES
