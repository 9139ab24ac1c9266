"""The figures of `make bench-search-cpu`: plans that a search finds on this CPU against the heuristic plan.

    python -m benchmarks.search_cpu [--networks …] [--threads 1 2] [--seconds S] [--ablate] [--plans FOLDER]

Each network has a process of its own, which searches and then runs all plans in turns. ``--json`` keeps rows; rows that
the file has already are not measured again. Plans go to ``--plans``, where `make bench-cpu PLANS=FOLDER` finds them for
a comparison with the peers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.child import run_child
from benchmarks.cpu_networks import NAMES, SYNTHETIC
from benchmarks.machine import busy
from benchmarks.table import Table

LEARNED = "2026-11-27"
"""Day of the last rows of before the rule took over what searches found on two threads: one thread was not searched again."""
FROM_SEARCHES = f"Rows up to {LEARNED} are of before decisions 130 and 131, which gave heuristic plans much of what searches had found. "
FOUND = "found"
"""What users get: ``autotune search``, whose contest keeps the heuristic plan where nothing is faster."""
MENDED = "2026-11-26"
LOOKED_UP = f"Before {MENDED} the time of looking up a plan, about 0.1 ms, was part of a run: gains of networks below 1 ms are wrong. "
ABLATED = ("in place", "alone", "random")
"""Searches without a contest: as users', by times of programs alone, with schedules drawn at random."""
SAMPLE = (
    "light_squeezenet",
    "light_shufflenet",
    "mobilenet_v3",
    "bert_layer",
    "vit_tiny",
    "light_resnet50",
    "gru_layer",
    "poolformer_s12",
    "resnext50",
)
"""Networks of every kind that the ablation takes unless told."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network on some threads: what a run takes by the heuristic plan, figures of each arm, and the day they are of."""

    network: str
    threads: int
    run_seconds: float
    arms: Mapping[str, Mapping[str, Any]]
    day: str

    @property
    def key(self) -> tuple[str, int]:
        """Network and threads."""
        return self.network, self.threads


def measure(
    networks: Sequence[str],
    threads: Sequence[int],
    seconds: float | None,
    arms: Sequence[str],
    plans: Path | None,
    known: Sequence[Row],
    kept: Path | None,
) -> list[Row]:
    """Measure all rows that are not known; write each to ``kept`` as soon as it is there."""
    rows = {row.key: row for row in known}
    for name in networks:
        for count in threads:
            if (name, count) in rows:
                continue
            plan = None if plans is None else str(plans / f"{name}.{count}.plan")
            order = {
                "network": name,
                "threads": count,
                "seconds": seconds,
                "arms": arms,
                "rounds": 20,
                "plan": plan,
            }
            found = run_child(
                Path(sys.executable), "benchmarks.search_cpu_worker", [json.dumps(order)]
            )
            day = time.strftime("%Y-%m-%d", time.gmtime())
            row = Row(name, count, found["run_seconds"], found["arms"], day)
            rows[row.key] = row
            gains = ", ".join(f"{arm} {one['gain']:.3f}" for arm, one in row.arms.items())
            print(f"{name}, threads {count}: {gains}", file=sys.stderr, flush=True)
            if kept is not None:
                kept.write_text(json.dumps([asdict(one) for one in rows.values()], indent=1) + "\n")
    return list(rows.values())


def tables(rows: Sequence[Row], threads: int) -> list[Table]:
    """Return the table of all networks on so many threads, and the one of means."""
    here = [row for row in rows if row.threads == threads]
    arms = list(dict.fromkeys(arm for row in here for arm in row.arms))
    if not here:
        return []
    columns = (
        *("network", "day", "run ms"),
        *(f"{arm}{x}" for arm in arms for x in ("", " kept", " s")),
    )
    cells = tuple(_cells(row, arms) for row in here)
    word = "thread" if threads == 1 else "threads"
    counted = [row for row in here if row.network not in SYNTHETIC]
    days = sorted({row.day for row in counted})
    means = tuple(
        (day, *_means(rows, arm))
        for day in days
        for rows in [[row for row in counted if row.day == day]]
        for arm in arms
        if any(arm in row.arms for row in rows)
    )
    return [
        Table(
            f"{threads} {word}: means",
            ("day", "networks", "search", "gain", "least", "gain of the contest", "its least"),
            means,
        ),
        Table(f"{threads} {word}: heuristic plan's time over the found plan's", columns, cells),
    ]


