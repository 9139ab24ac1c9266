"""Memory and time of training a cost model on up to a million measurements, each training in a process of its own.

python -m benchmarks.training [--rows 10000 100000 1000000] [--note TEXT] [--markdown docs/figures-training.md]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.child import run_child
from benchmarks.machine import busy
from benchmarks.table import Table
from benchmarks.training_worker import BIAS, NOISE, TARGET

WORKER = "benchmarks.training_worker"
ROWS = (10_000, 100_000, 1_000_000)
GIB = 1 << 30
HEAD = f"""# Figures of training on many measurements

Written by `make bench-training`. A process makes the measurements, trains a cost model on them as `autotune calibrate` does (five
held-out folds, two at a time, then all), and ends. Groups and schedules are those that a calibration of `{TARGET}` may draw; a
measurement is what the shipped model predicts, times a factor of the group (deviation of its logarithm {BIAS}) and noise ({NOISE}).
*Before training* is the peak of the resident memory with all measurements read, *peak* that of the whole process. {{busy}}{{note}}

"""
COLUMNS = (
    "measurements",
    "groups",
    "features",
    "before training, GiB",
    "peak, GiB",
    "training, CPU s",
    "training, s",
    "held-out error, %",
)


def cells(found: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the table."""
    return (
        f"{found['rows']:,}",
        f"{found['groups']:,}",
        f"{found['features']}",
        f"{found['records_bytes'] / GIB:.2f}",
        f"{found['peak_bytes'] / GIB:.2f}",
        f"{found['cpu_seconds']:,.0f}",
        f"{found['seconds']:,.0f}",
        f"{100 * found['mape']:.1f}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--note", default="", help="what to tell of the machine")
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args(arguments)
    found = []
    for rows in chosen.rows:
        found.append(run_child(Path(sys.executable), WORKER, (str(rows),)))
        print(found[-1], flush=True)  # the next one may take an hour
    table = Table("Training of a cost model", COLUMNS, tuple(cells(one) for one in found))
    print(table.text())
    if chosen.markdown is not None:
        head = HEAD.format(busy=busy(), note=chosen.note and f" {chosen.note}.")
        chosen.markdown.write_text(f"{head}{table.markdown()}\n")


if __name__ == "__main__":
    main()
