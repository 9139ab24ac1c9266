"""The figures of `make bench-tuning`: how long our search and TVM's MetaSchedule take for one operator
on this CPU, and how fast what they find is; one thread, the same ONNX file and inputs.

Each tunes in a process of its own, one after the other; then the two that are tuned take turns in
rounds, and the best round counts. Tuning seconds are wall clock, measuring included. The
search needs a machine that was calibrated once (`autotune calibrate --target cpu --threads 1`). This process imports no engine (see `child.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.child import ROOT, run_child
from benchmarks.table import Table
from benchmarks.tuning_tasks import TASKS, Task

TVM_PYTHON = ROOT / ".bench" / "tvm" / "bin" / "python"
WORKERS = {
    "by rule": (Path(sys.executable), "benchmarks.tuning_worker", "rule"),
    "searched": (Path(sys.executable), "benchmarks.tuning_worker", "search"),
    "MetaSchedule": (TVM_PYTHON, "benchmarks.tvm_worker", "tune"),
}
NOTE = """\
Written by `make bench-tuning`: one operator, one thread, the same ONNX file for all. *By rule* is a
session without calibration, *searched* `autotune search` on a machine that was calibrated once (not
counted), MetaSchedule TVM's tuner with its XGBoost cost model, to which weights are arguments.
Seconds to tune are wall clock with all measuring; of peak is the share of the peak measured in the
same run."""


@dataclass(frozen=True, slots=True)
class TunedRow:
    """One task with one tuner: seconds to tune, measurements taken, and the fastest run after it."""

    task: str
    tuner: str
    tune_seconds: float
    measurements: int
    run_seconds: float
    gflops: float


def say(progress: str) -> None:
    """Progress goes to stderr; stdout is for figures."""
    print(progress, file=sys.stderr, flush=True)


def measure_task(
    task: Task, rounds: int, tuners: Mapping[str, tuple[Path, str, str]]
) -> list[TunedRow]:
    """Tune with every tuner, then time what they found in turns."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        task.save(folder / "task.onnx")
        found: dict[str, dict[str, Any]] = {}
        for name, (python, worker, mode) in tuners.items():
            say(f"{task.name}: {name}")
            found[name] = run_child(python, worker, [mode, made, str(task.tvm_trials)])
        best = dict.fromkeys(tuners, float("inf"))
        for _ in range(rounds):
            for name, (python, worker, mode) in tuners.items():
                run = run_child(python, worker, [f"time-{mode}", made, "0"])
                best[name] = min(best[name], float(run["seconds"]))
    rows = []
    for name, tuned in found.items():
        gflops = 2 * task.multiply_adds / best[name] / 1e9
        rows.append(
            TunedRow(task.name, name, tuned["seconds"], tuned["measurements"], best[name], gflops)
        )
        say(f"  {rows[-1]}")
    return rows


def table(rows: list[TunedRow], peak: float) -> Table:
    """The rows beside each other."""
    cells = tuple(
        (
            row.task,
            row.tuner,
            f"{row.tune_seconds:.2f}",
            str(row.measurements),
            f"{row.run_seconds * 1e6:.0f}",
            f"{row.gflops:.1f}",
            f"{row.gflops / peak:.0%}",
        )
        for row in rows
    )
    columns = ("task", "tuner", "tune s", "measured", "run µs", "GFLOP/s", "of peak")
    return Table(f"Measured peak {peak:.0f} GFLOP/s, one thread:", columns, cells)


def main() -> None:
    """Tune, time, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-tuning.md here")
    parser.add_argument("--tuners", nargs="+", choices=WORKERS, default=tuple(WORKERS))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    tuners = {name: WORKERS[name] for name in given.tuners}
    rows: list[TunedRow] = []
    for task in TASKS:
        try:
            rows += measure_task(task, given.rounds, tuners)
        except (RuntimeError, subprocess.CalledProcessError) as failure:
            sys.exit(f"error: {task.name}: {failure}")
    peak = float(run_child(Path(sys.executable), "benchmarks.cpu_peak", ["1"])["gflops"])
    shown = table(rows, peak)
    print(shown.text())
    if given.markdown is not None:
        given.markdown.write_text(f"# Figures against TVM\n\n{NOTE}\n\n{shown.markdown()}\n")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
