"""Ways to propose precisions at equal numbers of trials, by the prices and losses of one search: a part of `make bench-precision`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from unittest.mock import patch

from autotune.api import network_search
from autotune.api.precision_search import FINALISTS, PrecisionSearches
from autotune.quantisation.assignment_prices import AssignmentPrices
from autotune.quantisation.precision_study import (
    DEFAULT,
    PROPOSERS,
    SAMPLED,
    PrecisionStudy,
    Price,
    Proposer,
)
from autotune.quantisation.qdq import Formats
from autotune.quantisation.space import PrecisionSpace
from autotune.quantisation.steps import Gains
from autotune.tuner.progress import silent
from benchmarks.table import Table

NETWORKS = ("mlp", "bert_small", "mobilenet_v2")
TARGET = "edge"
SEEDS = 3
SHARES = (0.25, 0.5, 1.0)
"""Of the rule's trials, after which the cheapest choice within the limit counts."""
WAYS = {
    "the rule alone": PROPOSERS["greedy"],
    "NSGA-II alone": Proposer("NSGA-II", has_rule=False, sampler=DEFAULT.sampler),
    "TPE alone": PROPOSERS["tpe"],
    "random alone": PROPOSERS["random"],
    "the default": DEFAULT,
}
ASKED = 4
"""Times the trials that a sampler may ask for, as it repeats itself."""


@dataclass(frozen=True, slots=True)
class Trials:
    """What the ways found of one network: after each share of ``count`` trials the cheapest predicted cost within the
    limit, as a share of float32's, by way and seed."""

    count: int
    shares: dict[str, list[list[float]]]


def measured_trials(search: Callable[[], object], limit: float) -> Trials:
    """Run ``search``, a call of ``api.search``; then try every way by what its searches taught."""
    found: list[Trials] = []

    class Compared(PrecisionSearches):
        def _search_space(
            self, space: PrecisionSpace, prices: AssignmentPrices, folder: Path
        ) -> None:
            super()._search_space(space, prices, folder)
            found.append(_compared(space, prices, limit))

    with patch.object(network_search, "PrecisionSearches", Compared):
        search()
    return found[0]


def _compared(space: PrecisionSpace, prices: AssignmentPrices, limit: float) -> Trials:
    known: dict[frozenset[tuple[str, str]], float] = {}

    def price(formats: Formats) -> float:
        key = frozenset((name, str(format)) for name, format in formats.items())
        if key not in known:
            known[key] = prices.price(formats)
        return known[key]

    gains, plain = prices.gains(), price({})
    rule, *_ = WAYS.values()
    count = len(_study(space, price, limit, rule, 0, gains, None).tried)
    shares = {}
    for way, proposer in WAYS.items():
        seeds = range(SEEDS if proposer.sampler is not None else 1)
        studies = [_study(space, price, limit, proposer, seed, gains, count) for seed in seeds]
        shares[way] = [
            [_cheapest(one, limit, share * count, plain) for share in SHARES] for one in studies
        ]
    return Trials(count, shares)


def _study(
    space: PrecisionSpace,
    price: Price,
    limit: float,
    proposer: Proposer,
    seed: int,
    gains: Gains,
    count: int | None,
) -> PrecisionStudy:
    """Try ``count`` different choices or more, where so many are proposed; None: as many as the rule proposes."""
    study = PrecisionStudy(space, price, limit, proposer, seed)
    rounds = (
        [SAMPLED, *[0] * (FINALISTS - 1)] if proposer.has_rule else [1] * (ASKED * (count or 0))
    )
    for sampled in rounds:
        if count is None or len(study.tried) < count:
            study.propose(gains, sampled, silent)
    return study


def _cheapest(study: PrecisionStudy, limit: float, count: float, plain: float) -> float:
    """Return the cheapest of the first ``count`` choices within the limit as a share of float32's cost, 1 where none is."""
    first = study.tried[: round(count)]
    costs = (one.cost for one in first if one.greater_loss <= limit)
    return min((plain, *costs)) / plain


def trials_table(found: Mapping[str, Trials]) -> Table:
    """Return the table of all networks: mean and worst over seeds."""
    columns = ("network", "proposed by", *(f"{share:.0%} of trials" for share in SHARES))
    rows = [
        (f"{name} ({one.count} trials)", way, *map(_cell, zip(*seeds, strict=True)))
        for name, one in found.items()
        for way, seeds in one.shares.items()
    ]
    return Table("", columns, tuple(rows))


def _cell(shares: Sequence[float]) -> str:
    if len(shares) == 1:
        return f"{shares[0]:.3f}"
    return f"{mean(shares):.3f}, worst {max(shares):.3f}"
