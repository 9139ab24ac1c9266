"""The kinds of work that a nest makes a CPU do: ``work_counts.py`` counts them, ``unit_costs.py`` learns what
one of each costs on a machine.

A row of ``WORK_KINDS`` is a kind: its name, unit, typical price in cycles (Zen 3) and meaning. To add one, add
a row, count it where it happens, and raise ``FEATURE_VERSION``: parts are features too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.isa.functions import BinaryFn, ElementwiseFn, Origin, UnaryFn

Floats = npt.NDArray[np.float64]
Quantity = Floats | npt.NDArray[np.int64] | float


@dataclass(frozen=True, slots=True)
class WorkKind:
    """A kind of work; ``unit_cost_cycles`` is what a unit of it costs before anything was measured."""

    name: str
    unit: str
    unit_cost_cycles: float
    doc: str


def function_kind(fn: ElementwiseFn) -> str:
    """Return the name of the kind that a costly function has for itself."""
    return fn.name.lower()


def _function_kind(fn: ElementwiseFn) -> WorkKind:
    unit = "elements" if fn.row.origin is Origin.LIBRARY else "vectors"
    return WorkKind(function_kind(fn), "1", fn.row.cpu_cycles, f"{unit} of {fn.name}")


WORK_KINDS: tuple[WorkKind, ...] = (
    WorkKind("nest", "1", 80.0, "programs"),
    WorkKind("sync", "1", 500.0, "programs that several cores share"),
    WorkKind("borders", "1", 15.0, "places of a result where what two cores write touches"),
    WorkKind("trips", "1", 8.0, "loop bodies"),
    WorkKind("product", "1", 1.05, "cycles of products' multiply-adds"),
    WorkKind("product_waits", "1", 1.05, "cycles by which loads and latency exceed them"),
    WorkKind("product_broadcasts", "1", 0.03, "elements of the broadcast factor"),
    WorkKind("product_tiles", "1", 12.0, "register tiles"),
    WorkKind("product_ends", "1", 2.0, "vectors of their sums"),
    WorkKind(
        "product_turned", "1", 0.7, "cycles of products whose results are stored in another order"
    ),
    WorkKind("product_calls", "1", 40.0, "products"),
    WorkKind("panels_l2", "bytes", 0.005, "factors in lanes that come from the second-level cache"),
    WorkKind("panels_l3", "bytes", 0.03, "factors in lanes that come from beyond it"),
    WorkKind("panels_far", "bytes", 0.05, "the same, of nests whose tensors crowd the last cache"),
    WorkKind("packed", "1", 0.9, "elements of factors in lanes that are not packed ahead"),
    WorkKind("sums", "1", 0.2, "results that a further piece of a reduction adds to"),
    WorkKind("calls", "1", 30.0, "element-wise runs and reductions"),
    WorkKind("passes", "1", 0.5, "vectors that they read and write"),
    WorkKind("rows", "1", 2.0, "rows of memory in them"),
    WorkKind("divisions", "1", 5.0, "vectors divided or rooted"),
    *(_function_kind(fn) for fn in (*UnaryFn, *BinaryFn) if fn.row.cpu_cycles),
    WorkKind("strided", "1", 0.8, "elements read or written without unit stride"),
    WorkKind("reduced", "1", 0.9, "vectors that reductions read"),
    WorkKind("folds", "1", 6.0, "rows that a reduction folds to one element"),
    WorkKind("window", "1", 0.8, "vectors that windows read"),
    WorkKind("taps", "1", 1.3, "vectors that the taps of depthwise convolutions read"),
    WorkKind("copies", "1", 60.0, "transfers that copy, and masks"),
    WorkKind("copied", "1", 0.3, "elements that they copy"),
    WorkKind("copied_rows", "1", 18.0, "rows that transfers with padding copy"),
    WorkKind("masked", "1", 0.2, "elements of tiles that a mask may write"),
    WorkKind("squares", "1", 1.0, "squares of registers that transpositions turn"),
    WorkKind("squared", "1", 0.3, "elements of them"),
    WorkKind("squared_set", "1", 1.0, "of them, those whose lines fall into few sets of a cache"),
    WorkKind("interleaved", "1", 2.8, "vectors that transpositions put side by side"),
    WorkKind(
        "turned_far", "1", 1.0, "elements transposed in tensors that an L2 cache does not hold"
    ),
    WorkKind("turned_lost", "1", 1.0, "the same, in tensors that crowd the last cache"),
    WorkKind(
        "from_l2", "bytes", 0.02, "traffic between tiles and tensors, from beyond a core's L1"
    ),
    WorkKind("from_l3", "bytes", 0.02, "the same, from beyond its L2"),
    WorkKind("from_dram", "bytes", 0.1, "the same, from beyond all caches"),
)
INDEX = {part.name: column for column, part in enumerate(WORK_KINDS)}
UNIT_COSTS: Floats = np.array([part.unit_cost_cycles for part in WORK_KINDS])
"""What parts cost before anything was measured."""


TYPICAL_ERROR, TYPICAL_FACTOR = 0.34, 1.9
"""Mean error (a fraction) of predictions at typical prices, and the factor that 90 % of measurements lay within: 1,244
programs of 234 groups on one thread of a Zen 4. Half lay within a factor of 1.2."""


def _feature_of(kind: str) -> str:
    """Return the feature that counts a kind: costly functions share one, for few programs have any of them."""
    costly = {function_kind(fn) for fn in (*UnaryFn, *BinaryFn) if fn.row.cpu_cycles}
    return "functions" if kind in costly else kind


_COUNTED = tuple(dict.fromkeys(_feature_of(kind.name) for kind in WORK_KINDS))
_PLACES = np.array([_COUNTED.index(_feature_of(kind.name)) for kind in WORK_KINDS])
FEATURE_NAMES = (
    *(f"log_{name}" for name in _COUNTED),
    *(f"{name}_share" for name in _COUNTED),
    "log_estimate",
)
"""Columns of ``work_features``."""


LOG_STEP, SHARE_STEP = 0.5, 0.1
"""Steps of features. On 1,498 programs of 149 networks, held out on one thread of a Zen 5, trees over exact features
choose worse than the formula (regret 6.4 % beside 4.7 %); over rounded ones as well as it, and err as little."""


class Tally:
    """Counts [n, len(WORK_KINDS)] of ``n`` schedules, of the core that has most to do."""

    def __init__(self, n: int) -> None:
        self.counts: Floats = np.zeros((n, len(WORK_KINDS)))

    def add(self, weight: Quantity, **each: Quantity) -> None:
        """``weight`` times so much of each part; both [n], or [c, n] for kinds of tiles."""
        for name, value in each.items():
            total = np.asarray(weight * np.asarray(value), dtype=np.float64)
            self.counts[:, INDEX[name]] += total.sum(axis=0) if total.ndim == 2 else total


def cycles_at(work: Floats, unit_costs: Floats) -> Floats:
    """Return the cycles [n] of counted work [n, W] at unit costs [W], at least one."""
    return np.maximum(1.0, work @ unit_costs)


def beyond(size_bytes: float, held_bytes: Quantity) -> Floats:
    """Share of what is held that a cache of a size does not hold."""
    share: Floats = np.maximum(0.0, 1.0 - size_bytes / np.maximum(held_bytes, 1.0))
    return share


def work_features(counts: Floats) -> Floats:
    """Features [n, F], named ``FEATURE_NAMES``: cycles of each part at typical prices, as logs and as shares of
    their sum, and the sum.

    They are rounded, so that trees learn how groups differ, not the schedules of one: these differ by less than
    trees of some hundred groups know.
    """
    cycles = np.zeros((len(counts), len(_COUNTED)))
    np.add.at(cycles.T, _PLACES, (counts * UNIT_COSTS).T)
    total = cycles.sum(axis=1, keepdims=True)
    sizes, shares, size = np.log1p(cycles), cycles / total, np.log(total)
    return np.concatenate(
        [_rounded(sizes, LOG_STEP), _rounded(shares, SHARE_STEP), _rounded(size, LOG_STEP)], axis=1
    )


def _rounded(values: Floats, step: float) -> Floats:
    """Return values in whole steps."""
    found: Floats = np.round(values / step) * step
    return found
