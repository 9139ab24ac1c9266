"""The figures of `make bench-cpu`: our native engine against ONNX Runtime and OpenVINO on this CPU.

All get the same ONNX file, inputs and number of threads. They take turns in rounds, so that a busy
spell of the machine meets every engine, and only one computes at a time.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.child import ROOT, run_child
from benchmarks.cpu_engine import Case, Engine, EngineFailure
from benchmarks.cpu_figures import ENGINES, MEASURED, OURS, PEERS, EngineRow, Figures, NetworkRow
from benchmarks.cpu_networks import NAMES, NetworkCase, make_case
from benchmarks.cpu_tables import as_json, failures, from_json, markdown, text

PEERS_PYTHON = ROOT / ".bench" / "cpu" / "bin" / "python"
REST_SECONDS = 0.05
"""Between turns: thread pools spin for a while after a run, which would disturb the next engine."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds, and at least so many seconds and runs in each turn."""

    rounds: int
    seconds: float
    runs: int = 3


def say(progress: str) -> None:
    """Progress goes to stderr; stdout is for figures."""
    print(progress, file=sys.stderr, flush=True)


def take_turns(
    engines: Sequence[Engine], effort: Effort, failed: dict[str, str]
) -> dict[str, tuple[float, ...]]:
    """The median run of every engine in every round; each round begins with another engine. One
    that fails goes to ``failed`` with its reason."""
    rounds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for index in range(effort.rounds):
        first = index % max(len(engines), 1)
        for engine in (*engines[first:], *engines[:first]):
            if engine.name in failed:
                continue
            time.sleep(REST_SECONDS)
            try:
                rounds[engine.name].append(median(engine.time(effort.seconds, effort.runs)))
            except EngineFailure as failure:
                failed[engine.name] = str(failure)
    return {name: tuple(found) for name, found in rounds.items() if name not in failed}


def distance(found: Path, wanted: Path) -> float:
    """Greatest distance between the outputs in two npz files, as a share of their range."""
    with np.load(found) as ours, np.load(wanted) as theirs:
        if ours.files != theirs.files:
            return float("inf")
        pairs = [(ours[name], theirs[name]) for name in theirs.files]
    if any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    return max(float(np.abs(a - b).max() / max(np.ptp(b), 1e-30)) for a, b in pairs)


def measure_network(
    case: NetworkCase,
    threads: int,
    pythons: Mapping[str, Path],
    plan: Path | None,
    effort: Effort,
    folder: Path,
) -> NetworkRow:
    """One network on every engine that opens it."""
    failed: dict[str, str] = {}
    engines: list[Engine] = []
    with ExitStack() as stack:
        for name, python in pythons.items():
            given = Case(case.network, case.inputs, threads, plan if name == OURS else None)
            try:
                engines.append(stack.enter_context(Engine(name, python, given, folder)))
            except EngineFailure as failure:
                failed[name] = str(failure)
        outputs = {e.name: e.save_outputs(folder / f"{e.name}.out.npz") for e in engines}
        rounds = take_turns(engines, effort, failed)
        opened = {engine.name: engine.open_seconds for engine in engines}
    wanted = next(iter(outputs.values()), folder)
    rows = {
        name: EngineRow(found, opened[name], distance(outputs[name], wanted))
        for name, found in rounds.items()
    }
    return NetworkRow(case.name, threads, case.multiply_adds, rows, failed)


def show(row: NetworkRow) -> str:
    """A network's progress line."""
    times = (f"{name} {found.seconds * 1e3:.3f} ms" for name, found in row.engines.items())
    return f"{row.network}, threads {row.threads}: {', '.join(times)}"


def measure(
    networks: Sequence[str],
    threads: Sequence[int],
    pythons: Mapping[str, Path],
    plans: Path | None,
    effort: Effort,
    kept: Figures,
    keep: Callable[[Figures], None],
) -> Figures:
    """All figures. The peak is measured before and after, the greater counts: noise only lowers.

    Rows of ``kept`` are not measured again; ``keep`` gets what there is after each row.
    """
    asked = {(name, count) for name in networks for count in threads}
    rows = {(row.network, row.threads): row for row in kept.rows}
    rows = {key: row for key, row in rows.items() if key in asked and pythons.keys() <= _tried(row)}
    peaks = {count: max(_peak(count), kept.peak_gflops.get(count, 0.0)) for count in threads}

    def found() -> Figures:
        order = {name: place for place, name in enumerate(networks)}
        sorted_rows = sorted(
            rows.values(), key=lambda row: (threads.index(row.threads), order[row.network])
        )
        return Figures(kept.machine, peaks, tuple(sorted_rows))

    for name in networks:
        missing = [count for count in threads if (name, count) not in rows]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as made:
            case = make_case(name, Path(made))
            for count in missing:
                plan = None if plans is None else _plan_of(plans, name, count)
                row = measure_network(case, count, pythons, plan, effort, Path(made))
                rows[name, count] = row
                say(show(row))
                keep(found())
    peaks = {count: max(peaks[count], _peak(count)) for count in threads}
    return found()


def _tried(row: NetworkRow) -> set[str]:
    return {*row.engines, *row.failures}


def kept_figures(file: Path | None) -> Figures:
    """Return the figures that a file keeps; without rows where there is none, or of another machine."""
    machine = machine_name()
    if file is not None and file.exists():
        found = from_json(json.loads(file.read_text()))
        if found.machine == machine:
            return found
        say(f"{file}: of another machine, measured anew")
    return Figures(machine, {}, ())


def _write(file: Path | None, figures: Figures) -> None:
    if file is not None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(as_json(figures), indent=2) + "\n")
        part.replace(file)


def _plan_of(plans: Path, name: str, threads: int) -> Path | None:
    """Return the plan of a network for so many threads, else the one for any; None without either."""
    files = (plans / f"{name}.{threads}.plan", plans / f"{name}.plan")
    return next((file for file in files if file.exists()), None)


def _peak(threads: int) -> float:
    found = run_child(Path(sys.executable), "benchmarks.cpu_peak", [str(threads)])
    return float(found["gflops"])


def machine_name() -> str:
    """The CPU's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return f"CPU: {next(names, platform.processor() or platform.machine())}."


def main() -> None:
    """Measure, print, write; ends with 1 when outputs disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", type=Path, help="keep the figures here, and go on from those that are there"
    )
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-cpu.md here")
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=MEASURED)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument(
        "--plans", type=Path, help="folder of our plans, NETWORK.plan or NETWORK.THREADS.plan"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one engine's turn, at least")
    given = parser.parse_args()
    pythons = {e: PEERS_PYTHON if e in PEERS else Path(sys.executable) for e in given.engines}
    effort = Effort(given.rounds, given.seconds)
    keep = partial(_write, given.json)
    kept = kept_figures(given.json)
    figures = measure(given.networks, given.threads, pythons, given.plans, effort, kept, keep)
    print(text(figures))
    for failure in failures(figures):
        say(f"not run: {failure}")
    if given.markdown is not None:
        given.markdown.write_text(markdown(figures))
    keep(figures)
    wrong = figures.disagreeing()
    if wrong:
        sys.exit(f"error: outputs disagree: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
