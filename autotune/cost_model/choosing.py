"""Which of several models answers for a machine: each predicts networks that it was not trained on.

A contender takes the place of a simpler one only if it chooses no worse (``HeldOut.improves_on``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.dataset import Dataset, dataset
from autotune.cost_model.held_out import (
    ForEach,
    HeldOut,
    Ints,
    Mask,
    as_it_is,
    hold_out,
    hold_out_raw,
    in_threads,
)
from autotune.cost_model.training import Ratios, train
from autotune.store.records import Record

MISJUDGED = 0.05
"""Held-out error of the analytic models from which a raw one is tried: no raw model of a shipped spec errs less than
twice that."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What answers: ``ratios`` trained on everything, how such ratios predicted what was ``held`` out, and how the
    plain ``formula`` did."""

    held: HeldOut
    ratios: Ratios
    formula: HeldOut


def choose(
    records: Sequence[Record],
    data: Dataset,
    weights: Sequence[float] | None,
    fold: Ints,
    seed: int,
    base: Ratios | None,
    for_each: ForEach | None,
    sure: Mask,
) -> Chosen:
    """Return what answers for the machine of ``data``, the rows of ``records``: the formula, the shared ``base`` as it
    is, trees on analytic features (on what ``base`` leaves), or where these err by ``MISJUDGED`` a raw model.

    Intervals are calibrated by rows that are ``sure`` [r].
    """
    spread = for_each or in_threads
    everywhere = np.ones(len(data), dtype=bool)
    guided, formula = hold_out(data, fold, seed, base, spread, sure)
    ratios = train(data, everywhere, seed, base)
    contenders = [(formula, ratios.as_formula()), (guided, ratios)]
    if base is not None:
        contenders.insert(1, (as_it_is(data, fold, seed, base, sure), Ratios.untrained(base)))
    held, ratios = last_improvement(contenders, data)
    if held.error_of(data) >= MISJUDGED:
        counted = dataset(records, data.spec, weights, is_raw=True)
        raw = hold_out_raw(counted, fold, seed, held, spread, sure)
        if raw is not None and raw.improves_on(held, data):
            return Chosen(raw, train(counted, everywhere, seed), formula)
    return Chosen(held, ratios, formula)


def last_improvement(
    contenders: Sequence[tuple[HeldOut, Ratios]], data: Dataset
) -> tuple[HeldOut, Ratios]:
    """Return the last contender that improves on the one chosen before it; the simplest come first."""
    chosen = contenders[0]
    for one in contenders[1:]:
        if one[0].improves_on(chosen[0], data):
            chosen = one
    return chosen
