"""``make bench-search TARGETS=cpu:1``: the best plan so far on this CPU at equal numbers of measured candidates.

    python -m benchmarks.search_in_place [--networks …] [--targets cpu:1] [--strategies …] [--seeds N] [--quick]

Each search has a process of its own, an empty store and a study in memory. Its plans are judged when it has ended, all in
turns with the heuristic plan: what a search believed of them does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from autotune.runtime.in_place.budget import Limits
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.in_place.search_setup import Allowance, BegunSearch, Plan, SearchSetup
from autotune.runtime.in_place.strategy_search import StrategySearch
from autotune.store.store import Store
from autotune.targets.opening import target as open_target
from autotune.tuner.options import DEFAULT_STRATEGY, SearchOptions
from autotune.tuner.progress import silent
from benchmarks.machine import busy
from benchmarks.search_pictures import curves_picture
from benchmarks.search_runs import NETWORKS, network
from benchmarks.table import Table

GRID = (0, 16, 32, 64, 128, 256, 512)
"""Numbers of measured candidates at which plans are judged; a search ends at the last one."""
STRATEGIES = (DEFAULT_STRATEGY, "greedy", "random", "tpe", "gp")
QUICK_STRATEGIES = (DEFAULT_STRATEGY, "random", "tpe")
SEEDS, QUICK_SEEDS, QUICK_NETWORKS = 10, 3, 3
SECONDS, QUICK_SECONDS = 30.0, 12.0
ROUNDS = 16
"""Turns in which plans are judged."""
PICTURE = "search-curves-cpu.svg"

HEAD = """# Figures of search strategies on this CPU

Written by

    {command}

Each search has an empty store, no calibrated model, a study in memory and {seconds:g} s; it ends after {most}
candidates. A candidate is a group with a schedule that ran within the whole network. Cells are the time of the best plan so far
over the heuristic plan's: the mean over {seeds} seeds (the worst seed). Plans are judged when a search has ended, in {rounds}
turns with the heuristic plan, before the contest that keeps the heuristic plan where nothing is shown to be faster. The
default adopts changes when a generation ends, so that its curve is flat until then. {busy}

![Cost over the best known against measurements](images/{picture})

"""


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """What one run searches, and how: ``prunes`` stops plans that are clearly slower."""

    network: str
    target: str
    strategy: str
    seed: int
    prunes: bool = True

    @property
    def arm(self) -> str:
        """Name in the tables."""
        return self.strategy if self.prunes else f"{self.strategy}, nothing pruned"


@dataclass(frozen=True, slots=True)
class Run:
    """One search: its seconds, candidates, plans that ran and those pruned; the best plan's time over the heuristic
    plan's at each of ``GRID``."""

    case: Case
    seconds: float
    candidates: int
    plans: int
    pruned: int
    curve: tuple[float, ...]


