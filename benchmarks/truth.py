"""``make bench-truth``: how far found plans are from the best ones, by proof where graphs are small and by
lower bounds where they are not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.api import load_network
from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import shipped_model
from autotune.graph.graph import Graph
from autotune.targets.drawn import drawn_spec
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bound.bound import has_bound
from autotune.tuner.fusion import GraphSearch, search
from autotune.tuner.options import SearchOptions
from benchmarks.table import Table
from benchmarks.truth_cpu import GRAPHS as CPU_GRAPHS
from benchmarks.truth_cpu import SEARCH_SECONDS, cpu_table
from benchmarks.truth_graphs import drawn_graph
from benchmarks.truth_space import PlanSpace, SpaceError

GRAPHS = 20
"""Graphs whose best plan is proved, on each machine."""
SEED = 0
LITTLE_BYTES = 2048
"""Scratchpad of the machine on which tiles have to be small."""
DRAWN = 2, 3
"""Seed and number of the drawn machine; the shipped model has not seen it."""
SHARE = 0.02
"""Part of all candidates that a search may measure."""
NETWORKS = ("mlp", "attention", "transformer_block", "light_squeezenet")
MEASURE = 32
"""Measurements of a search over a network beyond one for each group of the compared plans."""

HEAD = """# Figures of truth

Written by `make bench-truth`. The first table has random graphs of 3 to 8 operators with every legal schedule of
every group of every partition as the space: {graphs} graphs on each machine. The best plan is proved: a schedule
is left unmeasured only where its own lower bound exceeds a measured one, a group only where no partition with
it can be the best. *Found* is what `search` returns with the shipped model, never calibrated on the machine, from
at most {share:.0%} of the space; *heuristic* the plan without a search.

The second table sets found plans of networks beside the cycles that no plan undercuts
(`docs/decisions/0050-lower-bound.md`), after searches with {measure} measurements.

The last table has graphs of 3 to 5 operators on this CPU. Every schedule of every group is timed alone; the best plans of
the best partitions then run whole, in turns, and the fastest is the *best known*. Fresh runs in turns compare it with the
plan of a search of {seconds:.0f} s, which has an empty store, and with itself: the noise floor. Cells are medians over graphs.

