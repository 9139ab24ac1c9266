"""Fitted kernel prices are those that made the measurements."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.bound.kernel_kinds import KERNEL_PRICES, KIND_INDEX
from autotune.cost_model.bound.kernel_prices import fit_kernel_prices, kernel_cycles


def drawn_work(rows: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    work = np.zeros((rows, len(KERNEL_PRICES)))
    for name in ("programs", "product_fmas", "product_read_3", "loads", "stores", "run_read_2"):
        work[:, KIND_INDEX[name]] = np.exp(rng.normal(7.0, 1.5, rows))
    return work


def test_overlap_lies_between_the_longer_part_and_both() -> None:
    work = np.zeros((1, len(KERNEL_PRICES)))
    work[0, [KIND_INDEX["loads"], KIND_INDEX["run_read_2"]]] = 1e4, 1e6
    loads, read = (
        1e4 * KERNEL_PRICES[KIND_INDEX["loads"]],
        1e6 * KERNEL_PRICES[KIND_INDEX["run_read_2"]],
    )
    assert max(loads, read) < kernel_cycles(work, KERNEL_PRICES)[0] < loads + read


def test_prices_are_found_again() -> None:
    work = drawn_work(400)
    prices = KERNEL_PRICES * np.exp(np.random.default_rng(4).normal(0.0, 0.4, len(KERNEL_PRICES)))
    cycles = kernel_cycles(work, prices)
    fitted = fit_kernel_prices(work, cycles, np.ones(len(work)))
    assert np.abs(np.log(kernel_cycles(work, fitted) / cycles)).mean() < 0.02


def test_kinds_that_never_occur_keep_their_prices() -> None:
    work = drawn_work(60)
    fitted = fit_kernel_prices(work, 2.0 * kernel_cycles(work, KERNEL_PRICES), np.ones(60))
    unused = ~work.any(axis=0)
    assert (fitted[unused] == KERNEL_PRICES[unused]).all()
