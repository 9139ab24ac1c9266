"""The page of `make bench-precision`: what choosing the precision within a search brings, beside float32 and one format everywhere."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from autotune import api
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.opening import load_spec
from autotune.tuner.precision import PrecisionFront, PrecisionPoint
from benchmarks import precision_trials as trials
from benchmarks.precision_times import search_times, times_table
from benchmarks.quantizers import drawn_runs
from benchmarks.table import Table

NETWORKS = ("mlp", "light_squeezenet", "bert_small", "mobilenet_v2")
TARGETS = ("edge", "server", "cpu:1")
LIMIT = 0.015
RUNS = 16
MEASURE = 80
SECONDS = 120.0
PARTS = ("fronts", "times", "trials")
PAGE = """# Precision chosen within search

Written by `make bench-precision`: `autotune search NET --target MACHINE --max-loss {limit:.1%} --data NPZ`. {runs} seeded inputs, a quarter of
them held out; *loss* is the relative loss on these. Every row is a network with the plan that the search found for it. On emulated
machines *time* is that of the cycles which the emulator counts ({measure} measurements a network); on `cpu:1` ({seconds:.0f} s for the whole search)
the groups' times in whole runs, and *in turns* the speed of whole runs against float32's plan or the winner before.
*all int8* and *all bf16* are searched even where their loss is beyond the limit: what their plans take decides the choices.

{table}

## Time of a search

CPU seconds of `autotune search NET --target MACHINE --measure {measure}` as a process with its children, without and with `--max-loss {limit:.1%}`;
a new store and an empty cache each. Again by `make bench-precision PARTS=times JSON=file`, the file of the other parts.

{times}

## Ways to propose, at equal numbers of trials

The cheapest predicted cost within the limit, as a share of float32's, after shares of the trials that our rule makes; a trial is a
choice of formats that was not tried before. All ways see the prices that the searches of the table above taught, and the same losses;
samplers have {seeds} seeds (mean, and the worst one). Again by `make bench-precision PARTS=trials JSON=file`.

{trials}
"""


def main() -> None:
    """Measure the parts that are asked for; write the page from all that was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--kept", type=Path, help="JSON file of what was measured before")
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--targets", nargs="*", default=TARGETS)
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    kept = options.kept
    found: dict[str, dict[str, dict[str, Any]]] = {part: {} for part in PARTS}
    if kept is not None and kept.exists():
        found |= json.loads(kept.read_text())
    for part, name, target in product(options.parts, options.networks, options.targets):
        if _has(part, name, target) and f"{name} {target}" not in found[part]:
            found[part][f"{name} {target}"] = one = _measured(part, name, target)
            print(part, name, target, json.dumps(one), file=sys.stderr)
            if kept is not None:
                kept.write_text(json.dumps(found))
    text = _page(found)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


def _has(part: str, name: str, target: str) -> bool:
    """Return True if a part is about a network on a machine."""
    is_emulated = not target.startswith("cpu")
    return {
        "fronts": True,
        "times": is_emulated,
        "trials": target == trials.TARGET and name in trials.NETWORKS,
    }[part]


def _measured(part: str, name: str, target: str) -> dict[str, Any]:
    """Return what one part says of a network on a machine, as JSON can tell."""
    with tempfile.TemporaryDirectory() as folder:
        data = _data(name, Path(folder))
        if part == "times":
            return search_times(name, target, data, Path(folder), LIMIT, MEASURE)
        search = partial(_search, name, target, data, Path(folder))
        if part == "trials":
            return asdict(trials.measured_trials(search, LIMIT))
        clock = load_spec(target.partition(":")[0]).clock_hz
        return {"clock_hz": clock, **asdict(search())}


def _data(name: str, folder: Path) -> Path:
    """Write seeded inputs of a network; return their file."""
    with Session(name, "cpu") as session:
        shapes = {x.name: tuple(int(n or 1) for n in x.shape or ()) for x in session.inputs}
    runs = drawn_runs(shapes, RUNS, 0)
    file = folder / "data.npz"
    np.savez(file, **{x: np.stack([run[x] for run in runs]) for x in shapes})  # type: ignore[arg-type]
    return file


def _search(name: str, target: str, data: Path, folder: Path) -> PrecisionFront:
    is_here = target.startswith("cpu")
    with Store.memory() as store:
        result = api.search(
            name,
            target,
            measure=None if is_here else MEASURE,
            seconds=SECONDS if is_here else None,
            storage=None if is_here else ":memory:",
            store=store,
            max_loss=LIMIT,
            data=data,
            out=folder / "net.plan",
        )
    assert result.precision is not None
    return result.precision


def _page(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the page, rows in the order of machines and networks."""
    pairs = [(name, target) for target in TARGETS for name in NETWORKS]
    fronts, times = found["fronts"], found["times"]
    rows = [row for pair in pairs for row in _rows(*pair, fronts.get(" ".join(pair)))]
    columns = ("machine", "network", "searched", "products", "loss", "time ms", "of float32", "")
    compared = {
        name: trials.Trials(**one)
        for name in trials.NETWORKS
        if (one := found["trials"].get(f"{name} {trials.TARGET}")) is not None
    }
    timed = {pair: one for pair in pairs if (one := times.get(" ".join(pair))) is not None}
    return PAGE.format(
        limit=LIMIT,
        runs=RUNS,
        measure=MEASURE,
        seconds=SECONDS,
        seeds=trials.SEEDS,
        table=Table("", columns, tuple(rows)).markdown().strip(),
        times=times_table(timed).markdown().strip(),
        trials=trials.trials_table(compared).markdown().strip(),
    )


def _rows(name: str, target: str, front: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """Return a row per network that was searched; choices that were not kept are left out but for the fastest."""
    if front is None:
        return []
    points = [PrecisionPoint(**one) for one in front["points"]]
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
