"""What survives of a tuned plan when the machine's numbers change, beside searching anew.

    python -m benchmarks.carried [--networks NAME ...] [--markdown docs/figures-carried.md] [--json FILE]

Run it by `make bench-carried`. All figures are cycles of emulated machines: they repeat exactly.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.operators.axes import Layout
from autotune.runtime.session.defaults import resolve_model
from autotune.runtime.session.opening import open_network
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.fusion import search
from autotune.tuner.machines.confirmation import confirm
from autotune.tuner.machines.search_point import model_of
from autotune.tuner.neighbour import machine_distance
from autotune.tuner.options import SearchOptions
from autotune.tuner.result import GraphSearch, PlanResult
from autotune.tuner.study_storage import storage_for
from benchmarks.table import Table

NETWORKS = ("mlp", "transformer_block", "light_squeezenet")
BASE = "edge"
MEASURE = 96


def changes(spec: HardwareSpec) -> dict[str, HardwareSpec]:
    """Return changed machines by what changed: half and twice of what schedules depend on."""
    dram, pad, vector, matrix = spec.dram, spec.scratchpad, spec.vector, spec.matrix
    found = {}
    for factor in (0.5, 2.0):
        wide = replace(dram, bytes_per_cycle=dram.bytes_per_cycle * factor)
        found[f"bandwidth × {factor:g}"] = replace(spec, dram=wide)
        size = replace(pad, size_bytes=int(pad.size_bytes * factor))
        found[f"scratchpad × {factor:g}"] = replace(spec, scratchpad=size)
    array = replace(matrix, rows=matrix.rows // 2, cols=matrix.cols // 2)
    found["array and lanes × 0.5"] = replace(
        spec, matrix=array, vector=replace(vector, lanes=vector.lanes // 2)
    )
    both = replace(found["scratchpad × 0.5"], dram=found["bandwidth × 0.5"].dram)
    found["scratchpad and bandwidth × 0.5"] = both
    return {what: replace(one, name=f"{spec.name} with {what}") for what, one in found.items()}


@dataclass(frozen=True, slots=True)
class Survival:
    """Cycles of one network on one changed machine, by way to its plan, and what each way measured."""

    network: str
    change: str
    distance: float
    heuristic: int
    carried: int
    carried_measurements: int
    as_many: int
    tuned: int
    both: int
    unmeasured: int
    model_alone: int
    began_from: str

    def share(self, cycles: int) -> float:
        """Share of the tuned gain over the heuristic plan that another plan has."""
        return (self.heuristic - cycles) / max(1, self.heuristic - self.tuned)

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of the table."""
        kept = self.began_from.rpartition("schedules ")[2].removesuffix(" fit")
        return (
            self.network,
            self.change,
            f"{self.distance:.2f}",
            kept,
            f"{self.heuristic:,}",
            f"{self.heuristic / self.tuned - 1:.1%}",
            str(self.carried_measurements),
            *(f"{share:.0%}" for share in self.shares),
        )

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the ways, in the order of the table."""
        ways = self.model_alone, self.unmeasured, self.carried, self.as_many, self.both
        return tuple(map(self.share, ways))


def cycles(plan: PlanResult | None) -> int:
    """Measured cycles of a plan."""
    assert plan is not None and plan.measured_cycles is not None
    return plan.measured_cycles


def confirmed(result: GraphSearch, graph: Graph, spec: HardwareSpec) -> int:
    """Cycles of a plan that nothing has measured yet."""
    rows = [(x.group, () if x.schedule is None else (x.schedule,)) for x in result.found.groups]
    return confirm(graph, rows, spec, 0.0, 1).cycles


def searched(
    graph: Graph, spec: HardwareSpec, store: Store, measure: int, strategy: str = "model"
) -> GraphSearch:
    """Search a network on a machine."""
    options = SearchOptions(measure=measure, strategy=strategy, workers=1)
    storage = storage_for(None, store)
    return search(
        graph, EmulatorTarget(spec), model_of(spec), options, store=store, storage=storage
    )


def survivals(network: str, done: set[str]) -> Iterator[Survival]:
    """Tune a network on the base machine, then measure each changed one that is not ``done``."""
    base = load_spec(BASE)
    if done >= changes(base).keys():
        return
    graph = open_network(resolve_model(network), None, Layout(base.layout), Accuracy.EXACT)
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "known"
        with Store.open(known / "store.db") as store:
            searched(graph, base, store, MEASURE)
        for number, (what, spec) in enumerate(changes(base).items()):
            if what in done:
                continue

            def run(
                way: str, measure: int, strategy: str = "model", carries: bool = True
            ) -> GraphSearch:
                place = Path(folder) / f"{number}-{way}"  # noqa: B023 -- called within the turn
                place.mkdir()
                for file in known.iterdir() if carries else ():
                    (place / file.name).write_bytes(file.read_bytes())
                with Store.open(place / "store.db") as store:
                    return searched(graph, spec, store, measure, strategy)  # noqa: B023

            tuned = run("tuned", MEASURE, carries=False)
            carried = run("carried", MEASURE, "heuristic")
            used = len(carried.records)
            as_many = run("as many", used, carries=False)
            both = run("both", MEASURE)
            yield Survival(
                network,
                what,
                machine_distance(base, spec),
                cycles(tuned.heuristic),
                cycles(carried.found),
                used,
                cycles(as_many.found),
                cycles(tuned.found),
                cycles(both.found),
                confirmed(run("unmeasured", 0), graph, spec),
                confirmed(run("model alone", 0, carries=False), graph, spec),
                carried.began_from,
            )


def summary(rows: list[Survival]) -> Iterator[tuple[str, ...]]:
    """Give the mean and the worst row."""
    shares = np.array([x.shares for x in rows])
    weights = np.array([x.heuristic / x.tuned - 1 for x in rows])
    mean, worst = shares.mean(axis=0), shares.min(axis=0)
    weighted = weights @ shares / weights.sum()
    for name, figures in (("mean", mean), ("mean, by gain", weighted), ("worst", worst)):
        yield (name, *[""] * 6, *(f"{x:.0%}" for x in figures))


def table_of(rows: list[Survival]) -> Table:
    """Return the table of all rows."""
    return Table(
        "Share of the tuned gain",
        (
            *("network", "change", "distance", "fit", "heuristic cycles", "tuned gain", "measured"),
            *("model alone", "carried, unmeasured", "carried", "anew, as many"),
            "carried, then searched",
        ),
        (*(one.row for one in rows), *summary(rows)),
    )


def measure(networks: Iterable[str], kept: Path | None) -> list[Survival]:
    """Measure what is not kept, and keep it."""
    rows = []
    if kept is not None and kept.exists():
        rows = [Survival(**row) for row in json.loads(kept.read_text())]
    for network in networks:
        for one in survivals(network, {row.change for row in rows if row.network == network}):
            print(*one.row, flush=True)
            rows.append(one)
            if kept is not None:
                kept.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return [row for row in rows if row.network in networks]


HEAD = f"""# Figures of carried plans

