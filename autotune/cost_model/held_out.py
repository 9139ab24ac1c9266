"""Out-of-fold predictions: what the cost model says about networks it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.dataset import Dataset
from autotune.cost_model.estimate import Rows
from autotune.cost_model.metrics import (
    coverage,
    group_metrics,
    mape,
    median_error,
    relative_errors,
    rows_of_groups,
    within,
)
from autotune.cost_model.support import Support
from autotune.cost_model.training import (
    COVERAGE,
    FOLDS,
    NARROW_SHARE,
    Ratios,
    boost_scale,
    conformal_quantile,
    factors,
    log_spread,
    network_quantile,
    scale_of,
    singles,
    train,
)
from autotune.store.records import HALF_TRUST_ERROR, NOISY_TRUST

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FEWEST_CHOICES = 30
"""Groups with a choice from which on a lower regret outweighs a larger error."""

SAME_REGRET = 0.002
"""Difference of regrets that half of the error outweighs."""

HOPEFUL = 1.25
"""Error of a raw model on one fold, over the best other one's, up to which the other folds are trained too."""

WORKERS = 2
"""Folds trained at a time; more would not help where two cores are shared with measurements."""

ForEach = Callable[[Callable[[int], None], Iterable[int]], None]
"""Calls a function with every fold, in any order, and raises what that raises."""


def in_threads(learn: Callable[[int], None], folds: Iterable[int]) -> None:
    """Train ``WORKERS`` folds at a time: training leaves Python, each fold on one core."""
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(learn, folds))


def is_loss(gain: Floats, noise: Floats, allowed: float = 0.0) -> bool:
    """Return True if choices are worse than a simpler model's, whose regrets are larger by ``gain`` [g].

    Each is known to a standard error of ``noise`` [g], so that their mean tells no loss of less than two of its own.
    Costs that are counted have none: there every loss counts that is more than ``allowed``.
    """
    if not len(gain):
        return False
    blur = 2.0 * float(np.sqrt((noise**2).sum())) / len(gain)
    return bool(gain.mean() < -max(allowed, blur))


