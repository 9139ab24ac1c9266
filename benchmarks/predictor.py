"""What the embedded predictor costs a compiler: CPU time to load it and of every question.

Run it by `make bench-predictor`. Every figure is the least of several processes, or of several
repeats within one: the machine is shared, and other work only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import autotune
from benchmarks.child import run_child
from benchmarks.machine import busy
from benchmarks.predictor_worker import PAIRS
from benchmarks.table import Table

WORKER = "benchmarks.predictor_worker"
TARGET = "edge"
BUDGET = 200
"""Measurements of the calibration: times depend on the model's size, not on how good it is."""
REPEATS = 5


def saved(folder: Path) -> Path:
    """A predictor's file of a short calibration."""
    store = folder / "store.db"
    autotune.calibrate(TARGET, budget=BUDGET, models=["mlp"], store=store)
    file = folder / f"{TARGET}.predictor"
    autotune.Predictor.load(TARGET, store).save(file)
    return file


def least(file: Path, *arguments: str) -> dict[str, float]:
    """The least of every figure over some processes."""
    job, *rest = arguments
    call = (job, str(file), *rest)
    runs = [run_child(Path(sys.executable), WORKER, call) for _ in range(REPEATS)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def load_table(file: Path) -> Table:
    """A process that has bytecode of our sources, as where the package is installed."""
    found = least(file, "load")
    rows = [(name, f"{1e3 * seconds:.0f}") for name, seconds in found.items()]
    rows.append(("both", f"{1e3 * sum(found.values()):.0f}"))
    rows.append(("the file (KB)", f"{file.stat().st_size / 1e3:.0f}"))
    return Table("Loading (CPU ms)", ("what", "ms"), tuple(rows))


def ask_table(file: Path) -> Table:
    """Every question, a column for each pair of layers."""
    found = {name: least(file, "ask", name) for name in PAIRS}
    questions = next(iter(found.values()))
    rows = [(x, *(_microseconds(found[name][x]) for name in PAIRS)) for x in questions]
    return Table(f"Questions on {TARGET} (CPU µs)", ("question", *PAIRS), tuple(rows))


def _microseconds(seconds: float) -> str:
    value = 1e6 * seconds
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def markdown(tables: Sequence[Table]) -> str:
    """docs/figures-predictor.md."""
    head = (
        "# Figures of the embedded predictor\n\n"
        "Written by `make bench-predictor`: CPU time to load a predictor from its file, and of every "
        f"question about three pairs of layers on `{TARGET}`. A question asked *again* is answered from "
        "memory, also for layers of another name; *first time* includes the analysis of the group, the "
        "enumeration of schedules and rounds over the neighbours of the best. A group is *often asked* from its "
        "fourth question on: then its analysis is recorded, which takes 4 to 5 ms once. Every figure is the least "
        f"of several repeats in {REPEATS} processes. {busy()}\n\n"
    )
    return head + "\n\n".join(table.markdown() for table in tables) + "\n"


def main() -> None:
    """Print both tables; ``--json FILE`` and ``--markdown FILE`` keep them too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-predictor.md here")
    parser.add_argument("--file", type=Path, help="a saved predictor, instead of a calibration")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as where it is installed
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        file = chosen.file or saved(Path(folder))
        tables = []
        for make in (load_table, ask_table):
            tables.append(make(file))
            print(tables[-1].text(), end="\n\n", flush=True)
    if chosen.markdown is not None:
        chosen.markdown.write_text(markdown(tables))
    if chosen.json is not None:
        plain = {
            t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in tables
        }
        chosen.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
