"""Several callers of one session on this CPU, beside ONNX Runtime: requests per second and the slowest ones.

    python -m benchmarks.callers [--networks …] [--threads 1 2] [--callers 1 2 4] [--markdown docs/figures-callers.md]

Callers are threads of one process that ask without a pause. Each engine has a process of its own, and both take turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from autotune.targets.native.cpu.topology import core_count
from benchmarks.child import ROOT
from benchmarks.cpu_engine import Case, Engine
from benchmarks.cpu_networks import NAMES, make_case
from benchmarks.machine import busy
from benchmarks.table import Table

SAMPLE = (
    "mlp", "transformer_block", "bert_small", "gru_layer", "light_squeezenet", "mobilenet_v2", "mobilenet_v3", "light_resnet50",
)  # fmt: skip
PEERS = ROOT / ".bench" / "cpu" / "bin" / "python"
OURS, PEER = "autotune", "onnxruntime"
TURNS, TURN_SECONDS = 5, 1.0
CORES = core_count()
COLUMNS = (
    *("network", "threads", "callers", "requests/s", "over ONNX Runtime", "over one caller", "p50 ms"),
    *("p99 ms", "longest ms", "ONNX Runtime: requests/s", "p50 ms", "p99 ms", "longest ms"),
)  # fmt: skip
HEAD = """# Figures of several callers

Written by `make bench-callers`. So many threads of one process call one session without a pause. *Threads* are those of a
run: with one thread on {cores} cores, {cores} runs go on at once, in memory of their own; with {cores} threads, runs take turns. Both engines
have processes of their own and take {turns} turns of {seconds:g} s; requests per second are the median of the turns. *Over one caller* is beside the same
session with one caller. The longest request is of all turns. {busy}

"""


@dataclass(frozen=True, slots=True)
class Load:
    """What one engine did for so many callers: requests per second, and milliseconds of all requests."""

    per_second: float
    milliseconds: np.ndarray

    @classmethod
    def of(cls, turns: Sequence[Sequence[float]], callers: int) -> Load:
        """Return the load of turns, each the seconds of its requests: callers never pause, and end with their last one."""
        rates = [callers * len(turn) / sum(turn) for turn in turns]
        return cls(median(rates), 1e3 * np.concatenate([np.asarray(turn) for turn in turns]))

    @property
    def cells(self) -> tuple[str, ...]:
        """Median, 99th percentile and longest request in milliseconds."""
        found = (*np.quantile(self.milliseconds, (0.5, 0.99)), self.milliseconds.max())
        return tuple(f"{x:.2f}" for x in found)


def measured(engines: Mapping[str, Engine], callers: int) -> dict[str, Load]:
    """Load the engines by so many callers, in turns."""
    turns: dict[str, list[list[float]]] = {name: [] for name in engines}
    for turn in range(TURNS):
        for name in sorted(engines, reverse=bool(turn % 2)):
            turns[name].append(engines[name].load(TURN_SECONDS, callers))
    return {name: Load.of(found, callers) for name, found in turns.items()}


def row(network: str, threads: int, callers: int, found: Mapping[str, Load], alone: Load) -> tuple[str, ...]:  # fmt: skip
    """Return the cells of a line of the table; ``alone`` is our load by one caller."""
    ours, peer = found[OURS], found[PEER]
    ratios = (ours.per_second / peer.per_second, ours.per_second / alone.per_second)
    return (
        *(network, str(threads), str(callers), f"{ours.per_second:,.0f}"),
        *(f"{one:.2f}" for one in ratios),
        *ours.cells,
        f"{peer.per_second:,.0f}",
        *peer.cells,
    )


def means(rows: Sequence[tuple[str, ...]]) -> Table:
    """Return the ratios to ONNX Runtime by threads and callers: geometric mean and least."""
    kinds = list(dict.fromkeys((cells[1], cells[2]) for cells in rows))
    found = []
    for kind in kinds:
        ratios = [float(cells[4]) for cells in rows if (cells[1], cells[2]) == kind]
        found.append((*kind, f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"))
    return Table("Requests per second over ONNX Runtime's", ("threads", "callers", "mean", "least"), tuple(found))  # fmt: skip


def main() -> None:
    """Print the tables; ``--markdown FILE`` writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", choices=NAMES, default=SAMPLE)
    parser.add_argument("--threads", nargs="*", type=int, default=sorted({1, CORES}))
    parser.add_argument(
        "--callers", nargs="*", type=int, default=sorted({1, 2, CORES, 2 * CORES}),
        help="numbers of callers; one is always measured",
    )  # fmt: skip
    parser.add_argument("--peers", type=Path, default=PEERS, help="interpreter with ONNX Runtime")
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network in given.networks:
            case = make_case(network, folder)
            for threads in given.threads:
                files = Case(case.network, case.inputs, threads)
                with (
                    Engine(OURS, Path(sys.executable), files, folder) as ours,
                    Engine(PEER, given.peers, files, folder) as peer,
                ):
                    engines = {OURS: ours, PEER: peer}
                    loads = {n: measured(engines, n) for n in sorted({1, *given.callers})}
                added = [row(network, threads, n, loads[n], loads[1][OURS]) for n in loads]
                print(Table(network, COLUMNS, tuple(added)).text(), flush=True)
                rows += added
    tables = [means(rows), Table("Callers without a pause", COLUMNS, tuple(rows))]
    print(tables[0].text())
    if given.markdown is not None:
        head = HEAD.format(cores=CORES, turns=TURNS, seconds=TURN_SECONDS, busy=busy())
        given.markdown.write_text(head + "\n\n".join(table.markdown() for table in tables) + "\n")


if __name__ == "__main__":
    main()