Written by `make bench-carried`. A network is tuned on `{BASE}` with {MEASURE} measurements. Then a number of the machine
changes, which makes it a machine without measurements. *tuned gain* is what {MEASURE} measurements from nothing gain there over the
heuristic plan. The last columns are shares of that gain:

- *model alone*: the plan that the shipped model expects to be best, without a measurement of this machine or of its neighbour
  (`--measure 0` with an empty store);
- *carried, unmeasured*: the same with the store of `{BASE}` (`--measure 0`). What `{BASE}` measured corrects the model, its schedules
  are candidates, and those that do not fit are repaired to the nearest legal ones;
- *carried*: the heuristic plan, the plan of `{BASE}` and the one expected to be best are measured, two schedules of each group, and
  nothing else (`--strategy heuristic`);
- *anew, as many*: a search from nothing with as many measurements;
- *carried, then searched*: what `autotune search` does by default, with {MEASURE} measurements.

The heuristic plan itself has 0 %. Of an unmeasured plan the emulator tells the cycles afterwards: it may be dearer than the heuristic
plan, less than 0 %. *fit* counts the schedules of the neighbour that are legal on the changed machine; *distance* is
the root mean square of the log2 ratios of its numbers. Cycles of emulated machines repeat exactly.

"""


def main() -> None:
    """Print the table; ``--markdown FILE`` keeps it too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--json", type=Path, help="rows to go on from, and to keep")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-carried.md here")
    chosen = parser.parse_args()
    table = table_of(measure(chosen.networks, chosen.json))
    print(table.text())
    if chosen.markdown is not None:
        chosen.markdown.write_text(HEAD + table.markdown() + "\n")


if __name__ == "__main__":
    main()
