"""Searches that begin with a store: empty, with the nearest machine's measurements, or with the same machine's.

    python -m benchmarks.warm_search [--networks NAME ...] [--seeds 2] [--markdown docs/figures-warm-start.md] [--json FILE]

Run it by `make bench-warm-start`. Cycles of emulated machines repeat exactly.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from autotune.fusion.equivalence import EquivalenceClasses
from autotune.graph.graph import Graph
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.fusion import search
from autotune.tuner.machines.search_point import model_of
from autotune.tuner.neighbour import machine_distance
from autotune.tuner.options import SearchOptions
from autotune.tuner.study_storage import storage_for
from benchmarks.carried import BASE, changes
from benchmarks.search_runs import GRID, NETWORKS, Prices, curve, network
from benchmarks.table import Table

CHANGES = ("bandwidth × 0.5", "scratchpad × 0.5", "array and lanes × 0.5")
"""What makes a machine of the base that nobody measured."""
MEASURE = 128
"""Measurements of every search."""
SEEDS = 2
"""Searches of each kind: the default strategy draws little, and most of them are equal."""
NEAR = 1.02
"""A plan counts once it is within 2 % of the best one that any of the searches found."""
STARTS = ("cold", "nearest", "same")
NEVER = f"> {MEASURE}"

HEAD = f"""# Figures of warm starts

Written by `make bench-warm-start`. A few layers of networks are searched on machines that differ from `{BASE}` in one number, with
{MEASURE} measurements, by the default strategy and the shipped cost model, which saw neither the machines nor the networks. The store is

- *cold*: empty;
- *nearest*: that of a search of the network on `{BASE}`, with {MEASURE} measurements: the nearest machine;
- *same*: that of another search on an equal machine, with other random numbers, such as a profile that was imported.

Figures are **new measurements until the best plan's regret is 2 %**: its cycles are within 2 % of the best that any of these searches found
for the network and the machine. Median over seeds (least to most); *{NEVER}*: a search ended before. 0: the store alone gives such a plan.
*Heuristic* is the regret of the plan that every search begins with, *at the end* that after all measurements, in the worst case of the seeds.
Until the heuristic plan is measured nothing counts. Curves are known at every fourth measurement up to 64, then at every 16th.

