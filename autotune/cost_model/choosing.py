"""Which of several models answers for a machine: each predicts networks that it was not trained on.

A contender takes the place of a simpler one only if it chooses no worse (``HeldOut.improves_on``). One that prices better
but chooses worse prices what the plain formula chooses. A raw one has to do both, and to err clearly less: its
predictions of operators that no training saw are bounded by no analysis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
RAW_ROWS = 100_000
"""Measurements that a raw model contends on, about: counted work of a million takes 5 GiB more, and prices fitted to
more measurements err alike."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What answers: ``ratios`` trained on everything, and how such ratios predicted what was ``held`` out. ``all`` are
    the held-out predictions of every contender by its kind, the plain formula's first; of a raw model only where it
    was trained on all folds. The formula chooses among schedules where ``held`` tells an order of its own. ``data`` [r]
    are the rows that were held out, of which those that are ``sure`` [r] calibrate;
    ``judged`` are those that all contenders predicted."""

    held: HeldOut
    ratios: Ratios
    all: Mapping[str, HeldOut]
    data: Dataset
    sure: Mask
    judged: Dataset

    @property
    def formula_chooses(self) -> bool:
        """True if what answers prices the plain formula's choices."""
        return self.held.order is not None

    def metrics(self) -> dict[str, float]:
        """Return the figures of what answers, with error and regret of every contender; the coverage is that of rows
        that are ``sure``."""
        found = self.held.metrics(self.data, self.sure)
        for kind, one in self.all.items():
            found |= one.as_contender(kind, self.judged)
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
        contenders[SHIPPED] = (
            as_it_is(data, fold, seed, base, guided.x, sure),
            Ratios.untrained(base),
        )
    contenders[GUIDED] = (guided, ratios)
    held, ratios = last_improvement(tuple(contenders.values()), data)
    predicted = {kind: one for kind, (one, _) in contenders.items()}
    chosen = Chosen(held, ratios, predicted, data, sure, data)
    if held.error_of(data) < MISJUDGED:
        return chosen
    return _with_raw(chosen, records, weights, fold, seed, spread)


def _with_raw(
    chosen: Chosen,
    records: Sequence[Record],
    weights: Sequence[float] | None,
    fold: Ints,
    seed: int,
    spread: ForEach,
) -> Chosen:
    """Return what answers once a raw model contends with what was ``chosen``, on one in so many of its rows."""
    every = -(-len(chosen.data) // RAW_ROWS)
    counted = dataset(records, chosen.data.spec, weights, is_raw=True, every=every)
    rows = np.arange(len(chosen.data)) % every == 0
    data = chosen.data if every == 1 else chosen.data.take(rows)
    sure, rival = chosen.sure[rows], chosen.held if every == 1 else chosen.held.take(rows)
    found = hold_out_raw(counted, fold[rows], seed, rival, spread, sure)
    if found is None:
        return chosen
    with_trees, priced = found
    has_trees = with_trees.improves_on(priced, data)
    raw = with_trees if has_trees else priced
    others = {kind: one if every == 1 else one.take(rows) for kind, one in chosen.all.items()}
    chosen = replace(chosen, all=others | {RAW: raw}, judged=data)
    # trees that choose worse are no model that a raw one, which does both, has to beat clearly
    alone = rival if rival.order is None else others[FORMULA]
    if not (raw.improves_on(rival, data) and raw.errs_clearly_less(alone, data)):
        return chosen
    trained = train(counted, np.ones(len(counted), dtype=bool), seed)
    ratios = trained if has_trees else trained.as_formula()
    return replace(chosen, held=raw, ratios=ratios, data=data, sure=sure)


def last_improvement(
    contenders: Sequence[tuple[HeldOut, Ratios]], data: Dataset
) -> tuple[HeldOut, Ratios]:
    """Return the last contender that improves on the one chosen before it; the simplest come first. One that does not,
    but errs clearly less, still does where the first, the plain formula, chooses."""
    chosen = formula, _ = contenders[0]
    for held, ratios in contenders[1:]:
        priced = held.choosing_by(formula)
        if held.improves_on(chosen[0], data):
            chosen = held, ratios
        elif held.errs_clearly_less(chosen[0], data) and priced.improves_on(chosen[0], data):
            chosen = priced, ratios
    return chosen
