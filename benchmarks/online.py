"""Learning while serving, beside never learning, tuning once, and an oracle: ``make bench-online``.

    python -m benchmarks.online [--markdown docs/figures-online.md] [--cpu light_squeezenet] [--seconds 12]

Emulated machines change while a session serves; figures are cycles, the same on every host. This CPU is measured in
turns with and without learning.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from pathlib import Path

from autotune.graph.graph import Graph
from autotune.runtime.session.session import Session
from autotune.targets.opening import load_spec
from benchmarks.online_cpu import Turn, measure, table
from benchmarks.online_pictures import runs_picture
from benchmarks.online_runs import Costs, Followed, Prices, costs, follow, tuned_table
from benchmarks.online_scenarios import CHANGE, RUNS, SCENARIOS, Scenario
from benchmarks.table import Table

MACHINE, NETWORKS = "edge", ("mlp", "transformer_block")
PICTURE = "online-{place}.svg"
RETUNE_RUNS = 16

HEAD = """# Figures of learning while serving

`make bench-online` writes this page.

## Emulated machines

Sessions on `{machine}` open as users open them: by the heuristic plan, with the shipped model and an empty store. A scenario has {runs}
runs; from run {change} on, the machine changes. Where it changes slowly, it does so in four steps. The workload mix takes turns
between {networks}. Costs are those of each run's plan on a machine without noise.

- *Never learns*: the heuristic plan to the end. *Tuned once*: the plan of a full search (300 measurements) before the first run.
- *Oracle*: at every run the cheapest plan that anybody found for the machine as it is then, at once and for nothing.
- *Always re-tunes*: the oracle's plan, but it takes 60 measurements every {period} runs. The column is all cycles, measurements included,
  over those of never learning; *learns* beside it counts its measurements too.
- *Regret at the end* is the cost of the last run over the oracle's. *Share*: saved cycles of the runs over the oracle's.

"""
TAIL = """

Aims: regret under 2 % after 60 fresh measurements, at least 90 % of the oracle's saving, never below never learning.
"""


def graph_of(network: str) -> Graph:
    """The graph of a shipped network, as sessions on the machine run it."""
    session = Session(network, MACHINE)
    session.close()
    return session.table.graph


def row(scenario: Scenario, name: str, followed: Followed, paid: Costs) -> tuple[str, ...]:
    """Cells of a scenario."""
    never, oracle = sum(paid.never), sum(paid.oracle)
    worst = max(ours / n - 1 for ours, n in zip(paid.ours, paid.never, strict=True))
    each = followed.measured_cycles[-1] / max(1, followed.measured[-1])
    always = oracle + each * 60 * (RUNS // RETUNE_RUNS)
    ours = sum(paid.ours) + followed.measured_cycles[-1]
    return (
        scenario.name,
        name,
        str(followed.drifts),
        str(followed.refits),
        str(followed.measured[-1]),
        f"{paid.ours[-1] / paid.oracle[-1] - 1:.2%}",
        f"{1 - oracle / never:.1%}",
        f"{paid.share('ours'):.0%}",
        f"{paid.share('tuned_once'):.0%}",
        f"{worst:+.1%}",
        f"{ours / never:.2f}",
        f"{always / never:.2f}",
    )


COLUMNS = (
    "scenario", "network", "drifts found", "models", "fresh measurements", "regret at the end", "oracle saves",
    "share of it", "tuned once", "worst run over never", "all cycles, learns", "always re-tunes",
)  # fmt: skip


def emulated(images: Path | None) -> tuple[Table, list[str]]:
    """Run every scenario; return the table and the names of pictures."""
    spec = load_spec(MACHINE)
    graphs = [graph_of(network) for network in NETWORKS]
    prices, tuned, rows = Prices(spec), {}, []
    pictures: list[str] = []
    for scenario in SCENARIOS:
        mixed = scenario.network(RUNS - 1) != 0
        for chosen in [graphs] if mixed else [[graph] for graph in graphs]:
            followed = follow(chosen, spec, scenario)
            for graph in chosen:
                for drift in scenario.quiet_conditions():
                    if (graph.name, drift) not in tuned:
                        tuned[graph.name, drift] = tuned_table(graph, spec, drift)
            paid = costs(scenario, chosen, followed, tuned, prices)
            name = "both" if mixed else chosen[0].name
            rows.append(row(scenario, name, followed, paid))
            print(dict(zip(COLUMNS, rows[-1], strict=True)), flush=True)
            if images is not None and chosen[0] is graphs[0]:
                pictures.append(PICTURE.format(place=len(pictures) + 1))
                title = f"{scenario.name}, {name}"
                (images / pictures[-1]).write_text(runs_picture(title, paid))
    return Table(f"**{MACHINE}**", COLUMNS, tuple(rows)), pictures


def told(turns: Sequence[Turn]) -> str:
    """What the last session that learned told."""
    lines = [f"{at:6.1f} s  {text}" for at, text in turns[-1].events]
    return "\n".join(["```", *(lines or ["nothing"]), "```"])


def main() -> None:
    """Print the figures; with ``--markdown`` write the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--cpu", default="light_squeezenet")
    parser.add_argument("--seconds", type=float, default=12.0)
    wanted = parser.parse_args()
    images = None if wanted.markdown is None else wanted.markdown.parent / "images"
    turns = measure(wanted.cpu, wanted.seconds, 2)
    here = table(wanted.cpu, turns)
    print(here.text())
    found, pictures = emulated(images)
    print(found.text())
    if wanted.markdown is None:
        return
    head = HEAD.format(
        machine=MACHINE,
        runs=RUNS,
        change=CHANGE,
        networks=" and ".join(NETWORKS),
        period=RETUNE_RUNS,
    )
    drawn = "\n\n".join(f"![Cycles of each run](images/{name})" for name in pictures)
    cpu = f"""## This CPU

{platform.processor() or platform.machine()}, all cores. Three phases of {wanted.seconds:g} s each; in the second, another process copies
memory without end. Processes without and with learning take turns. In *alone* the session that learns is new: it tries other
plans on one of eight requests and compiles them beside the requests. What the last one told:

{told(turns)}

{here.markdown()}
"""
    wanted.markdown.write_text(f"{head}{found.markdown()}{TAIL}\n{drawn}\n\n{cpu}")


if __name__ == "__main__":
    main()