@dataclass(frozen=True, slots=True)
class Misjudged:
    """A group of a network that was not trained on: it takes ``factor`` times its prediction, the
    median over the ``runs`` that were measured of it."""

    group_key: str
    network: str
    factor: float
    runs: int


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of every measurement [r] by trees of other folds: cycles, femtojoules, DRAM bytes.

    ``error`` is log(measured / predicted) cycles. ``scores`` are its size over the predicted size. ``low`` and ``high``
    bound the interval in cycles. ``support`` is that of the trees for cycles, NaN without any. ``x`` [r, F] is what
    trees read of each measurement's main nest. Schedules are chosen by ``order`` [r] (None: by cycles).
    """

    cycles: Floats
    energy_fj: Floats
    dram_bytes: Floats
    error: Floats
    scores: Floats
    low: Floats
    high: Floats
    support: Floats
    x: Rows
    order: Floats | None = None

    def take(self, rows: Mask) -> HeldOut:
        """Return the predictions of some ``rows`` [r]."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        kept: dict[str, Any] = {n: None if c is None else c[rows] for n, c in columns.items()}
        return HeldOut(**kept)

    @property
    def choices(self) -> Floats:
        """Scores [r] by which schedules of a group are chosen, the least first."""
        return self.cycles if self.order is None else self.order

    def choosing_by(self, other: HeldOut) -> HeldOut:
        """Return the same costs, with the choices of another model."""
        return replace(self, order=other.choices)

    def improves_on(self, simpler: HeldOut, data: Dataset) -> bool:
        """Return True if these predictions earn their place beside those of a simpler model.

        They do with a smaller error and choices that are no worse, however few groups tell (``is_loss``). They
        also do with a larger error if the regret is clearly lower: by two standard errors of the differences of
        ``FEWEST_CHOICES`` groups or more. With at most half the error, a regret may be larger by up to ``SAME_REGRET``.
        """
        gain, noise = self.gains_on(simpler, data)
        mean, spread = float(gain.mean()) if len(gain) else 0.0, np.inf
        if len(gain) >= FEWEST_CHOICES:
            spread = float(gain.std(ddof=1)) / np.sqrt(len(gain))
        error, other = (mape(data.cycles, one.cycles) for one in (self, simpler))
        allowed = SAME_REGRET if error <= 0.5 * other else 0.0
        return bool(mean > 2.0 * spread or (error < other and not is_loss(gain, noise, allowed)))

    def gains_on(self, simpler: HeldOut, data: Dataset) -> tuple[Floats, Floats]:
        """Return how much less regret than a simpler model's each group [g] has that leaves a choice, and the standard
        error of that difference [g]: both choices were measured, and repeat as their trust tells."""
        fastest, cost, error, known = [], [], [], _errors_of(data.trust)
        for rows in rows_of_groups(data.keys.tolist()):
            if len(rows) > 1:
                pair = [rows[np.argmin(one.choices[rows])] for one in (self, simpler)]
                fastest.append(data.cycles[rows].min())
                cost.append(data.cycles[pair])
                error.append(np.zeros(2) if pair[0] == pair[1] else known[pair])
        if not fastest:
            return np.empty(0), np.empty(0)
        ratio = np.array(cost) / np.array(fastest)[:, None]
        noise = np.sqrt(((ratio * np.array(error)) ** 2).sum(axis=1))
        return np.asarray(ratio[:, 1] - ratio[:, 0]), np.asarray(noise)

    def errs_clearly_less(self, simpler: HeldOut, data: Dataset) -> bool:
        """Return True if the mean error of networks is smaller than a simpler model's by two standard errors of their
        differences."""
        ours, theirs = (relative_errors(data.cycles, one.cycles) for one in (self, simpler))
        networks, place = np.unique(data.networks, return_inverse=True)
        gain = np.bincount(place, theirs - ours) / np.bincount(place)
        if len(networks) < 2:
            return False
        return bool(gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(networks)))

    def error_of(self, data: Dataset) -> float:
        """Return the mean error (a fraction) of the cycles."""
        return mape(data.cycles, self.cycles)

    def metrics(self, data: Dataset, sure: Mask | None = None) -> dict[str, float]:
        """Figures about networks that were not trained on; rates are shares, ranks and regrets are within
        groups. The coverage is that of rows that are ``sure`` [r] (None: all)."""
        keys = data.keys.tolist()
        known = np.ones(len(data), dtype=bool) if sure is None else sure
        return {
            "mape": mape(data.cycles, self.cycles),
            "analytic_mape": mape(data.cycles, data.summed(data.estimate)),
            "median_error": median_error(data.cycles, self.cycles),
            "within_5": within(data.cycles, self.cycles, 0.05),
            "within_10": within(data.cycles, self.cycles, 0.10),
            **group_metrics(data.cycles, self.choices, keys),
            "coverage": coverage(data.cycles[known], self.low[known], self.high[known]),
            "energy_mape": mape(data.energy_fj, self.energy_fj),
            "dram_mape": mape(data.dram_bytes, self.dram_bytes),
            "n": float(len(data)),
            "networks": float(len(np.unique(data.networks))),
        }

    def as_contender(self, kind: str, data: Dataset) -> dict[str, float]:
        """Error and regret of one that the chosen model stands beside, by its kind."""
        keys = data.keys.tolist()
        return {
            f"{kind}_mape": mape(data.cycles, self.cycles),
            f"{kind}_top1_regret": group_metrics(data.cycles, self.choices, keys)["top1_regret"],
        }

    def misjudged(self, data: Dataset, count: int) -> tuple[Misjudged, ...]:
        """The ``count`` groups whose predictions are furthest off, either way, worst first."""
        rows: dict[str, list[int]] = {}
        for row, key in enumerate(data.keys.tolist()):
            rows.setdefault(key, []).append(row)
        found = [
            Misjudged(
                key,
                str(data.networks[own[0]]),
                float(np.exp(np.median(self.error[own]))),
                len(own),
            )
            for key, own in rows.items()
        ]
        return tuple(sorted(found, key=lambda m: -abs(np.log(m.factor)))[:count])


def _errors_of(trust: Floats) -> Floats:
    """Return the relative standard errors [n] of costs of some ``trust`` [n] (``Record.trust``).

    A cost of full trust tells none: it is exact beside others that tell none either, as counted cycles are, and has
    the median error of those that tell theirs. A time that is only known to be noisy says nothing about others.
    """
    error = HALF_TRUST_ERROR * np.sqrt(1.0 / trust - 1.0)
    told = error[(trust < 1.0) & (trust > NOISY_TRUST)]
    return np.where(trust < 1.0, error, np.median(told)) if len(told) else np.asarray(error)