def _cells(row: Row, arms: Sequence[str]) -> tuple[str, ...]:
    cells = [row.network, row.day, f"{row.run_seconds * 1e3:.3f}"]
    for arm in arms:
        one = row.arms.get(arm)
        if one is None:
            cells += ["–"] * 3
        else:
            kept = "yes" if one["is_kept"] else "no"
            cells += [f"{one['gain']:.3f}", kept, f"{one['search_seconds']:.0f}"]
    return tuple(cells)


def _means(rows: Sequence[Row], arm: str) -> tuple[str, ...]:
    found = {row.network: row.arms[arm] for row in rows if arm in row.arms}
    gains = {name: one["gain"] for name, one in found.items()}
    kept = {name: gains[name] if one["is_kept"] else 1.0 for name, one in found.items()}
    worst, least = min(gains, key=gains.__getitem__), min(kept, key=kept.__getitem__)
    return (
        str(len(found)),
        arm,
        f"{geometric_mean(gains.values()):.3f}",
        f"{gains[worst]:.3f} {worst}",
        f"{geometric_mean(kept.values()):.3f}",
        f"{kept[least]:.3f} {least}",
    )


def curse(rows: Sequence[Row]) -> Table:
    """Return what changes promised when they were chosen, shrunk, and saved in fresh runs, as shares of the run."""
    cells = []
    for row in rows:
        for arm in ("in place", "random"):
            one = row.arms.get(arm)
            if one is not None:
                shares = (one[x] / row.run_seconds for x in ("measured", "shrunk", "fresh"))
                counts = (str(one[x]) for x in ("tried", "chosen", "adopted"))
                cells.append(
                    (row.network, str(row.threads), arm, *counts, *(f"{x:+.1%}" for x in shares))
                )
    columns = ("network", "threads", "search", "tried", "chosen", "adopted")
    return Table(
        "Winner's curse", (*columns, "as measured", "shrunk", "in fresh runs"), tuple(cells)
    )


def markdown(rows: Sequence[Row]) -> str:
    """Return the page."""
    parts = [
        "# Figures of searches on this CPU",
        "Written by `make bench-search-cpu` (`ABLATE=1` for the other searches). Each network is searched in a process of its "
        "own, which then runs all plans in turns, 20 rounds. *gain* is the heuristic plan's time over the plan's, the median "
        "over the rounds; *kept* tells whether the contest kept the plan, *s* the seconds of the search. A *found* plan that was "
        "not kept is the heuristic plan: its gain shows how far a plan is measured from itself. The *gain of the contest* counts "
        "such plans as 1. *found* is "
        "`autotune search` with its contest. *in place*, *alone* and *random* are plans before a contest: as users', by "
        "times of each program alone, with schedules drawn at random. A row is of the code of its *day*, and means are of one "
        "day's rows. "
        + (LOOKED_UP if any(row.day < MENDED for row in rows) else "")
        + (FROM_SEARCHES if any(row.day <= LEARNED for row in rows) else "")
        + busy(),
    ]
    for threads in sorted({row.threads for row in rows}):
        parts += [table.markdown() for table in tables(rows, threads)]
    table = curse(rows)
    if table.rows:
        parts.append(table.markdown())
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NAMES)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--seconds", type=float, help="of each search; default: by the network")
    parser.add_argument("--ablate", action="store_true", help="compare ways to search, on a sample")
    parser.add_argument("--plans", type=Path, help="folder to write plans to")
    parser.add_argument("--json", type=Path, help="rows to go on from, and to keep")
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    known: list[Row] = []
    if given.json is not None and given.json.exists():
        known = [Row(**{"day": "", **row}) for row in json.loads(given.json.read_text())]
    if given.plans is not None:
        given.plans.mkdir(parents=True, exist_ok=True)
    arms = ABLATED if given.ablate else (FOUND,)
    networks = given.networks or (SAMPLE if given.ablate else NAMES)
    rows = measure(networks, given.threads, given.seconds, arms, given.plans, known, given.json)
    for threads in given.threads:
        for table in tables(rows, threads):
            print(table.text() + "\n")
    if curse(rows).rows:
        print(curse(rows).text())
    if given.markdown is not None:
        given.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