def run(case: Case, seconds: float, most: int) -> Run:
    """Search in this process; judge the plans that were best at some time."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        begun = _begun(case, seconds, most, store)
        begun.search.run()
    spent = time.monotonic() - start
    search = begun.search
    plans = dict.fromkeys(plan for _, plan in search.history)
    ratios = {plan: _judged(begun, plan) for plan in plans}
    history = [(0, begun.heuristic), *search.history]
    best = [[plan for tried, plan in history if tried <= count][-1] for count in GRID]
    curve = tuple(ratios.get(plan, 1.0) for plan in best)
    counts = _counts(search)
    return Run(case, spent, search.tried, *counts, curve)


def _begun(case: Case, seconds: float, most: int, store: Store) -> BegunSearch:
    machine = open_target(case.target)
    graph = network(case.network, machine.spec.layout, "close")
    allowance = Allowance(time.monotonic(), seconds, limits=Limits(candidates=most))
    options = SearchOptions(seed=case.seed, strategy=case.strategy, measure=most)
    begun = SearchSetup(graph, machine, None, {}, options, allowance, silent, store).begin()
    if isinstance(begun.search, StrategySearch):
        begun.search.prunes = case.prunes
    return begun


def _counts(search: InPlaceSearch | StrategySearch) -> tuple[int, int]:
    """Return how many plans ran, those of generations where there are any, and how many were pruned."""
    if isinstance(search, StrategySearch):
        return len(search.told) - 1, search.pruned
    return len(search.generations), 0


def _judged(begun: BegunSearch, plan: Plan) -> float:
    if plan == begun.heuristic:
        return 1.0
    ratios = []
    for _ in range(ROUNDS):
        base = sum(begun.runs.run(begun.heuristic, 3).least.values())
        ratios.append(sum(begun.runs.run(plan, 3).least.values()) / base)
    return statistics.median(ratios)


def all_runs(cases: Sequence[Case], seconds: float, most: int, kept: Path | None) -> Iterator[Run]:
    """Yield the run of every case, one after the other; those in the file ``kept`` are not repeated, new ones enter it."""
    known = {} if kept is None or not kept.exists() else {r.case: r for r in read(kept)}
    for case in cases:
        if case not in known:
            with ProcessPoolExecutor(1, get_context("spawn")) as alone:
                known[case] = one = alone.submit(run, case, seconds, most).result()
            sys.stderr.write(f"{case}: {one.curve[-1]:.3f} in {one.seconds:.0f} s\n")
            if kept is not None:
                kept.write_text(json.dumps([asdict(r) for r in known.values()]))
        yield known[case]


def read(path: Path) -> tuple[Run, ...]:
    """Return the runs in a file of ``--json``."""
    rows = json.loads(path.read_text())
    return tuple(
        Run(**row | {"case": Case(**row["case"]), "curve": tuple(row["curve"])}) for row in rows
    )


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """Yield the geometric means over networks, then each network."""
    kinds = dict.fromkeys((one.case.network, one.case.target) for one in runs)
    arms = tuple(dict.fromkeys(one.case.arm for one in runs))
    rows = []
    for arm in arms:
        means = [
            _means([r for r in runs if _kind(r) == kind and r.case.arm == arm]) for kind in kinds
        ]
        shown = (f"{statistics.geometric_mean(column):.3f}" for column in zip(*means, strict=True))
        rows.append((arm, *shown))
    counts = tuple(f"n = {count}" for count in GRID[1:])
    yield Table("**Geometric mean over networks**", ("strategy", *counts), tuple(rows))
    columns = ("strategy", *counts, "candidates", "plans", "pruned", "seconds")
    for kind in kinds:
        own = {arm: [r for r in runs if _kind(r) == kind and r.case.arm == arm] for arm in arms}
        cells = tuple((arm, *_cells(some)) for arm, some in own.items() if some)
        yield Table(f"**{kind[0]} on {kind[1]}**", columns, cells)


def _kind(one: Run) -> tuple[str, str]:
    return one.case.network, one.case.target


def _means(runs: Sequence[Run]) -> list[float]:
    return [statistics.mean(column) for column in zip(*(r.curve[1:] for r in runs), strict=True)]


def _cells(runs: Sequence[Run]) -> Iterator[str]:
    for column in zip(*(r.curve[1:] for r in runs), strict=True):
        yield f"{statistics.mean(column):.3f} ({max(column):.3f})"
    for name in ("candidates", "plans", "pruned"):
        yield f"{statistics.mean(getattr(r, name) for r in runs):.0f}"
    yield f"{statistics.mean(r.seconds for r in runs):.1f}"


def lines(runs: Sequence[Run]) -> Iterator[tuple[str, list[float]]]:
    """Yield strategies with their cost over the best known: means over seeds, geometric means over networks."""
    kinds = dict.fromkeys(map(_kind, runs))
    best = {kind: min(min(r.curve) for r in runs if _kind(r) == kind) for kind in kinds}
    for arm in dict.fromkeys(one.case.arm for one in runs):
        rows = [_means([r for r in runs if _kind(r) == k and r.case.arm == arm]) for k in kinds]
        over = [[x / best[k] for x in row] for k, row in zip(kinds, rows, strict=True)]
        yield arm, [statistics.geometric_mean(column) for column in zip(*over, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or show the tables."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = _parser().parse_args(given)
    quick = chosen.quick
    networks = chosen.networks or tuple(NETWORKS)[: QUICK_NETWORKS if quick else None]
    strategies = chosen.strategies or (QUICK_STRATEGIES if quick else STRATEGIES)
    seeds = chosen.seeds or (QUICK_SEEDS if quick else SEEDS)
    seconds = chosen.seconds or (QUICK_SECONDS if quick else SECONDS)
    ways = (True, False) if chosen.unpruned else (True,)
    order = product(range(seeds), networks, chosen.targets, strategies, ways)
    cases = [
        Case(n, t, s, seed, way) for seed, n, t, s, way in order if way or s != DEFAULT_STRATEGY
    ]
    runs = tuple(all_runs(cases, seconds, chosen.measure, chosen.json))
    runs = tuple(sorted(runs, key=lambda one: cases.index(one.case)))
    text = "\n\n".join(table.markdown() for table in tables(runs)) + "\n"
    if chosen.markdown is None:
        print(text)
        return
    head = HEAD.format(
        command=_command(networks, chosen.targets, strategies, seeds, seconds, chosen.measure),
        seconds=seconds,
        most=chosen.measure,
        seeds=seeds,
        rounds=ROUNDS,
        picture=PICTURE,
        busy=busy(),
    )
    chosen.markdown.write_text(head + text)
    images = chosen.markdown.parent / "images"
    images.mkdir(exist_ok=True)
    (images / PICTURE).write_text(curves_picture("Best plan so far", GRID[1:], dict(lines(runs))))


def _command(
    networks: Sequence[str],
    targets: Sequence[str],
    strategies: Sequence[str],
    seeds: int,
    seconds: float,
    most: int,
) -> str:
    """Return what repeats the page."""
    return (
        f"python -m benchmarks.search_in_place --networks {' '.join(networks)} --targets {' '.join(targets)} "
        f"--strategies {' '.join(strategies)} --seeds {seeds} --seconds {seconds:g} --measure {most}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 strategies, networks and seeds")
    parser.add_argument("--networks", nargs="+", choices=tuple(NETWORKS))
    parser.add_argument("--targets", nargs="+", default=("cpu:1",), help="cpu:1, cpu:2, …")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--seconds", type=float, help="of each search")
    parser.add_argument("--measure", type=int, default=GRID[-1], help="candidates of each search")
    parser.add_argument("--unpruned", action="store_true", help="also without pruning")
    parser.add_argument("--json", type=Path, help="keep runs here, and do not repeat these")
    parser.add_argument("--markdown", type=Path)
    return parser


if __name__ == "__main__":
    main()