"""


@dataclass(frozen=True, slots=True)
class Start:
    """One search: where it began, and the least cycles after each of the measurements of ``GRID``."""

    network: str
    change: str
    distance: float
    start: str
    seed: int
    heuristic: int
    curve: tuple[float, ...]

    def until(self, cycles: float) -> float:
        """Return the new measurements after which a plan takes so many cycles; infinity if never."""
        pairs = zip(GRID, self.curve, strict=False)
        return next((count for count, best in pairs if best <= cycles), math.inf)


def searched(graph: Graph, spec: HardwareSpec, folder: Path, seed: int) -> tuple[int, list[float]]:
    """Search with the store of a folder, which gains what is measured; return the heuristic plan's cycles and the
    curve."""
    with Store.open(folder / "store.db") as store:
        prices = Prices(EquivalenceClasses(spec.dram.burst_bytes))
        prices.learn(store.records(spec.profile_id))
        is_known = bool(prices.least)
        options = SearchOptions(measure=MEASURE, seed=seed, workers=1)
        result = search(
            graph,
            EmulatorTarget(spec),
            model_of(spec),
            options,
            store=store,
            storage=storage_for(None, store),
        )
    assert result.heuristic is not None and result.heuristic.measured_cycles is not None
    found = list(curve(graph, result, prices, knows_before=is_known))
    return result.heuristic.measured_cycles, [one for n, one in zip(GRID, found, strict=True) if n <= MEASURE]  # fmt: skip


def starts(name: str, seeds: int, done: set[tuple[str, int, str]]) -> Iterator[Start]:
    """Search a network from every kind of store on every changed machine, but for what is ``done``."""
    base = load_spec(BASE)
    graph = network(name, base.layout)
    machines = {change: changes(base)[change] for change in CHANGES}
    missing = [
        (seed, change, start)
        for seed, change, start in product(range(seeds), CHANGES, STARTS)
        if (change, seed, start) not in done
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, (seed, change, start) in enumerate(missing):
            spec, place = machines[change], Path(folder) / str(number)
            near = Path(folder) / f"near-{seed}"
            if start == "nearest" and not near.exists():
                near.mkdir()
                searched(graph, base, near, seed)
            if start == "nearest":
                shutil.copytree(near, place)
            else:
                place.mkdir()
            if start == "same":
                searched(graph, spec, place, seed + seeds)
            heuristic, found = searched(graph, spec, place, seed)
            distance = machine_distance(base, spec)
            yield Start(name, change, distance, start, seed, heuristic, tuple(found))


def measure(networks: Sequence[str], seeds: int, kept: Path | None) -> list[Start]:
    """Measure what is not kept, and keep it."""
    rows: list[Start] = []
    if kept is not None and kept.exists():
        rows = [Start(**row | {"curve": tuple(row["curve"])}) for row in json.loads(kept.read_text())]  # fmt: skip
    for name in networks:
        done = {(one.change, one.seed, one.start) for one in rows if one.network == name}
        for one in starts(name, seeds, done):
            rows.append(one)
            if kept is not None:
                kept.write_text(json.dumps([asdict(row) for row in rows]) + "\n")
    return [row for row in rows if row.network in networks and row.seed < seeds]


def table_of(rows: Sequence[Start]) -> Table:
    """Return a row per network and machine, and what they come to."""
    cells = []
    everything: dict[str, list[float]] = {start: [] for start in STARTS}
    for name, change in dict.fromkeys((one.network, one.change) for one in rows):
        mine = [one for one in rows if (one.network, one.change) == (name, change)]
        best = min(one.curve[-1] for one in mine)
        counts = {
            start: [one.until(NEAR * best) for one in mine if one.start == start]
            for start in STARTS
        }
        for start in STARTS:
            everything[start] += counts[start]
        ends = (max(one.curve[-1] for one in mine if one.start == start) for start in STARTS)
        cells.append(
            (
                name,
                change,
                f"{mine[0].distance:.2f}",
                f"{mine[0].heuristic / best - 1:.1%}",
                *(_counts(counts[start]) for start in STARTS),
                " / ".join(f"{end / best - 1:.1%}" for end in ends),
            )
        )
    cells.append(("all: median", "", "", "", *(_count(statistics.median(everything[s])) for s in STARTS), ""))  # fmt: skip
    cells.append(("all: worst", "", "", "", *(_count(max(everything[s])) for s in STARTS), ""))
    return Table(
        f"New measurements until a regret of {NEAR - 1:.0%}: median (least to most) of the seeds",
        ("network", "machine", "distance", "heuristic", *STARTS, "at the end, worst: cold / nearest / same"),
        tuple(cells),
    )  # fmt: skip


def against_cold(rows: Sequence[Start], start: str) -> str:
    """Return in one sentence how often a search from a store ends with a worse plan than the one from an empty store."""
    ends = {(r.network, r.change, r.seed, r.start): r.curve[-1] for r in rows}
    ratios = [
        end / ends[n, c, s, STARTS[0]] - 1 for (n, c, s, kind), end in ends.items() if kind == start
    ]
    worse, better = [one for one in ratios if one > 0], [one for one in ratios if one < 0]
    return (
        f"From *{start}* {len(worse)} of {len(ratios)} searches end with a worse plan than from *{STARTS[0]}* "
        f"(by {max(worse, default=0.0):.1%} at most), {len(better)} with a better one "
        f"(by {-min(better, default=0.0):.1%} at most)."
    )


def _counts(counts: Sequence[float]) -> str:
    return f"{_count(statistics.median(counts))} ({_count(min(counts))} to {_count(max(counts))})"


def _count(count: float) -> str:
    return f"{count:.0f}" if math.isfinite(count) else NEVER


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; ``--markdown FILE`` keeps it too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known: Mapping[str, object] = NETWORKS
    parser.add_argument("--networks", nargs="+", default=list(known), choices=list(known))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--json", type=Path, help="rows to go on from, and to keep")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-warm-start.md here")
    chosen = parser.parse_args(arguments)
    rows = measure(chosen.networks, chosen.seeds, chosen.json)
    compared = (against_cold(rows, start) for start in STARTS[1:])
    table, told = table_of(rows), "\n".join((*compared, f"Seeds of every row: {chosen.seeds}."))
    print(table.text(), told, sep="\n\n")
    if chosen.markdown is not None:
        chosen.markdown.write_text(f"{HEAD}{table.markdown()}\n\n{told}\n")


if __name__ == "__main__":
    main()
