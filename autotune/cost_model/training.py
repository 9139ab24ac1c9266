"""Gradient-boosted trees over log ratios: how the cost model's learned parts are trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.cost_model.dataset import Dataset
from autotune.cost_model.estimate import Rows
from autotune.cost_model.forest import Forest
from autotune.store.records import LIMIT

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FOLDS = 5
GENERATED = "workload:"
"""How the networks of generated graphs begin (``datasets.workloads``)."""
FEWEST_NETWORKS = 20
"""Networks from which on they calibrate intervals: nine could hold 90 % of a tenth by their worst score alone."""
COVERAGE = 0.9
"""Share of measurements that intervals are calibrated to hold."""
NARROW_SHARE = "narrow_share"
"""Feature that is above 0 where products are narrow."""
FEWEST_OF_A_FORMAT = 100
"""Held-out rows of narrow programs, and of others, from which on each calibrate intervals of their own."""
LEAST_NARROWING = 0.1
"""Least factor of narrow programs over that of others."""
MIN_SCALE = 0.002
"""Smallest scale of an error: keeps a calm region's interval from shrinking to nothing."""
WIDEST = math.log(LIMIT)
"""Half the width of the widest interval, in logarithms: it holds every cost that is measured. Where most programs are
predicted to a thousandth, the factor that holds the others is in the hundreds, and some have a large scale as well."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How trees are grown: ``rounds`` trees of ``depth``, of each of which the share ``eta`` counts.

    A leaf weighs at least ``leaf_weight``; ``pull`` draws leaves to zero. Errors beyond ``slope`` count by their
    size instead of its square."""

    rounds: int = 200
    depth: int = 5
    eta: float = 0.1
    leaf_weight: float = 0.05
    pull: float = 1.0
    slope: float = 0.1


COUNTED = Growth()
"""For costs that a machine counts: the same again every time, so that one measurement may be a leaf."""
TIMED = Growth(depth=4, eta=0.05, leaf_weight=5.0, pull=10.0)
"""For times on shared hardware: as ``COUNTED``, trees learn single groups' noise, and the held-out error of
1 500 programs on two cores was 29.7 % instead of 27.9 %."""
SHARED = Growth(slope=0.03)
"""For many machines: most programs take what the formula says, to a per cent, and few take far more."""
PRICED = Growth(rounds=400, depth=4, eta=0.05, leaf_weight=1.0, pull=3.0)
"""For what prices leave of counted costs, which is less: single leaves learn noise."""
PRICED_TIMED = Growth(depth=4, eta=0.05, leaf_weight=5.0, pull=10.0)
"""The same for times on shared hardware."""
REFINED = Growth(rounds=40, depth=2, leaf_weight=3.0, pull=5.0)
"""For fewer than ``FEW`` measurements that refine a shared model: with deeper trees 25 to 100 of them made its
error on 35 unseen machines larger (4.6 % to 5.4 %), with these it stays or falls."""
FEW = 400
SIDE = Growth(rounds=40)
SCALE = Growth(rounds=60, depth=3)
MORE_ROUNDS = 20
"""Trees that a continued training adds."""


MOST_BINS = 128
"""Of a feature's values, between which trees split."""
BLOCK = 1 << 16
"""Rows that are copied at a time."""


def singles(x: Rows, rows: npt.NDArray[np.bool_]) -> Rows:
    """Return the chosen ``rows`` [n] of ``x`` [n, F] in single precision, which is what trees read.

    They are copied block by block: of a million rows every copy counts.
    """
    places = np.flatnonzero(rows)
    found = np.empty((len(places), x.shape[1]), dtype=np.float32)
    for begin in range(0, len(places), BLOCK):
        found[begin : begin + BLOCK] = x[places[begin : begin + BLOCK]]
    return found


def boost(
    x: Rows,
    y: Floats,
    weight: Floats,
    seed: int,
    growth: Growth = COUNTED,
    after: Forest | None = None,
) -> Forest:
    """Trees that predict ``y`` [n] from ``x`` [n, F] (Chen and Guestrin 2016, XGBoost, KDD): those of ``after``,
    and more that learn what these leave."""
    import xgboost as xgb  # takes a second; predicting needs none of it

    parameters = {
        "objective": "reg:pseudohubererror",
        "huber_slope": growth.slope,
        "tree_method": "hist",
        "max_depth": growth.depth,
        "max_bin": MOST_BINS,
        "eta": growth.eta,
        "subsample": 0.8,
        "colsample_bytree": 0.5,
        "min_child_weight": growth.leaf_weight,
        "lambda": growth.pull,
        "base_score": float(np.average(y, weights=weight)),
        "seed": seed if after is None else seed + len(after.roots),
        "nthread": 1,
        "verbosity": 0,
    }
    start = None if after is None else after.predict(x)
    # bins alone are kept: a DMatrix holds eight bytes of every feature as well, and gives the same trees
    matrix = xgb.QuantileDMatrix(
        x, y, weight=weight, base_margin=start, max_bin=MOST_BINS, nthread=1
    )
    return Forest.of(xgb.train(parameters, matrix, num_boost_round=growth.rounds), after)


