"""Tables of docs/figures-search.md: costs at equal numbers of measurements, and factors between strategies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.tuner.options import DEFAULT_MEASURE, DEFAULT_STRATEGY
from benchmarks.search_runs import GRID, Run
from benchmarks.table import Table

COUNTS = (8, 16, 32, 64, 128)
NEAR = 1.02
"""Cost over the best known from which a search has arrived."""
RIVALS = ("random", "tpe")
NEVER = "–"


@dataclass(frozen=True, slots=True)
class Contest:
    """All runs on one network and machine."""

    network: str
    target: str
    runs: tuple[Run, ...]

    @property
    def best(self) -> float:
        """Cycles of the best plan that any run found."""
        return min(run.curve[-1] for run in self.runs)

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names of the strategies, in the order of their runs."""
        return tuple(dict.fromkeys(run.case.strategy for run in self.runs))

    def of(self, strategy: str) -> tuple[Run, ...]:
        """Return the runs of a strategy, one for each seed."""
        return tuple(run for run in self.runs if run.case.strategy == strategy)

    def over_best(self, strategy: str, measurements: int) -> list[float]:
        """Return cost over the best known after so many measurements, for each seed."""
        return [run.at(measurements) / self.best for run in self.of(strategy)]

    def arrival(self, strategy: str) -> float:
        """Return the median measurements until within ``NEAR`` of the best known; infinity for never."""
        return statistics.median_high(run.until(NEAR * self.best) for run in self.of(strategy))


def contests(runs: Sequence[Run]) -> tuple[Contest, ...]:
    """Group runs by network and machine."""
    kinds = dict.fromkeys((run.case.network, run.case.target) for run in runs)
    return tuple(
        Contest(*kind, tuple(r for r in runs if (r.case.network, r.case.target) == kind))
        for kind in kinds
    )


CURVE_COLUMNS = (
    "strategy",
    *(f"n = {count}" for count in COUNTS),
    f"within {NEAR - 1:.0%} at n =",
    "seeds that got there",
    "CPU seconds",
)


def curve_table(contest: Contest) -> Table:
    """Return a row for each strategy, after the plans that need no search."""
    run, blank = contest.runs[0], ("",) * (len(CURVE_COLUMNS) - 2)
    rows = [
        ("unfused plan", f"{run.unfused / contest.best:.3f}", *blank),
        ("heuristic plan", f"{run.heuristic / contest.best:.3f}", *blank),
    ]
    rows += [_curve_row(contest, strategy) for strategy in contest.strategies]
    title = f"**{contest.network} on {contest.target}** (best known: {contest.best:,.0f} cycles)"
    return Table(title, CURVE_COLUMNS, tuple(rows))


def _curve_row(contest: Contest, strategy: str) -> tuple[str, ...]:
    runs = contest.of(strategy)
    costs = [contest.over_best(strategy, count) for count in COUNTS]
    arrived = sum(math.isfinite(run.until(NEAR * contest.best)) for run in runs)
    return (
        strategy,
        *(f"{statistics.mean(some):.3f} ({max(some):.3f})" for some in costs),
        _count(contest.arrival(strategy)),
        f"{arrived} of {len(runs)}",
        f"{statistics.mean(run.seconds for run in runs):.0f}",
    )


def _count(measurements: float) -> str:
    return f"{measurements:.0f}" if math.isfinite(measurements) else NEVER


def totals_table(found: Sequence[Contest]) -> Table:
    """Return the factors of fewer measurements of the default against its rivals, by contest and in the mean.

    A search that never arrives counts as arriving at its last measurement: in favour of a rival, a factor is then a
    lower bound. It is left out where the default never arrives, or the heuristic plan is good enough.
    """
    rivals = [name for name in RIVALS if all(contest.of(name) for contest in found)]
    factors = [[_factor(contest, rival) for rival in rivals] for contest in found]
    rows = [
        (
            f"{contest.network} on {contest.target}",
            _count(contest.arrival(DEFAULT_STRATEGY)),
            *(_shown(contest, r, f) for r, f in zip(rivals, own, strict=True)),
        )
        for contest, own in zip(found, factors, strict=True)
    ]
    columns = list(zip(*factors, strict=True))
    means = (_mean(found, r, column) for r, column in zip(rivals, columns, strict=True))
    rows.append(("geometric mean", "", *means))
    names = (f"fewer than {rival}" for rival in rivals)
    heading = f"The default's measurements until within {NEAR - 1:.0%} of the best known:"
    return Table(heading, ("contest", "measurements", *names), tuple(rows))


def _factor(contest: Contest, rival: str) -> float | None:
    own = contest.arrival(DEFAULT_STRATEGY)
    if own == 0 or not math.isfinite(own):
        return None
    return min(contest.arrival(rival), DEFAULT_MEASURE) / own


def _shown(contest: Contest, rival: str, factor: float | None) -> str:
    if factor is None:
        return NEVER
    return f"{'' if math.isfinite(contest.arrival(rival)) else '≥ '}{factor:.1f}×"


def _mean(found: Sequence[Contest], rival: str, factors: Sequence[float | None]) -> str:
    known = [(c, factor) for c, factor in zip(found, factors, strict=True) if factor is not None]
    if not known:
        return NEVER
    least = "" if all(math.isfinite(contest.arrival(rival)) for contest, _ in known) else "≥ "
    mean = statistics.geometric_mean(factor for _, factor in known)
    return f"{least}{mean:.1f}× (of {len(known)})"


def lines(found: Sequence[Contest]) -> Iterator[tuple[str, list[float]]]:
    """Yield strategies with their cost over the best known at ``GRID`` above 0: medians over seeds, and
    geometric means of these over contests."""
    for strategy in found[0].strategies:
        medians = [
            [statistics.median(contest.over_best(strategy, count)) for contest in found]
            for count in GRID[1:]
        ]
        yield strategy, [statistics.geometric_mean(some) for some in medians]
