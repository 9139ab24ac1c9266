"""Which of several models answers for a machine: each predicts networks that it was not trained on.

A contender takes the place of a simpler one only if it chooses no worse (``HeldOut.improves_on``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from autotune.cost_model.model_file import FORMULA, GUIDED, RAW, SHIPPED
from autotune.cost_model.training import Ratios, train
from autotune.store.records import Record

MISJUDGED = 0.05
"""Held-out error of the analytic models from which a raw one is tried: no raw model of a shipped spec errs less."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What answers: ``ratios`` trained on everything, and how such ratios predicted what was ``held`` out. ``all`` are
    the held-out predictions of every contender by its kind, the plain formula's first; of a raw model only where it
    was trained on all folds."""

    held: HeldOut
    ratios: Ratios
    all: Mapping[str, HeldOut]

    def metrics(self, data: Dataset, sure: Mask) -> dict[str, float]:
        """Return the figures of what answers, with error and regret of every contender; the coverage is that of rows
        that are ``sure`` [r]."""
        found = self.held.metrics(data, sure)
        for kind, one in self.all.items():
            found |= one.as_contender(kind, data)
        return found


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
    """Return what answers for the machine of ``data``, the rows of ``records``.

    Contenders are the formula, the shared ``base`` as it is, and trees on analytic features, which learn what ``base``
    leaves. Where these err by ``MISJUDGED``, a raw model contends too, by its prices alone or with trees. Rows that are
    ``sure`` [r] calibrate intervals.
    """
    spread = for_each or in_threads
    everywhere = np.ones(len(data), dtype=bool)
    guided, formula = hold_out(data, fold, seed, base, spread, sure)
    ratios = train(data, everywhere, seed, base)
    contenders = {FORMULA: (formula, ratios.as_formula())}
    if base is not None:
        contenders[SHIPPED] = (as_it_is(data, fold, seed, base, sure), Ratios.untrained(base))
    contenders[GUIDED] = (guided, ratios)
    held, ratios = last_improvement(tuple(contenders.values()), data)
    predicted = {kind: one for kind, (one, _) in contenders.items()}
    if held.error_of(data) >= MISJUDGED:
        counted = dataset(records, data.spec, weights, is_raw=True)
        found = hold_out_raw(counted, fold, seed, held, spread, sure)
        if found is not None:
            with_trees, priced = found
            has_trees = with_trees.improves_on(priced, data)
            predicted[RAW] = raw = with_trees if has_trees else priced
            if raw.improves_on(held, data):
                trained = train(counted, everywhere, seed)
                held, ratios = raw, trained if has_trees else trained.as_formula()
    return Chosen(held, ratios, predicted)


def last_improvement(
    contenders: Sequence[tuple[HeldOut, Ratios]], data: Dataset
) -> tuple[HeldOut, Ratios]:
    """Return the last contender that improves on the one chosen before it; the simplest come first."""
    chosen = contenders[0]
    for one in contenders[1:]:
        if one[0].improves_on(chosen[0], data):
            chosen = one
    return chosen
