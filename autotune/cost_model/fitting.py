"""Trains cost models: one of a machine, one extended by new measurements, one shared by many machines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from autotune.cost_model.choosing import choose
from autotune.cost_model.dataset import MIN_RECORDS, Dataset, dataset, joined, too_few
from autotune.cost_model.forest import Forest
from autotune.cost_model.held_out import ForEach, HeldOut, Mask, hold_out_machines, narrow_rows
from autotune.cost_model.learned import Learned
from autotune.cost_model.model import CostModel
from autotune.cost_model.provenance import Provenance, feature_hash
from autotune.cost_model.raw.model import corrected_model
from autotune.cost_model.shipped import shipped_model
from autotune.cost_model.support import Support, moved_percentiles, percentiles
from autotune.cost_model.training import (
    COVERAGE,
    MORE_ROUNDS,
    NARROW_SHARE,
    Ratios,
    boost_scale,
    conformal_quantile,
    factors,
    folds,
    network_quantile,
    train,
)
from autotune.errors import StoreError
from autotune.store.records import Record
from autotune.targets.spec import HardwareSpec

FEWEST_SURE = 50
"""Rows of the largest weight from which on they alone calibrate intervals."""
LEAST_SHARE = 1e-3
"""Least share of narrow products of a group that has any."""
WORST = 5
"""Groups that a training says it was worst at."""
MOST_TREES = 300
"""Trees for cycles beyond which a model is not extended, but trained anew: predicting takes longer by each."""


def fit(
    records: Sequence[Record],
    spec: HardwareSpec,
    *,
    seed: int,
    weights: Sequence[float] | None = None,
    base: CostModel | None = None,
    for_each: ForEach | None = None,
) -> CostModel:
    """Train a model on measurements of one machine; failed ones are left out.

    Held-out predictions decide whether trees correct the analytic formula (``HeldOut.improves_on``): where these
    price better but choose worse, they price what the formula chooses. With a shared model as ``base``, train what
    that leaves; it stays as it is where this is no better, and for fewer than ``MIN_RECORDS``
    measurements. Where the best of these errs by ``choosing.MISJUDGED`` or more, a raw model contends too, on
    ``choosing.RAW_ROWS`` measurements at most.

    ``weights`` [records] says how much each counts (1 by default), for example less with age,
    beside how far it is trusted. Rows that count less than others are no measurements of the machine as it is:
    they train, but calibrate no interval, where ``FEWEST_SURE`` others do. ``for_each`` calls for every fold
    (None: two at a time); what it raises ends training.
    The model's ``metrics`` are of out-of-fold predictions: of networks none of whose groups was trained
    on. Raises ``StoreError`` when there are fewer than ``MIN_RECORDS`` and no ``base``.
    """
    data = dataset(records, spec, weights)
    if len(data) < MIN_RECORDS and base is not None:
        return base
    if len(data) < MIN_RECORDS:
        raise too_few(spec, len(data))
    fold = folds(data.networks, data.keys, np.random.default_rng(seed))
    start = None if base is None else base.learned.ratios
    chosen = choose(records, data, weights, fold, seed, start, for_each, _sure(data))
    held, ratios, data = chosen.held, chosen.ratios, chosen.data

    def holding(rows: Mask) -> float:
        return network_quantile(held.scores[rows], data.networks[rows], COVERAGE)

    scale, factor = _calibrated(held, data, chosen.sure, seed, holding)
    learned = _learned(ratios, scale, factor, held, chosen.formula_chooses)
    origin = _provenance(data, seed, base, ratios.is_raw)
    return CostModel(
        spec, learned, chosen.metrics(), held.misjudged(data, WORST), provenance=origin
    )


def fit_model(
    records: Sequence[Record],
    spec: HardwareSpec,
    *,
    seed: int,
    weights: Sequence[float] | None = None,
    for_each: ForEach | None = None,
) -> CostModel:
    """Train a model on measurements of one machine, from the shipped one where there is one.

    Takes what ``fit`` takes, and raises what it raises.
    """
    base = shipped_model(spec)
    return fit(records, spec, seed=seed, weights=weights, base=base, for_each=for_each)


def extended(
    model: CostModel,
    records: Sequence[Record],
    *,
    seed: int,
    weights: Sequence[float] | None = None,
) -> CostModel | None:
    """Return a model with ``MORE_ROUNDS`` trees that learn what it leaves of measurements, old and new ones.

    It takes a fraction of the time of ``fit``, for nothing is held out: intervals and ``metrics`` stay those of
    the model, and whoever takes it judges it first. Takes ``weights`` as ``fit`` does. Return None where there is
    nothing to extend: a plain formula; a raw model, whose prices would stay; fewer than ``MIN_RECORDS``
    measurements; or more than ``MOST_TREES`` trees in the end.
    """
    before, learned = model.learned.ratios, model.learned
    trees = 0 if before.cycles is None else len(before.cycles.roots)
    if before.is_formula or before.is_raw or trees + MORE_ROUNDS > MOST_TREES:
        return None
    data = dataset(records, model.spec, weights)
    if len(data) < MIN_RECORDS:
        return None
    everywhere = np.ones(len(data), dtype=bool)
    ratios = train(data, everywhere, seed, before.base, before=before)
    grown = Learned(ratios, learned.scale, learned.factor, formula_chooses=learned.formula_chooses)
    known, x = learned.known_support, data.main_x
    if known is not None and learned.support is not None and grown.support is not None:
        known = moved_percentiles(known, learned.support.of(x), grown.support.of(x))
    return model.grown(replace(grown, known_support=known), _provenance(data, seed, model))


def fit_many(machines: Mapping[HardwareSpec, Sequence[Record]], *, seed: int) -> CostModel:
    """Train a shared model on measurements of several machines with one kind of memory.

    As in ``fit``, trees correct the formula where this chooses no worse on unseen machines; here they also have to
    err clearly less, for every user begins with this model, whatever the machine.
    The model's ``metrics`` are of machines and networks that the trees know neither of. Raises
    ``StoreError`` when there are fewer than ``MIN_RECORDS``.
    """
    parts = [dataset(records, spec) for spec, records in machines.items()]
    data, rng = joined(parts), np.random.default_rng(seed)
    if len(data) < MIN_RECORDS:
        raise StoreError(f"{len(data)} successful measurements, a cost model needs {MIN_RECORDS}")
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts]).astype(np.str_)
    fold = folds(data.networks, data.keys, rng)
    machine_fold = folds(owners, data.keys, rng)
    judged, guided, formula = hold_out_machines(data, machine_fold, fold, seed)
    ratios = train(data, np.ones(len(data), dtype=bool), seed, shared=True)
    held = formula
    if guided.improves_on(formula, judged) and guided.errs_clearly_less(formula, judged):
        held = guided
    else:
        ratios = ratios.as_formula()

    def holding(rows: Mask) -> float:
        # machines differ more than networks: rows of many held 89 % on unseen ones, networks 94 %
        return conformal_quantile(held.scores[rows], COVERAGE)

    everywhere = np.ones(len(judged), dtype=bool)
    scale, factor = _calibrated(held, judged, everywhere, seed, holding)
    learned = _learned(ratios, scale, factor, held)
    metrics = held.metrics(judged) | {"machines": float(len(parts))}
    spec, worst = parts[0].spec, held.misjudged(judged, WORST)
    return CostModel(spec, learned, metrics, worst, shared=True, provenance=_provenance(data, seed))


def _sure(data: Dataset) -> Mask:
    """Return the rows [r] that were given the largest weight, all where these are fewer than ``FEWEST_SURE``."""
    given = data.weight / data.trust
    sure: Mask = given >= given.max(initial=0.0) * (1.0 - 1e-9)
    return sure if sure.sum() >= FEWEST_SURE else np.ones(len(data), dtype=bool)


def _calibrated(
    held: HeldOut, data: Dataset, sure: Mask, seed: int, holding: Callable[[Mask], float]
) -> tuple[Forest, float]:
    """Return the trees of the error's size, a step higher for narrow programs as these ask for, and the factor on it."""
    factor, wider = factors(narrow_rows(held.x, data), sure, holding)
    scale = boost_scale(held.x, held.error, seed)
    if wider != 1.0:
        place = data.model.feature_names.index(NARROW_SHARE)
        scale = scale.with_step(place, LEAST_SHARE, math.log(wider))
    return scale, factor


def _learned(
    ratios: Ratios, scale: Forest, factor: float, held: HeldOut, formula_chooses: bool = False
) -> Learned:
    """Return the trained parts, with supports calibrated by held-out predictions."""
    support = held.support if ratios.cycle_forests else Support((scale,)).of(held.x)
    return Learned(ratios, scale, factor, percentiles(support), formula_chooses)


def _provenance(
    data: Dataset, seed: int, base: CostModel | None = None, is_raw: bool = False
) -> Provenance:
    """Return where a model trained on ``data`` comes from; a raw one refines none."""
    names = corrected_model(data.spec, is_raw).feature_names
    base = None if is_raw else base
    refined = "" if base is None else hashlib.sha256(base.to_bytes()).hexdigest()
    return Provenance(data.fingerprint, feature_hash(names), len(data), seed, refined)
