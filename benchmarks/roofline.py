"""The figures of `make bench-roofline`: how much of what this CPU allows each network of
`make bench-cpu` reaches, the groups that lose most, and why.

Every network runs in a process of its own, by rule, and every group counts with its fastest run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.report.view import kinds_text, shares_text
from benchmarks.child import run_child
from benchmarks.cpu_networks import NAMES
from benchmarks.machine import busy
from benchmarks.table import Table

WORKER = "benchmarks.roofline_worker"
WORST = 3
NEAR = 0.01
"""Share of a network's time that a group must lose to be listed."""

LEGEND = (
    "*of peak* is the network's operations over those that the measured fp32 peak does in its time; "
    "*of bound* compares with the sum of the groups' rooflines: the least time that peak (for a group's "
    "operations), memory (for the bytes that caches cannot hold from one use to the next) and second-level "
    "cache (for all its bytes, a vector per cycle) allow. *loses* is a group's time beyond its bound, as a "
    "share of the network's time; only groups that lose 1 % or more are listed, three of each network at the "
    "most. Reasons are guesses from where the time goes within a group."
)

Profile = Mapping[str, Any]
"""What a worker printed."""


def worst(profile: Profile) -> list[Mapping[str, Any]]:
    """The groups that lose most, of those that have a reason to."""
    total = profile["roofline"]["seconds"]
    short = [
        group for group in profile["groups"] if group["reason"] and _lost(group) >= NEAR * total
    ]
    return sorted(short, key=_lost, reverse=True)[:WORST]


def _lost(group: Mapping[str, Any]) -> float:
    return float(group["seconds"] - group["bound_seconds"])


def network_table(found: Mapping[str, Profile], threads: int) -> Table:
    """A line per network."""
    rows = []
    for name, profile in found.items():
        figures = profile["roofline"]
        rows.append(
            (
                name,
                f"{1e3 * figures['seconds']:.3f}",
                f"{sum(group['flops'] for group in profile['groups']) / 1e9:.3f}",
                f"{figures['peak_fraction']:.0%}",
                f"{figures['bound_fraction']:.0%}",
                shares_text(figures["steps"]),
            )
        )
    head = next(iter(found.values()))["roofline"]
    title = (
        f"{threads} thread{'s' if threads > 1 else ''}: peak {head['peak_flops'] / 1e9:.0f} GFLOP/s, "
        f"memory {head['memory_bytes_per_second'] / 1e9:.1f} GB/s"
    )
    columns = ("network", "ms", "GFLOP", "of peak", "of bound", "time by step")
    return Table(title, columns, tuple(rows))


def group_table(found: Mapping[str, Profile], threads: int) -> Table:
    """The worst groups of each network."""
    rows = []
    for name, profile in found.items():
        total = profile["roofline"]["seconds"]
        for group in worst(profile):
            rows.append(
                (
                    name,
                    f"{kinds_text(group['kinds'])} ({group['operators'][-1]})",
                    f"{1e3 * group['seconds']:.3f}",
                    f"{_lost(group) / total:.0%}",
                    f"{group['fraction']:.0%}",
                    group["limit"],
                    group["reason"],
                )
            )
    title = f"Groups that lose most, {threads} thread{'s' if threads > 1 else ''}"
    columns = ("network", "group", "ms", "loses", "of bound", "limit", "why")
    return Table(title, columns, tuple(rows))


def markdown(tables: Sequence[Table]) -> str:
    """docs/figures-roofline.md."""
    head = (
        f"# Figures against the roofline\n\nWritten by `make bench-roofline`. {LEGEND} {busy()}\n\n"
    )
    return head + "\n\n".join(table.markdown() for table in tables) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-roofline.md here")
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--seconds", type=float, default=2.0, help="of a network's runs")
    given = parser.parse_args()
    print(LEGEND, end="\n\n", flush=True)
    tables, plain = [], {}
    for threads in given.threads:
        found: dict[str, Profile] = {}
        for name in given.networks:
            arguments = [name, str(threads), str(given.seconds)]
            found[name] = run_child(Path(sys.executable), WORKER, arguments)
            print(f"{name}, threads {threads}", file=sys.stderr, flush=True)
        plain[threads] = found
        made = [network_table(found, threads), group_table(found, threads)]
        print("\n\n".join(table.text() for table in made), end="\n\n", flush=True)
        tables += made
    if given.markdown is not None:
        given.markdown.write_text(markdown(tables))
    if given.json is not None:
        given.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
