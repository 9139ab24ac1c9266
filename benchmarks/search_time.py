"""``make bench-search-time``: seconds of searches on emulated machines, for shipped networks and for drawn graphs of
growing size.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.child import run_child
from benchmarks.machine import busy
from benchmarks.table import Table

WORKER = "benchmarks.search_time_worker"
NETWORKS = (
    "light_resnet50",
    "light_squeezenet",
    "mobilenet_v3",
    "bert_small",
    "lstm",
    "gru",
    "lstm_layer",
    "gru_layer",
    "gpt2_step",
    "llama_step",
    "marian_decoder",
)
SIZES = (50, 500, 2_000)
"""Operators of the drawn graphs."""
HEAD = """# Figures of the time of a search

Written by `make bench-search-time`. Each search has a process of its own, an empty store, the shipped model and default
options. A network is searched twice. The first search has one process; its CPU seconds include imports. The second
may use all {cores} cores; its seconds are those that a user waits. *Candidates* are schedules that were scored: enumerated and
bounded, or predicted. *Gap* is what the certificate leaves: found plan over the best of all groups looked at.
Numbers name drawn graphs of so many operators, whose blocks are of eight kinds.

{busy}

"""
COLUMNS = (
    "network",
    "operators",
    "groups ranked",
    "CPU s, one process",
    "s, all cores",
    "candidates a second, all cores",
    "measured",
    "found / heuristic",
    "gap",
)


def searched(name: str, target: str, workers: int) -> dict[str, Any]:
    """Search a network in a process of its own, with an empty store; ``workers`` 0 means one for each core."""
    with tempfile.TemporaryDirectory() as home:
        return run_child(Path(sys.executable), WORKER, (name, target, str(workers), home))


def row(name: str, target: str) -> tuple[str, ...]:
    """Return the row of one network."""
    alone, together = searched(name, target, 1), searched(name, target, 0)
    cells = (
        name,
        f"{alone['operators']}",
        f"{alone['groups']}",
        f"{alone['cpu_seconds']:.1f}",
        f"{together['wall_seconds']:.1f}",
        f"{alone['candidates'] / together['wall_seconds']:,.0f}",
        f"{alone['measured']}",
        f"{alone['found'] / alone['heuristic']:.3f}",
        f"{alone['gap']:.2%}",
    )
    print("  ".join(cells), file=sys.stderr, flush=True)
    return cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or show the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--networks", nargs="*", default=[*NETWORKS, *map(str, SIZES)])
    parser.add_argument("--targets", nargs="+", default=["edge"])
    chosen = parser.parse_args(arguments)
    tables = [
        Table(
            f"Searches on {target}:", COLUMNS, tuple(row(name, target) for name in chosen.networks)
        )
        for target in chosen.targets
    ]
    if chosen.markdown is None:
        print("\n\n".join(table.text() for table in tables), busy(), sep="\n")
        return
    head = HEAD.format(cores=os.cpu_count(), busy=busy())
    chosen.markdown.write_text(head + "\n\n".join(table.markdown() for table in tables) + "\n")


if __name__ == "__main__":
    main()
