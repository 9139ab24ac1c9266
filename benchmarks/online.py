"""Learning while serving, beside never learning, tuning once, and an oracle: ``make bench-online``.

    python -m benchmarks.online [--markdown docs/figures-online.md] [--networks light_squeezenet:2 …] [--seconds 9] [--json FILE]

Emulated machines change while a session serves; figures are cycles, the same on every host. This CPU is measured in
turns with and without learning; what ``--json`` keeps of it is not measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from autotune.graph.graph import Graph
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.session.session import Session
from autotune.targets.opening import load_spec
from autotune.targets.physical import Drift
from benchmarks.machine import busy
from benchmarks.online_cpu import TURN_SECONDS, Served, by_load, keep, kept, measure, table, told
from benchmarks.online_pictures import runs_picture
from benchmarks.online_runs import Costs, Followed, Prices, costs, follow, tuned_table
from benchmarks.online_scenarios import CHANGE, RUNS, SCENARIOS, Scenario
from benchmarks.table import Table

MACHINE, NETWORKS = "edge", ("mlp", "aspp_head")


class Load(NamedTuple):
    """A network on this CPU, and how many call it without a pause."""

    network: str
    callers: int


NETWORKS_HERE = (Load("light_squeezenet", 2), Load("gru_layer", 1))
"""Networks on this CPU and how many call each: of one the heuristic plan is the best that learning finds, of the other it is not."""
PICTURE = "online-{place}.svg"
RETUNE_RUNS = 16

HEAD = """# Figures of learning while serving

`make bench-online` writes this page.

## Emulated machines

Sessions on `{machine}` open as users open them: by the heuristic plan, with the shipped model and an empty store. A scenario has {runs}
runs; from run {change} on, the machine changes. Where it changes slowly, it does so in four steps. The workload mix takes turns
between {networks}. Costs are those of each run's plan, or of the version on trial in it, on a machine without noise.

- *Never learns*: the heuristic plan to the end. *Tuned once*: the plan of a full search (200 measurements) before the first run.
- *Oracle*: at every run the cheapest plan that anybody found for the machine as it is then, at once and for nothing.
- *Always re-tunes*: the oracle's plan, but it takes 60 measurements every {period} runs. The column is all cycles, measurements included,
  over those of never learning; *learns* beside it counts its measurements too.
- *Regret* is the cost of a run over the oracle's. *Share*: saved cycles of the runs over the oracle's.

"""
TAIL = """

