"""The noise floor: the same candidates measured again by another process, and how far the two differ.

    python -m benchmarks.noise_floor [--target cpu:1] [--count 400] [--wait 300] [--json floor.json]

No model of a machine's times can be better than the times agree with each other. Two processes draw
the candidates of a calibration and measure each once, ``--wait`` seconds apart, as calibration does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.child import run_child
from benchmarks.machine import busy
from benchmarks.table import Table

WORKER = "benchmarks.noise_floor_worker"


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Relative differences of ``count`` second measurements from the first, in absolute value:
    their mean, median and largest, and the shares within 5 and 10 %. ``geometric_shift`` is the
    geometric mean of second over first, less one: what all of them share."""

    count: int
    mean: float
    median: float
    worst: float
    within_5: float
    within_10: float
    geometric_shift: float

    @classmethod
    def of(cls, first: Sequence[float], second: Sequence[float]) -> NoiseFloor:
        """Compare two series of times [n], n ≥ 1, of the same programs. Raises ``ValueError`` for
        series of different lengths or without values."""
        if len(first) != len(second) or not len(first):
            raise ValueError(f"{len(first)} and {len(second)} times; two equal series are compared")
        ratio = np.asarray(second, np.float64) / np.asarray(first, np.float64)
        error = np.abs(ratio - 1.0)
        return cls(
            len(error),
            float(error.mean()),
            float(np.median(error)),
            float(error.max()),
            float(np.mean(error <= 0.05)),
            float(np.mean(error <= 0.10)),
            float(np.exp(np.log(ratio).mean()) - 1.0),
        )

    def row(self, name: str) -> tuple[str, ...]:
        """Cells of ``table``."""
        shares = (self.mean, self.median, self.worst, self.within_5, self.within_10)
        shown = (f"{100 * share:.1f} %" for share in shares)
        return (name, str(self.count), *shown, f"{100 * self.geometric_shift:+.1f} %")


@dataclass(frozen=True, slots=True)
class Pass:
    """One process's cycles and trust by candidate, and the seconds that it took."""

    cycles: Mapping[str, int]
    trust: Mapping[str, float]
    seconds: float


def measured(target: str, count: int, seed: int) -> Pass:
    """Measure the first ``count`` candidates of a calibration in a process of its own."""
    answer = run_child(Path(sys.executable), WORKER, [target, str(count), str(seed)])
    return Pass(answer["cycles"], answer["trust"], answer["seconds"])


def table(first: Pass, second: Pass) -> Table:
    """All candidates, those that both passes trust more than half, and thirds by time."""
    names = sorted(first.cycles.keys() & second.cycles.keys(), key=first.cycles.__getitem__)
    sure = [n for n in names if min(first.trust[n], second.trust[n]) > 0.5]
    third = -(-len(names) // 3)
    parts = {
        "all": names,
        "trusted": sure,
        "shortest third": names[:third],
        "middle third": names[third : 2 * third],
        "longest third": names[2 * third :],
    }
    rows = [
        NoiseFloor.of([first.cycles[n] for n in part], [second.cycles[n] for n in part]).row(name)
        for name, part in parts.items()
        if part
    ]
    columns = ("candidates", "count", "mean", "median", "worst", "±5 %", "±10 %", "shift")
    return Table("The same candidates measured again", columns, tuple(rows))


def main() -> None:
    """Parse the command line, measure twice and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="cpu:1", help="machine to measure")
    parser.add_argument("--count", type=int, default=400, help="candidates")
    parser.add_argument("--seed", type=int, default=0, help="seed of the candidates")
    parser.add_argument("--wait", type=float, default=300.0, help="seconds between the two")
    parser.add_argument("--json", type=Path, help="file for both passes")
    options = parser.parse_args()
    first = measured(options.target, options.count, options.seed)
    time.sleep(options.wait)
    second = measured(options.target, options.count, options.seed)
    print(table(first, second).text())
    print(f"{first.seconds:.1f} s and {second.seconds:.1f} s. {busy()}")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(first), asdict(second)]))


if __name__ == "__main__":
    main()