"""


@dataclass(frozen=True, slots=True)
class Solved:
    """One small graph: candidates in its space, measurements of the search, and the cycles of plans."""

    size: int
    measured: int
    best: int
    found: int
    heuristic: int
    bound: float

    @property
    def regret(self) -> float:
        """Found over best, minus one."""
        return self.found / self.best - 1.0


def machines() -> tuple[HardwareSpec, ...]:
    """Return the machines of the first table."""
    edge = load_spec("edge")
    little = replace(edge.scratchpad, size_bytes=LITTLE_BYTES)
    return edge, replace(edge, name="edge with 2 KiB", scratchpad=little), drawn_spec(*DRAWN)


def solve(graph: Graph, spec: HardwareSpec, model: CostModel) -> Solved | None:
    """Prove the best plan of a graph and search for one; None for a space that is too large."""
    try:
        space = PlanSpace(graph, spec)
        size = space.size
        best, _ = space.optimum()
    except SpaceError:
        return None
    result = found(graph, spec, model, round(SHARE * size))
    heuristic, cycles = result.heuristic, result.found.measured_cycles
    assert heuristic is not None and heuristic.measured_cycles is not None
    assert cycles is not None and result.bound is not None
    least = result.bound.cycles
    return Solved(size, len(result.records), best, cycles, heuristic.measured_cycles, least)


def found(graph: Graph, spec: HardwareSpec, model: CostModel, measure: int) -> GraphSearch:
    """Search a graph with the default options but for the measurements."""
    measure = min(measure, SearchOptions().measure)
    options = SearchOptions(measure=measure, seed=SEED, workers=1)
    return search(graph, EmulatorTarget(spec), model, options)


def solved_graphs(spec: HardwareSpec, model: CostModel, count: int) -> Iterator[Solved]:
    """Yield the first ``count`` drawn graphs whose space is small enough."""
    number = 0
    while count:
        one = solve(drawn_graph(SEED, number), spec, model)
        number += 1
        if one is None:
            continue
        count -= 1
        sys.stderr.write(f"{spec.name}: graph {number}: {one}\n")
        yield one


def truth_row(spec: HardwareSpec, rows: Sequence[Solved]) -> tuple[str, ...]:
    """Return the cells of one machine."""
    regrets = [row.regret for row in rows]
    by_rule = [row.heuristic / row.best - 1.0 for row in rows]
    bounds = [row.best / row.bound - 1.0 for row in rows]
    shares = [row.measured / row.size for row in rows]
    return (
        spec.name,
        str(len(rows)),
        f"{statistics.median(row.size for row in rows):,.0f}",
        f"{statistics.median(shares):.2%} ({max(shares):.1%})",
        f"{sum(regret <= 0 for regret in regrets) / len(rows):.0%}",
        f"{statistics.median(regrets):.2%} ({max(regrets):.2%})",
        f"{statistics.median(by_rule):.1%} ({max(by_rule):.0%})",
        f"{statistics.median(bounds):.0%} ({max(bounds):.0%})",
    )


TRUTH_COLUMNS = (
    "machine",
    "graphs",
    "candidates, median",
    "of them measured (most)",
    "best plan found",
    "found above best (worst)",
    "heuristic above best (worst)",
    "best above bound (worst)",
)


def network_row(name: str, spec: HardwareSpec, model: CostModel) -> tuple[str, ...]:
    """Return the cells of one network on one machine."""
    result = found(load_network(name, layout=spec.layout), spec, model, MEASURE)
    bound, cycles, plain = (
        result.bound,
        result.found.measured_cycles,
        result.unfused.measured_cycles,
    )
    assert bound is not None and cycles is not None and plain is not None
    return (
        name,
        spec.name,
        f"{bound.cycles:,.0f}",
        bound.limit,
        f"{cycles:,}",
        f"{bound.above(cycles):.1%}",
        f"{bound.above(plain):.1%}",
    )


NETWORK_COLUMNS = (
    "network",
    "machine",
    "bound, cycles",
    "from",
    "found, cycles",
    "found above any plan at most",
    "unfused above any plan at most",
)


def tables(graphs: int, networks: Sequence[str], cpu_graphs: int) -> Iterator[Table]:
    """Yield the tables; each row is shown on stderr as it is made."""
    rows = []
    for spec in machines() if graphs else ():
        model = _model(spec)
        rows.append(truth_row(spec, tuple(solved_graphs(spec, model, graphs))))
    if rows:
        yield Table("Small graphs, median over graphs (worst):", TRUTH_COLUMNS, tuple(rows))
    bounded = []
    for name in networks:
        for spec in filter(has_bound, map(load_spec, spec_names())):
            bounded.append(network_row(name, spec, _model(spec)))
            sys.stderr.write(f"{bounded[-1]}\n")
    if bounded:
        yield Table("Networks:", NETWORK_COLUMNS, tuple(bounded))
    if cpu_graphs:
        yield cpu_table(cpu_graphs)


def _page(made: Sequence[Table], graphs: int) -> str:
    head = HEAD.format(graphs=graphs, share=SHARE, measure=MEASURE, seconds=SEARCH_SECONDS)
    return head + "\n\n".join(table.markdown() for table in made) + "\n"


def _model(spec: HardwareSpec) -> CostModel:
    model = shipped_model(spec)
    assert model is not None, f"no shipped model answers for {spec.name}"
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or show the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--cpu-graphs", type=int, default=CPU_GRAPHS)
    chosen = parser.parse_args(arguments)
    made = list(tables(chosen.graphs, chosen.networks, chosen.cpu_graphs))
    if chosen.markdown is None:
        print("\n\n".join(table.text() for table in made))
        return
    chosen.markdown.write_text(_page(made, chosen.graphs))


if __name__ == "__main__":
    main()