Aims: regret under 2 % after 60 fresh measurements, at least 90 % of the oracle's saving, never below never learning. A drift is answered
with 24 known candidates measured again, and 36 measurements of a search. In these scenarios the oracle's plan is
nearly that of the undisturbed machine: tuned once is as good, and what learning wins it wins in its first 13 runs: it searches after
8, and live requests judge until then. These are 5 % of the {runs} runs; two networks in turns pay that twice.
A run here takes a fraction of a millisecond: *all cycles* counts measurements as if
the accelerator itself made them between {runs} runs, and the last column says how many runs repay them.
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
    regrets = [ours / best - 1 for ours, best in zip(paid.ours, paid.oracle, strict=True)]
    each = followed.measured_cycles[-1] / max(1, followed.measured[-1])
    always = oracle + each * 60 * (RUNS // RETUNE_RUNS)
    ours = sum(paid.ours) + followed.measured_cycles[-1]
    return (
        scenario.name,
        name,
        str(followed.drifts),
        str(followed.refits),
        str(followed.swaps_after(CHANGE)),
        str(followed.measured[-1]),
        f"{regrets[-1]:.2%} / {max(regrets[RUNS // 2 :]):.2%}",
        f"{1 - oracle / never:.1%}",
        f"{paid.share('ours'):.0%}",
        f"{paid.share('tuned_once'):.0%}",
        f"{worst:+.1%}",
        f"{ours / never:.2f}",
        f"{always / never:.2f}",
        f"{RUNS * followed.measured_cycles[-1] / max(1, never - sum(paid.ours)):,.0f}",
    )


COLUMNS = (
    "scenario", "network", "drifts found", "models", "swaps after the change", "fresh measurements", "regret: end / worst of 2nd half", "oracle saves",
    "share of it", "tuned once", "worst run over never", "all cycles, learns", "always re-tunes",
    "runs that repay measuring",
)  # fmt: skip


def emulated(images: Path | None) -> Iterator[tuple[Table, list[str]]]:
    """Run every scenario; after each give the table so far and the names of pictures."""
    spec = load_spec(MACHINE)
    graphs = [graph_of(network) for network in NETWORKS]
    prices = Prices(spec)
    tuned: dict[tuple[str, Drift], ProgramTable] = {}
    rows: list[tuple[str, ...]] = []
    pictures: list[str] = []
    for scenario in SCENARIOS:
        chosen = graphs if scenario.network(RUNS - 1) else graphs[:1]
        followed = follow(chosen, spec, scenario)
        for graph in chosen:
            for drift in scenario.quiet_conditions():
                if (graph.name, drift) not in tuned:
                    tuned[graph.name, drift] = tuned_table(graph, spec, drift)
        paid = costs(scenario, chosen, followed, tuned, prices)
        name = " and ".join(graph.name for graph in chosen)
        rows.append(row(scenario, name, followed, paid))
        print(dict(zip(COLUMNS, rows[-1], strict=True)), flush=True)
        if images is not None:
            pictures.append(PICTURE.format(place=len(pictures) + 1))
            title = f"{scenario.name}, {name}"
            (images / pictures[-1]).write_text(runs_picture(title, paid))
        yield Table(f"**{MACHINE}**", COLUMNS, tuple(rows)), pictures


def here(served: Sequence[Served], note: str) -> str:
    """The part of the page on this CPU."""
    tables = [f"{table(one).markdown()}\n\n{told(one)}" for one in by_load(served)]
    text = f"""## This CPU

Callers without a pause, all cores, five phases. In *beside a neighbour* another process copies
memory without end. *On slower cores* stands in for a clock that drops, as a program cannot set the clock of this CPU: one
process a core computes without end, touches no memory and takes up to half of the core's time. Bandwidth stays as it was, as
with a slower clock; but the share comes in slices of the scheduler, so the tail is longer than a slower clock would make it.

Three processes take turns of {TURN_SECONDS:g} s; while one serves, the others are stopped, with what they compile. *over not* is beside
the session that does not learn, of the requests of a phase together; in brackets its 90 % interval, by a bootstrap of turns. *not, again* does not learn
either: what it differs by is noise. *rate* are requests answered, over those of *not*: the median of the turns. In *alone* the session that learns is new: it
profiles, compiles beside the requests and tries other plans on bursts of them. The last columns count what learning did.
The clock of this machine goes on while a session is stopped, two thirds of the time. That distorts what learning measures by it: the share of
a core that a proposal gets looks a third as large, so that it counts as starved sooner, and a block of runs for the drift detector may span a pause.
Below each table stands what it told, by seconds of its own turns. {note}"""
    return "\n\n".join([text, *tables]) + "\n"


def page(found: Table, pictures: Sequence[str], cpu: str) -> str:
    """The page of figures."""
    mix = " and ".join(NETWORKS)
    head = HEAD.format(machine=MACHINE, runs=RUNS, change=CHANGE, networks=mix, period=RETUNE_RUNS)
    drawn = "\n\n".join(f"![Cycles of each run](images/{name})" for name in pictures)
    missing = [scenario.name for scenario in SCENARIOS[len(found.rows) :]]
    cut = f"\n\nThis run was cut off before: {'; '.join(missing)}." if missing else ""
    return f"{head}{found.markdown()}{cut}{TAIL.format(runs=RUNS)}\n{drawn}\n\n{cpu}"


def load(text: str) -> Load:
    """Return what ``network:callers`` names. Raises ``ArgumentTypeError`` for anything else."""
    network, _, callers = text.rpartition(":")
    if not network or not callers.isdecimal() or not int(callers):
        raise argparse.ArgumentTypeError(f"{text!r} is no network:callers, as light_squeezenet:2")
    return Load(network, int(callers))


def main() -> None:
    """Print the figures; with ``--markdown`` write the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument(
        "--networks",
        nargs="+",
        type=load,
        default=NETWORKS_HERE,
        help="on this CPU, as name:callers",
    )
    parser.add_argument("--seconds", type=float, default=9.0, help="of a phase, for each process")
    parser.add_argument("--json", type=Path, help="turns on this CPU to go on from, and to keep")
    parser.add_argument("--note", help="of this CPU, in place of how busy it is now")
    wanted = parser.parse_args()
    note = busy() if wanted.note is None else wanted.note
    images = None if wanted.markdown is None else wanted.markdown.parent / "images"
    served = [] if wanted.json is None else kept(wanted.json)
    for network, callers in wanted.networks:
        if any((one.network, one.callers) == (network, callers) for one in served):
            continue
        served += measure(network, wanted.seconds, callers)
        if wanted.json is not None:
            keep(wanted.json, served)
    for one in by_load(served):
        print(table(one).text())
    cpu = here(served, note)
    for found, pictures in emulated(images):
        if wanted.markdown is not None:  # what was measured stays if the rest is cut off
            wanted.markdown.write_text(page(found, pictures, cpu))
    print(found.text())


if __name__ == "__main__":
    main()