def hold_out(
    data: Dataset,
    fold: Ints,
    seed: int,
    base: Ratios | None = None,
    for_each: ForEach = in_threads,
    sure: Mask | None = None,
) -> tuple[HeldOut, HeldOut]:
    """Predict every fold [r] by what the others teach, without any group that occurs in it; ``base`` is
    the shared model's part that they refine, ``for_each`` calls for every fold. Intervals are calibrated by the rows that
    are ``sure`` [r] (None: all).

    Return predictions with trees for cycles, and those of the analytic formula with the prices that the
    other folds teach.
    """
    guided = _Predicted.none(data)
    formula = _Predicted.none(data, guided.x)
    group = np.unique(data.keys, return_inverse=True)[1]

    def learn(index: int) -> None:
        tested = fold == index
        known = ~np.isin(group, group[tested])
        if tested.any() and known.any():
            ratios = train(data, known, seed, base)
            guided.set(ratios, data, tested)
            formula.set(ratios.as_formula(), data, tested)

    for_each(learn, range(FOLDS))
    with_trees = _judged(data, fold, guided, seed, sure=sure)
    return with_trees, _judged(data, fold, formula, seed, sure=sure)


def hold_out_raw(
    data: Dataset,
    fold: Ints,
    seed: int,
    rival: HeldOut,
    for_each: ForEach = in_threads,
    sure: Mask | None = None,
) -> tuple[HeldOut, HeldOut] | None:
    """Predict every fold [r] of raw ``data`` by what the others teach; None where that would not pay.

    The largest fold is a trial: the rest follows only if the error there is at most ``HOPEFUL`` times the
    ``rival``'s, which predicted the same measurements. Return predictions with trees, and at prices alone.
    """
    raw = _Predicted.none(data)
    priced = _Predicted.none(data, raw.x)

    def learn(index: int) -> None:
        tested = fold == index
        known = ~np.isin(data.keys, data.keys[tested])
        if tested.any() and known.any():
            ratios = train(data, known, seed)
            raw.set(ratios, data, tested)
            priced.set(ratios.as_formula(), data, tested)

    first = int(np.argmax(np.bincount(fold, minlength=FOLDS)))
    for_each(learn, [first])
    tried = fold == first
    errors = [
        mape(data.cycles[tried], one[tried])
        for one in (raw.costs[0], priced.costs[0], rival.cycles)
    ]
    if min(errors[:2]) > HOPEFUL * errors[2]:
        return None
    for_each(learn, [index for index in range(FOLDS) if index != first])
    with_trees = _judged(data, fold, raw, seed, sure=sure)
    return with_trees, _judged(data, fold, priced, seed, sure=sure)


def as_it_is(
    data: Dataset, fold: Ints, seed: int, base: Ratios, x: Rows, sure: Mask | None = None
) -> HeldOut:
    """Judge a shared model on measurements that it was not trained on; ``x`` [r, F] is that of ``HeldOut``."""
    predicted = _Predicted.none(data, x)
    predicted.set(Ratios.untrained(base), data, np.ones(len(data), dtype=bool))
    return _judged(data, fold, predicted, seed, sure=sure)


def hold_out_machines(
    data: Dataset, machine_fold: Ints, fold: Ints, seed: int
) -> tuple[Dataset, HeldOut, HeldOut]:
    """Predict measurements of machines and networks that the trees know neither of.

    Folds [r] are those of the machine and of the network. A fold's trees see the other machines on the
    other networks. Return the measurements whose folds are equal, one in ``FOLDS``, and predictions with
    trees for cycles and without.
    """
    guided = _Predicted.none(data)
    formula = _Predicted.none(data, guided.x)
    tested = machine_fold == fold
    group = np.unique(data.keys, return_inverse=True)[1]

    def learn(index: int) -> None:
        here = tested & (fold == index)
        known = (machine_fold != index) & (fold != index) & ~np.isin(group, group[here])
        if here.any() and known.any():
            ratios = train(data, known, seed, shared=True)
            guided.set(ratios, data, here)
            formula.set(ratios.as_formula(), data, here)

    in_threads(learn, range(FOLDS))
    judged, folds = data.take(tested), fold[tested]
    with_trees = _judged(judged, folds, guided.take(tested), seed, conformal_quantile)
    without = _judged(judged, folds, formula.take(tested), seed, conformal_quantile)
    return judged, with_trees, without