@dataclass(frozen=True, slots=True)
class Ratios:
    """Trees for log(measured / analytic) cycles, energy and DRAM bytes of a nest, and the
    ``unit_costs`` [W] behind its analytic cycles (W may be 0). A tree is None where nothing can be
    learned: energy that is not measured, DRAM bytes behind a cache."""

    cycles: Forest | None
    energy: Forest | None
    dram: Forest | None
    unit_costs: Floats
    base: Ratios | None = None
    """Ratios of a shared model that these refine: logarithms add up."""
    is_raw: bool = False
    """True if they are to counted work at fitted prices, and trees read raw features."""

    def log_cycles(self, x: Rows) -> Floats:
        """Log ratio [n] of cycles."""
        return evaluate(self.cycles, x) + (0.0 if self.base is None else self.base.log_cycles(x))

    def log_energy(self, x: Rows) -> Floats:
        """Log ratio [n] of energy."""
        return evaluate(self.energy, x) + (0.0 if self.base is None else self.base.log_energy(x))

    def log_dram(self, x: Rows) -> Floats:
        """Log ratio [n] of DRAM bytes."""
        return evaluate(self.dram, x) + (0.0 if self.base is None else self.base.log_dram(x))

    @property
    def cycle_forests(self) -> tuple[Forest, ...]:
        """Trees whose predictions add up to ``log_cycles``; none for a formula."""
        own = () if self.cycles is None else (self.cycles,)
        return own if self.base is None else (*own, *self.base.cycle_forests)

    @property
    def is_formula(self) -> bool:
        """True if no trees correct the analytic cycles."""
        return self.cycles is None and (self.base is None or self.base.is_formula)

    def as_formula(self) -> Ratios:
        """Return the ratios without trees for cycles."""
        base = None if self.base is None else self.base.as_formula()
        return replace(self, cycles=None, base=base)

    @classmethod
    def untrained(cls, base: Ratios) -> Ratios:
        """Return ratios that leave a shared model as it is."""
        return cls(None, None, None, base.unit_costs, base)


def train(
    data: Dataset,
    chosen: npt.NDArray[np.bool_],
    seed: int,
    base: Ratios | None = None,
    *,
    shared: bool = False,
    before: Ratios | None = None,
) -> Ratios:
    """Train on the ``chosen`` measurements [r]. A measurement of several nests trains each nest with
    the ratio of the whole, weighted by the nest's share. With ``base``, train what it leaves.

    ``before`` are ratios with the same ``base``: their trees stay, and ``MORE_ROUNDS`` learn what all leave at
    their unit costs."""
    rows = chosen[data.owner]
    unit_costs = data.fit(chosen) if before is None else before.unit_costs
    x = singles(data.rows(unit_costs), rows)
    weight = (data.part * data.weight[data.owner])[rows]

    def ratio(
        measured: Floats, analytic: Floats, growth: Growth, after: Forest | None = None
    ) -> Forest:
        target = np.log(np.maximum(measured, 1.0) / np.maximum(analytic, 1.0))[data.owner][rows]
        if before is not None:
            growth = replace(growth, rounds=MORE_ROUNDS)
        return boost(x, target, weight, seed, growth, after)

    few = base is not None and int(chosen.sum()) < FEW
    growth = SHARED if shared else TIMED if data.spec.timed else REFINED if few else COUNTED
    if data.is_raw:
        growth = PRICED_TIMED if data.spec.timed else PRICED
    known = Ratios(None, None, None, unit_costs) if before is None else before
    analytic = data.analytic_cycles(unit_costs)
    energy = data.dynamic_fj + data.leak_fj * data.part * data.cycles[data.owner]
    moved = data.moved_bytes
    if base is not None:
        analytic = analytic * np.exp(base.log_cycles(data.x))
        energy = energy * np.exp(base.log_energy(data.x))
        moved = moved * np.exp(base.log_dram(data.x))
    has_energy = bool(data.energy_fj.any())
    has_dram = bool(data.dram_bytes.any()) and not data.spec.timed
    return Ratios(
        ratio(data.cycles, data.summed(analytic), growth, known.cycles),
        ratio(data.energy_fj, data.summed(energy), SIDE, known.energy) if has_energy else None,
        ratio(data.dram_bytes, data.summed(moved), SIDE, known.dram) if has_dram else None,
        unit_costs,
        base,
        data.is_raw,
    )


