"""The figures of `make bench-systolic`: the emulator against SCALE-Sim in one run, on the same
layers; whole networks and lowered programs on the emulator; seconds against instructions.

Every measurement is a process of its own, so that CPU seconds and memory are its own. This one
imports the standard library alone (see `child.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.child import run_child
from benchmarks.scalesim_peer import PeerRun, simulate
from benchmarks.systolic_figures import DecadeRow, Figures, LayerRow, PeerRow, PlanRow, WholeRow
from benchmarks.systolic_tables import markdown, text
from benchmarks.topology import CASES, Case, Layer

OURS = Path(sys.executable)


def say(progress: str) -> None:
    """Progress goes to stderr; stdout is for figures."""
    print(progress, file=sys.stderr, flush=True)


def emulate(case: Case, layers: list[Layer]) -> dict[str, Any]:
    """What `emulator_worker.py` found for some layers of a case."""
    names = [layer.name for layer in layers]
    return run_child(OURS, "benchmarks.emulator_worker", [str(CASES.index(case)), *names])


def bench_peer(case: Case, full: bool) -> PeerRow | None:
    """The same layers on both; None when the short run has none of this case."""
    layers = case.layers(full)
    if not layers:
        return None
    say(f"{case.name}: {len(layers)} layers on SCALE-Sim")
    peer = simulate(case, layers)
    ours = emulate(case, layers)
    rows = tuple(layer_row(layer.name, peer, ours["layers"][layer.name]) for layer in layers)
    return PeerRow(
        case.name,
        len(case.layers(full=True)),
        rows,
        sum(row.scalesim_cpu_seconds for row in rows),
        ours["execute_seconds"],
        ours["make_seconds"] + ours["first_seconds"],
        peer.cpu_seconds,
        ours["cpu_seconds"],
        peer.peak_rss_bytes,
        ours["peak_rss_bytes"],
    )


def layer_row(name: str, peer: PeerRun, ours: dict[str, Any]) -> LayerRow:
    """One layer on both."""
    return LayerRow(
        name, peer.cycles[name], ours["cycles"], peer.layer_cpu_seconds[name], ours["cpu_seconds"]
    )


def bench_whole(case: Case) -> WholeRow:
    """All layers on the emulator."""
    say(f"{case.name}: all layers on the emulator")
    ours = emulate(case, case.layers(full=True))
    found = ours["layers"].values()
    return WholeRow(
        case.name,
        len(found),
        sum(layer["instructions"] for layer in found),
        sum(layer["cycles"] for layer in found),
        ours["execute_seconds"],
        ours["make_seconds"] + ours["first_seconds"],
        ours["peak_rss_bytes"],
    )


def measure(full: bool) -> Figures:
    """All figures."""
    peers = [bench_peer(case, full) for case in CASES]
    wholes = tuple(bench_whole(case) for case in CASES)
    say("lowered programs of a network")
    network = run_child(OURS, "benchmarks.network_worker", [])
    plans = tuple(PlanRow(name, **found) for name, found in network["plans"].items())
    decades = tuple(DecadeRow(**found) for found in network["decades"])
    return Figures(full, tuple(row for row in peers if row is not None), wholes, plans, decades)


def main() -> None:
    """Measure, print, write; ends with 1 when a layer's cycles disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="SCALE-Sim on every layer")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-systolic.md here")
    arguments = parser.parse_args()
    figures = measure(arguments.full)
    print(text(figures))
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(figures))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")
    wrong = [f"{r.case} {x.name}" for r in figures.peers for x in r.layers if not x.agrees]
    if wrong:
        sys.exit(f"error: emulator and SCALE-Sim disagree on {', '.join(wrong)}")


if __name__ == "__main__":
    main()
