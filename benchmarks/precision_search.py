"""The page of `make bench-precision`: what choosing the precision within a search brings, beside float32 and one format everywhere."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from autotune import api
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.opening import load_spec
from autotune.tuner.precision import PrecisionFront, PrecisionPoint
from benchmarks.quantizers import drawn_runs
from benchmarks.table import Table

NETWORKS = ("mlp", "light_squeezenet", "bert_small", "mobilenet_v2")
TARGETS = ("edge", "server", "cpu:1")
LIMIT = 0.015
RUNS = 16
MEASURE = 80
SECONDS = 120.0
PAGE = """# Precision chosen within search

Written by `make bench-precision`: `autotune search NET --target MACHINE --max-loss {limit:.1%} --data NPZ`. {runs} seeded inputs, a quarter of
them held out; *loss* is the relative loss on these. Every row is a network with the plan that the search found for it. On emulated
machines *time* is that of the cycles which the emulator counts ({measure} measurements a network); on `cpu:1` ({seconds:.0f} s for the whole search)
the groups' times in whole runs, and *in turns* the speed of whole runs against float32's plan or the winner before.
*all int8* and *all bf16* are searched even where their loss is beyond the limit: what their plans take decides the choices.

{table}
"""


def main() -> None:
    """Measure what is asked for; write the page from all that was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--kept", type=Path, help="JSON file of fronts measured before")
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--targets", nargs="*", default=TARGETS)
    options = parser.parse_args()
    kept = options.kept
    fronts = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    for target in options.targets:
        for name in options.networks:
            front = _front(name, target)
            clock = load_spec(target.partition(":")[0]).clock_hz
            fronts[f"{name} {target}"] = {"clock_hz": clock, **asdict(front)}
            print(*_rows(name, target, fronts[f"{name} {target}"]), sep="\n", file=sys.stderr)
            if kept is not None:
                kept.write_text(json.dumps(fronts))
    rows = [
        row
        for target in TARGETS
        for name in NETWORKS
        if f"{name} {target}" in fronts
        for row in _rows(name, target, fronts[f"{name} {target}"])
    ]
    columns = ("machine", "network", "searched", "products", "loss", "time ms", "of float32", "")
    table = Table("", columns, tuple(rows)).markdown().strip()
    text = PAGE.format(limit=LIMIT, runs=RUNS, measure=MEASURE, seconds=SECONDS, table=table)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


def _front(name: str, target: str) -> PrecisionFront:
    with tempfile.TemporaryDirectory() as folder, Store.memory() as store:
        data = Path(folder, "data.npz")
        with Session(name, "cpu") as session:
            shapes = {x.name: tuple(int(n or 1) for n in x.shape or ()) for x in session.inputs}
        runs = drawn_runs(shapes, RUNS, 0)
        np.savez(data, **{x: np.stack([run[x] for run in runs]) for x in shapes})  # type: ignore[arg-type]
        is_here = target.startswith("cpu")
        result = api.search(
            name,
            target,
            measure=None if is_here else MEASURE,
            seconds=SECONDS if is_here else None,
            storage=None if is_here else ":memory:",
            store=store,
            max_loss=LIMIT,
            data=data,
            out=Path(folder, "net.plan"),
        )
    assert result.precision is not None
    return result.precision


def _rows(name: str, target: str, front: dict[str, object]) -> list[tuple[str, ...]]:
    """Return a row per network that was searched; choices that were not kept are left out but for the fastest."""
    points = [PrecisionPoint(**one) for one in front["points"]]  # type: ignore[attr-defined]
    choices = [one for one in points if one.name.startswith("choice") and not one.is_kept]
    fastest = min(choices, key=lambda one: one.cost, default=None)
    shown = [one for one in points if one not in choices or one is fastest]
    clock = float(str(front["clock_hz"]))
    return [
        (
            target,
            name,
            one.name,
            ", ".join(f"{count} {format}" for format, count in one.counts.items()),
            f"{one.loss:.2%}",
            f"{1e3 * one.cycles / clock:,.4f}",
            f"{one.cost / points[0].cost:.3f}",
            _told(one, str(front["contest"])),
        )
        for one in shown
    ]


def _told(one: PrecisionPoint, contest: str) -> str:
    """Return whether a network is kept, and what whole runs in turns told."""
    turns = [text for text in contest.split("; ") if text.startswith(f"{one.name} ")]
    speed = "".join(f"in turns {text.partition(' at ')[2].partition(', ')[0]}" for text in turns)
    state = "**kept**" if one.is_kept else "" if one.is_within else "beyond the limit"
    return ", ".join(filter(None, (state, speed)))


if __name__ == "__main__":
    main()
