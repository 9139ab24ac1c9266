"""Picture of a session whose latency falls while it serves: BERT on texts of 20 to 60 tokens, padded to 128.

    python -m benchmarks.live_session --picture docs/images/variants.svg [--seconds S]

Part of `make bench-guards`. Each text goes to a session that learns and to one that does not, in turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from autotune.runtime.execution.event import EventKind
from autotune.runtime.session.session import Session
from benchmarks.guards import CASES, SEED, text
from benchmarks.learning_picture import learning_picture

CASE = CASES[4]
LEAST, MOST = 20, 60
"""Tokens of a text."""
PART = 10
"""Of the requests the first and the last part are told."""


@dataclass(frozen=True, slots=True)
class Served:
    """Milliseconds of every request by both sessions, and the requests at which the one that learns swapped."""

    fixed_ms: tuple[float, ...]
    learning_ms: tuple[float, ...]
    swaps: tuple[int, ...]

    @property
    def text(self) -> str:
        """The first and the last part of the requests, in one line."""
        part = max(1, len(self.fixed_ms) // PART)
        ends = slice(0, part), slice(len(self.fixed_ms) - part, None)
        rows = (("as opened", self.fixed_ms), ("learning", self.learning_ms))
        told = (
            f"{name} {median(ms[ends[0]]):.2f} → {median(ms[ends[1]]):.2f} ms" for name, ms in rows
        )
        return f"{len(self.fixed_ms):,} requests; " + "; ".join(told)


def serve(folder: Path, target: str, seconds: float) -> Served:
    """Serve texts for so long, each by both sessions; which one comes first changes."""
    rng = np.random.default_rng(SEED)
    path = CASE.export(folder)
    taken: tuple[list[float], list[float]] = ([], [])
    began = time.perf_counter()
    with Session(path, target) as fixed, Session(path, target, online=True) as learning:
        while time.perf_counter() - began < seconds:
            fed = text(int(rng.integers(LEAST, MOST + 1)), rng)
            first = len(taken[0]) % 2
            for place in (first, 1 - first):
                started = time.perf_counter()
                (fixed, learning)[place].run(fed)
                taken[place].append(1e3 * (time.perf_counter() - started))
        swaps = [one.run for one in learning.events if one.kind is EventKind.SWAPPED]
    return Served(tuple(taken[0]), tuple(taken[1]), tuple(swaps))


def main() -> None:
    """Serve, print the medians of the first and the last requests, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        served = serve(Path(name), options.target, options.seconds)
    print(served.text)
    title = f"{CASE.network}, texts of {LEAST} to {MOST} tokens padded to 128"
    drawn = learning_picture(title, 1, served.fixed_ms, served.learning_ms, served.swaps)
    options.picture.write_text(drawn)


if __name__ == "__main__":
    main()
