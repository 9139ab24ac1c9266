"""Out-of-fold predictions: what the cost model says about networks it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.dataset import Dataset
from autotune.cost_model.metrics import (
    coverage,
    group_metrics,
    mape,
    median_error,
    regret,
    within,
    within_groups,
)
from autotune.cost_model.support import Support
from autotune.cost_model.training import (
    COVERAGE,
    FOLDS,
    Ratios,
    boost_scale,
    conformal_quantile,
    network_quantile,
    scale_of,
    singles,
    train,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST_CHOICES = 30
"""Groups with a choice from which on a lower regret outweighs a larger error."""

WORKERS = 2
"""Folds trained at a time; more would not help where two cores are shared with measurements."""

ForEach = Callable[[Callable[[int], None], Iterable[int]], None]
"""Calls a function with every fold, in any order, and raises what that raises."""


def in_threads(learn: Callable[[int], None], folds: Iterable[int]) -> None:
    """Train ``WORKERS`` folds at a time: training leaves Python, each fold on one core."""
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(learn, folds))


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
    """Predictions of every measurement [r] by trees of other folds: cycles, femtojoules, DRAM
    bytes; ``error`` is log(measured / predicted) cycles, ``scores`` its size over the predicted
    size, ``low`` and ``high`` the interval in cycles, ``support`` that of the trees for cycles (NaN without)."""

    cycles: Floats
    energy_fj: Floats
    dram_bytes: Floats
    error: Floats
    scores: Floats
    low: Floats
    high: Floats
    support: Floats

    def improves_on(self, simpler: HeldOut, data: Dataset) -> bool:
        """Return True if these predictions earn their place beside those of a simpler model.

        They do with a smaller error and no larger regret, however few groups tell, or with a regret that is lower by
        more than two standard errors of at least ``FEWEST_CHOICES`` groups' differences.
        """
        keys = data.keys.tolist()
        ours, theirs = (
            within_groups(regret, data.cycles, one.cycles, keys) for one in (self, simpler)
        )
        gain = theirs - ours
        mean, spread = float(gain.mean()) if len(gain) else 0.0, np.inf
        if len(gain) >= FEWEST_CHOICES:
            spread = float(gain.std(ddof=1)) / np.sqrt(len(gain))
        is_closer = mape(data.cycles, self.cycles) < mape(data.cycles, simpler.cycles)
        return bool(mean > 2.0 * spread or (mean >= 0.0 and is_closer))

    def metrics(self, data: Dataset) -> dict[str, float]:
        """Figures about networks that were not trained on; rates are shares, ranks and regrets are within
        groups."""
        keys = data.keys.tolist()
        return {
            "mape": mape(data.cycles, self.cycles),
            "analytic_mape": mape(data.cycles, data.summed(data.estimate)),
            "median_error": median_error(data.cycles, self.cycles),
            "within_5": within(data.cycles, self.cycles, 0.05),
            "within_10": within(data.cycles, self.cycles, 0.10),
            **group_metrics(data.cycles, self.cycles, keys),
            "coverage": coverage(data.cycles, self.low, self.high),
            "energy_mape": mape(data.energy_fj, self.energy_fj),
            "dram_mape": mape(data.dram_bytes, self.dram_bytes),
            "n": float(len(data)),
            "networks": float(len(np.unique(data.networks))),
        }

    def as_baseline(self, data: Dataset) -> dict[str, float]:
        """Error and regret of the plain formula, which the chosen model stands beside."""
        keys = data.keys.tolist()
        return {
            "formula_mape": mape(data.cycles, self.cycles),
            "formula_top1_regret": group_metrics(data.cycles, self.cycles, keys)["top1_regret"],
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


def hold_out(
    data: Dataset,
    fold: Ints,
    seed: int,
    base: Ratios | None = None,
    for_each: ForEach = in_threads,
) -> tuple[HeldOut, HeldOut]:
    """Predict every fold [r] by what the others teach, without any group that occurs in it; ``base`` is
    the shared model's part that they refine, ``for_each`` calls for every fold.

    Return predictions with trees for cycles, and those of the analytic formula with the prices that the
    other folds teach.
    """
    guided, formula = np.ones((4, len(data))), np.ones((4, len(data)))
    group = np.unique(data.keys, return_inverse=True)[1]

    def learn(index: int) -> None:
        tested = fold == index
        known = ~np.isin(group, group[tested])
        if tested.any() and known.any():
            ratios = train(data, known, seed, base)
            guided[:, tested] = _applied(ratios, data, tested)
            formula[:, tested] = _applied(ratios.as_formula(), data, tested)

    for_each(learn, range(FOLDS))
    return _judged(data, fold, guided, seed), _judged(data, fold, formula, seed)


def as_it_is(data: Dataset, fold: Ints, seed: int, base: Ratios) -> HeldOut:
    """Judge a shared model on measurements that it was not trained on."""
    everywhere = np.ones(len(data), dtype=bool)
    return _judged(data, fold, _applied(Ratios.untrained(base), data, everywhere), seed)


def hold_out_machines(
    data: Dataset, machine_fold: Ints, fold: Ints, seed: int
) -> tuple[Dataset, HeldOut, HeldOut]:
    """Predict measurements of machines and networks that the trees know neither of.

    Folds [r] are those of the machine and of the network. A fold's trees see the other machines on the
    other networks. Return the measurements whose folds are equal, one in ``FOLDS``, and predictions with
    trees for cycles and without.
    """
    guided, formula = np.ones((4, len(data))), np.ones((4, len(data)))
    tested = machine_fold == fold
    group = np.unique(data.keys, return_inverse=True)[1]

    def learn(index: int) -> None:
        here = tested & (fold == index)
        known = (machine_fold != index) & (fold != index) & ~np.isin(group, group[here])
        if here.any() and known.any():
            ratios = train(data, known, seed, shared=True)
            guided[:, here] = _applied(ratios, data, here)
            formula[:, here] = _applied(ratios.as_formula(), data, here)

    in_threads(learn, range(FOLDS))
    judged, folds = data.take(tested), fold[tested]
    with_trees = _judged(judged, folds, guided[:, tested], seed, conformal_quantile)
    without = _judged(judged, folds, formula[:, tested], seed, conformal_quantile)
    return judged, with_trees, without


def _judged(
    data: Dataset,
    fold: Ints,
    predicted: Floats,
    seed: int,
    quantile: Callable[[Floats, float], float] | None = None,
) -> HeldOut:
    cycles, energy, dram, support = predicted
    error = np.log(data.cycles / cycles)
    scale, factor = _calibrated(data, fold, error, seed, quantile)
    spread = np.exp(factor * scale)
    scores = np.abs(error) / scale
    return HeldOut(cycles, energy, dram, error, scores, cycles / spread, cycles * spread, support)


def _applied(ratios: Ratios, data: Dataset, tested: npt.NDArray[np.bool_]) -> Floats:
    rows = tested[data.owner]
    x = singles(data.x, rows)

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
        support = Support(forests).of(singles(data.main_x, tested))
    return np.stack([whole(cycles), whole(energy), whole(dram), support])


def _calibrated(
    data: Dataset,
    fold: Ints,
    error: Floats,
    seed: int,
    quantile: Callable[[Floats, float], float] | None,
) -> tuple[Floats, Floats]:
    """Predicted size of every error [r] and the conformal factor on it [r], both from other folds,
    so that the coverage reported is one on unseen networks. ``quantile`` of scores gives the factor (None: that
    of networks)."""
    x = data.main_x
    scale = np.ones(len(data))
    for index in range(FOLDS):
        tested = fold == index
        if tested.any() and not tested.all():
            trees = boost_scale(singles(x, ~tested), error[~tested], seed)
            scale[tested] = scale_of(trees, singles(x, tested))
    scores = np.abs(error) / scale
    factor = np.ones(len(data))
    for index in range(FOLDS):
        tested = fold == index
        if tested.any() and not tested.all():
            if quantile is not None:
                factor[tested] = quantile(scores[~tested], COVERAGE)
            else:
                others = data.networks[~tested]
                factor[tested] = network_quantile(scores[~tested], others, COVERAGE)
    return scale, factor
