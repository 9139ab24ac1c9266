"""What each kind of work costs on a machine, fitted to measurements: prices for ``work_counts.py``'s counts.

Boosted trees then learn what remains; they cannot extrapolate, prices can.
"""

from __future__ import annotations

import numpy as np

from autotune.cost_model.cached.work_kinds import UNIT_COSTS, Floats

ROUNDS = 12
STEP = 0.5
"""Part of the way that prices go in a round: the problem that it solves is a linear one nearby."""
CALM = 0.2
"""Log errors above this count by their size instead of its square: timings have outliers."""
REACH = 0.7
"""Largest log error that a round corrects at once."""
TRUST = 0.01
"""Weight of the typical prices against that of all measurements together: what hardly occurs keeps
the typical one."""
LEAST = 1e-3
"""Of its typical price that a part costs at least."""


def fit_unit_costs(counts: Floats, cycles: Floats, weight: Floats) -> Floats:
    """Prices [P] so that ``counts`` [r, P] at them are ``cycles`` [r], errors being of logarithms:
    Gauss-Newton steps on non-negative least squares (Lawson and Hanson 1974, *Solving Least Squares
    Problems*, ch. 23) with Huber's weights."""
    from scipy.optimize import nnls  # slow to import; sessions that plan by rule never fit

    typical = counts * UNIT_COSTS
    parts = typical.shape[1]
    hold = np.sqrt(TRUST * weight.sum() / parts) * np.eye(parts)
    factors: Floats = np.ones(parts)
    for _ in range(ROUNDS):
        guess = typical @ factors
        error = np.log(cycles / guess)
        each = np.sqrt(weight / np.maximum(1.0, np.abs(error) / CALM))
        rows = typical / guess[:, None] * each[:, None]
        wanted = (1.0 + np.clip(error, -REACH, REACH)) * each
        found, _ = nnls(np.concatenate([rows, hold]), np.concatenate([wanted, hold.sum(axis=0)]))
        factors = np.maximum((1.0 - STEP) * factors + STEP * found, LEAST)
    prices: Floats = factors * UNIT_COSTS
    return prices