def evaluate(forest: Forest | None, x: Rows) -> Floats:
    """Predictions [n], 0 where nothing was learned."""
    return np.zeros(len(x)) if forest is None else forest.predict(x)


def folds(
    networks: npt.NDArray[np.str_], keys: npt.NDArray[np.str_], rng: np.random.Generator
) -> Ints:
    """Fold [r] of every measurement, by network; by group where there are too few networks.

    Networks are dealt from the largest down to the fold that has least, ties in random order.
    """
    names = networks if len(np.unique(networks)) >= FOLDS else keys
    unique, inverse, counts = np.unique(names, return_inverse=True, return_counts=True)
    shuffled = rng.permutation(len(unique))
    fold_of = np.zeros(len(unique), dtype=np.int64)
    load = np.zeros(FOLDS, dtype=np.int64)
    for name in sorted(shuffled.tolist(), key=lambda i: -int(counts[i])):
        fold_of[name] = int(np.argmin(load))
        load[fold_of[name]] += counts[name]
    return fold_of[inverse]


def scale_of(forest: Forest, x: Rows) -> Floats:
    """Typical size of the log error at ``x`` [n]."""
    return np.maximum(np.exp(forest.predict(x)), MIN_SCALE)


def log_spread(factor: float | Floats, scale: float | Floats) -> Floats:
    """Return half the width [n] of intervals in logarithms, of sizes of errors; at most ``WIDEST``."""
    found: Floats = np.minimum(factor * np.asarray(scale, dtype=np.float64), WIDEST)
    return found


def boost_scale(x: Rows, error: Floats, seed: int) -> Forest:
    """Trees that predict log |log error|: where the model is sure and where it is not."""
    target = np.log(np.maximum(np.abs(error), MIN_SCALE))
    return boost(x, target, np.ones(len(target)), seed, SCALE)


def network_quantile(scores: Floats, networks: npt.NDArray[np.str_], share: float) -> float:
    """Return the score that covers ``share`` of the rows of a new network.

    Rows of one network err alike, so that networks are what is exchangeable: each counts as one, and the new
    one as another whose scores are infinite (Dunn, Wasserman and Ramdas 2023, *Distribution-free prediction
    sets for two-layer hierarchical models*, JASA 118; Lee, Barber and Willett 2023). Generated graphs are no
    sample of networks: they count only where there are fewer than ``FEWEST_NETWORKS`` others. With fewer of
    both, rows count.
    """
    real = np.array([not name.startswith(GENERATED) for name in networks.tolist()], dtype=bool)
    if len(np.unique(networks[real])) >= FEWEST_NETWORKS:
        scores, networks = scores[real], networks[real]
    elif len(np.unique(networks)) < FEWEST_NETWORKS:
        return conformal_quantile(scores, share)
    _, inverse, counts = np.unique(networks, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    covered = np.cumsum((1.0 / counts[inverse])[order]) / (len(counts) + 1)
    at = int(np.searchsorted(covered, share - 1e-12))
    return float(scores[order[min(at, len(scores) - 1)]])


def factors(is_narrow: Mask, known: Mask, quantile: Callable[[Mask], float]) -> tuple[float, float]:
    """Return the factor of intervals, and how much larger that of narrow programs is: conformal by group (Vovk 2012,
    *Conditional validity of inductive conformal predictors*, ACML).

    ``quantile`` gives the score that holds enough of the chosen rows [r] out of ``known`` ones. The factor is one for all
    where either kind has fewer than ``FEWEST_OF_A_FORMAT`` rows.
    """
    narrow, others = known & is_narrow, known & ~is_narrow
    if min(narrow.sum(), others.sum()) < FEWEST_OF_A_FORMAT:
        return quantile(known), 1.0
    factor = max(quantile(others), float(np.finfo(np.float32).tiny))
    return factor, max(quantile(narrow) / factor, LEAST_NARROWING)


def conformal_quantile(scores: Floats, share: float) -> float:
    """The score that covers ``share`` of new rows (Lei et al. 2018, *Distribution-free predictive
    inference for regression*, JASA 113): the ⌈(n + 1) · share⌉-th smallest."""
    rank = min(len(scores), int(np.ceil((len(scores) + 1) * share)))
    return float(np.sort(scores)[rank - 1])