@dataclass(frozen=True, slots=True)
class _Predicted:
    """Costs [4, r] of measurements (cycles, femtojoules, DRAM bytes, support) and what trees read of the main nest
    of each ``x`` [r, F], set a fold at a time."""

    costs: Floats
    x: Rows

    @classmethod
    def none(cls, data: Dataset, x: Rows | None = None) -> _Predicted:
        """Return ones, and what trees read: of raw rows zeros, for prices change it with every training. It is ``x``
        where others that read the same have it already."""
        if x is None and data.is_raw:
            x = np.zeros((len(data), len(data.model.feature_names)), dtype=np.float32)
        return cls(np.ones((4, len(data))), data.main_x if x is None else x)

    def set(self, ratios: Ratios, data: Dataset, tested: npt.NDArray[np.bool_]) -> None:
        """Predict the ``tested`` measurements [r]."""
        x = data.rows(ratios.unit_costs)
        self.costs[:, tested] = _applied(ratios, data, x, tested)
        if data.is_raw:
            self.x[tested] = x[data.main[tested]]

    def take(self, chosen: npt.NDArray[np.bool_]) -> _Predicted:
        """Return the ``chosen`` measurements [r]."""
        return _Predicted(self.costs[:, chosen], self.x[chosen])


def _judged(
    data: Dataset,
    fold: Ints,
    predicted: _Predicted,
    seed: int,
    quantile: Callable[[Floats, float], float] | None = None,
    sure: Mask | None = None,
) -> HeldOut:
    (cycles, energy, dram, support), x = predicted.costs, predicted.x
    error = np.log(data.cycles / cycles)
    known = np.ones(len(data), dtype=bool) if sure is None else sure
    scale, factor = _calibrated(x, data, fold, error, seed, quantile, known)
    spread = np.exp(log_spread(factor, scale))
    low, high = cycles / spread, cycles * spread
    return HeldOut(cycles, energy, dram, error, np.abs(error) / scale, low, high, support, x)


def _applied(ratios: Ratios, data: Dataset, read: Rows, tested: npt.NDArray[np.bool_]) -> Floats:
    rows = tested[data.owner]
    x = singles(read, rows)

    def whole(per_nest: Floats) -> Floats:
        full = np.zeros(len(data.owner))
        full[rows] = per_nest
        return data.summed(full)[tested]

    cycles = data.analytic_cycles(ratios.unit_costs)[rows] * np.exp(ratios.log_cycles(x))
    energy = data.dynamic_fj[rows] + data.leak_fj[rows] * cycles
    energy = energy * np.exp(ratios.log_energy(x))
    dram = data.moved_bytes[rows] * np.exp(ratios.log_dram(x))
    forests = ratios.cycle_forests
    support = np.full(int(tested.sum()), np.nan)
    if forests:
        support = Support(forests).of(read[data.main[tested]])
    return np.stack([whole(cycles), whole(energy), whole(dram), support])


def _calibrated(
    x: Rows,
    data: Dataset,
    fold: Ints,
    error: Floats,
    seed: int,
    quantile: Callable[[Floats, float], float] | None,
    sure: Mask,
) -> tuple[Floats, Floats]:
    """Predicted size of every error [r] and the conformal factor on it [r], both from other folds,
    so that the coverage reported is one on unseen networks. ``quantile`` of scores of ``sure`` rows gives the factor
    (None: that of networks)."""
    scale = np.ones(len(data))
    for index in range(FOLDS):
        tested = fold == index
        if tested.any() and not tested.all():
            trees = boost_scale(singles(x, ~tested), error[~tested], seed)
            scale[tested] = scale_of(trees, singles(x, tested))
    scores = np.abs(error) / scale
    factor = np.ones(len(data))
    is_narrow = narrow_rows(x, data)

    def of(rows: Mask) -> float:
        if quantile is not None:
            return quantile(scores[rows], COVERAGE)
        return network_quantile(scores[rows], data.networks[rows], COVERAGE)

    for index in range(FOLDS):
        tested = fold == index
        others = ~tested & sure
        if tested.any() and others.any():
            plain, wider = factors(is_narrow, others, of)
            factor[tested] = np.where(is_narrow[tested], plain * wider, plain)
    return scale, factor


def narrow_rows(x: Rows, data: Dataset) -> Mask:
    """Return the rows of ``x`` [r, F] whose products are narrow; none where features do not tell."""
    names = data.model.feature_names
    if NARROW_SHARE not in names:
        return np.zeros(len(x), dtype=bool)
    return np.asarray(x[:, names.index(NARROW_SHARE)] > 0.0, dtype=bool)
