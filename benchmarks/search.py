"""``make bench-search``: the best plan so far at equal numbers of measurements, strategy beside strategy."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from autotune.targets.opening import spec_names
from autotune.tuner.options import DEFAULT_MEASURE, STRATEGY_NAMES
from benchmarks.search_pictures import curves_picture
from benchmarks.search_runs import GRID, NETWORKS, Case, Run, run
from benchmarks.search_tables import contests, curve_table, lines, totals_table

TARGETS = ("edge", "gemmini-like", "eyeriss-like")
STRATEGIES = tuple(name for name in STRATEGY_NAMES if name != "heuristic")
SEEDS, QUICK_SEEDS = 10, 2
PICTURE = "search-curves.svg"

HEAD = """# Figures of search strategies

Written by

    {command}

Each run is one search with `--strategy NAME --measure {measure}`, the shipped model, never calibrated on the machine, a
new study and an empty store. The networks are few layers of networks that the model was not trained on: {networks}.
Machines: {targets}. Seeds: {seeds} for each. `make bench-search` runs five networks on three machines with ten seeds.

Cells are cycles of the best plan over the best that any run here found: the mean over seeds (the worst seed). After n
measurements, the best plan is what the proof at a search's end chooses by these alone, whatever strategy took
them. So strategies differ in what they measure, not in how plans are put together. Every search measures the
heuristic plan first; until then it is the best plan. The last measurements of every search are of the unfused and the
greedy plan, with schedules that the model chooses: they flatter strategies without a model. *Within 2 %* is the median
over seeds, at steps of 4 measurements up to 64 and of 16 after; – means never. CPU seconds are those of one process.

![Cost over the best known against measurements](images/{picture})

The picture shows medians over seeds, and their geometric mean over networks and machines.

"""
TAIL = """

– where the default never gets there, or the heuristic plan is near enough. A rival that never gets there counts as
{measure} measurements (≥). Aims: 10 times fewer than random, 3 times fewer than TPE.
"""


def all_runs(cases: Sequence[Case], kept: Path | None, jobs: int) -> Iterator[Run]:
    """Yield the run of every case; those in the file ``kept`` are not repeated, new ones enter it."""
    known = {} if kept is None or not kept.exists() else {r.case: r for r in read(kept)}
    yield from (known[case] for case in cases if case in known)
    missing = [case for case in cases if case not in known]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for one in pool.map(run, missing):
            known[one.case] = one
            if kept is not None:
                kept.write_text(json.dumps([asdict(r) for r in known.values()]))
            sys.stderr.write(f"{one.case}: {one.heuristic} to {one.curve[-1]:.0f} cycles\n")
            yield one


def read(path: Path) -> tuple[Run, ...]:
    """Return the runs in a file of ``--json``."""
    rows = json.loads(path.read_text())
    return tuple(
        Run(**row | {"case": Case(**row["case"]), "curve": tuple(row["curve"])}) for row in rows
    )


def text(runs: Sequence[Run]) -> str:
    """Return the tables in Markdown, the totals first."""
    found = contests(runs)
    tables = [totals_table(found), *map(curve_table, found)]
    first, *rest = (table.markdown() for table in tables)
    return first + TAIL.format(measure=DEFAULT_MEASURE) + "\n" + "\n\n".join(rest) + "\n"


def write_page(page: Path, runs: Sequence[Run], command: str) -> None:
    """Write the page, and its picture in ``images`` beside it."""
    cases = [one.case for one in runs]
    head = HEAD.format(
        command=command,
        measure=DEFAULT_MEASURE,
        networks=", ".join(dict.fromkeys(case.network for case in cases)),
        targets=", ".join(dict.fromkeys(case.target for case in cases)),
        seeds=len({case.seed for case in cases}),
        picture=PICTURE,
    )
    page.write_text(head + text(runs))
    images = page.parent / "images"
    images.mkdir(exist_ok=True)
    drawn = dict(lines(contests(runs)))
    (images / PICTURE).write_text(curves_picture("Best plan so far", GRID[1:], drawn))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or show the tables."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = _parser().parse_args(given)
    networks = chosen.networks or tuple(NETWORKS)[: 2 if chosen.quick else None]
    targets = chosen.targets or TARGETS[: 1 if chosen.quick else None]
    seeds = chosen.seeds or (QUICK_SEEDS if chosen.quick else SEEDS)
    order = product(range(seeds), networks, targets, STRATEGIES)
    cases = [Case(n, t, strategy, seed) for seed, n, t, strategy in order]
    runs = tuple(all_runs(cases, chosen.json, chosen.jobs))
    runs = tuple(sorted(runs, key=lambda one: cases.index(one.case)))
    if chosen.markdown is None:
        print(text(runs))
        return
    command = f"python -m benchmarks.search --networks {' '.join(networks)} --targets {' '.join(targets)} --seeds {seeds}"
    whole = (networks, targets, seeds) == (tuple(NETWORKS), TARGETS, SEEDS)
    write_page(chosen.markdown, runs, "make bench-search" if whole else command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 seeds, 2 networks, 1 machine")
    parser.add_argument("--networks", nargs="+", choices=tuple(NETWORKS))
    parser.add_argument("--targets", nargs="+", choices=spec_names())
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="keep runs here, and do not repeat these")
    parser.add_argument("--markdown", type=Path)
    return parser


if __name__ == "__main__":
    main()
