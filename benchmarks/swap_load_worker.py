"""Worker of `online_swaps.py`: four threads of requests, with and without swaps of the version under them, in turns.

    python -m benchmarks.swap_load_worker '{"network": …, "threads": …, "swaps": …}'

The versions are linked copies of one plan, so that only swapping can show: *swaps* publishes one of two in turns, *links* links
each anew before, as learning does. *none* and *again* are one load, without swaps: what they differ by is noise.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from autotune.runtime.execution.drafts import Drafts
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.execution.short_turns import SHORT_TURNS
from autotune.runtime.session.session import Session
from autotune.targets.opening import target as open_target
from autotune.targets.protocol import Target
from benchmarks.child import raise_priority
from benchmarks.cpu_networks import make_case

CALLERS = 4
PAUSE = 2 * CALLERS - 1
"""Pause of a caller after a request, over the request's time: together they ask for half of what the machine can serve."""
TURN_SECONDS = 0.5
"""Time of one kind of load before it is the next one's turn."""
PAUSE_SECONDS = {"none": TURN_SECONDS, "swaps": 0.02, "again": TURN_SECONDS, "links": 0.2}
"""Time between two swaps of each kind of load."""


class Load:
    """Requests of several callers, checked and timed; ``kind`` is what goes on meanwhile."""

    def __init__(self, published: CurrentTable, target: Target, inputs: dict[str, Any]) -> None:
        self._published, self._target, self._inputs = published, target, inputs
        self._expected = execute(published.current, target, inputs)[0]
        self._is_over = threading.Event()
        self.kind = "none"

    def serve(self) -> tuple[list[tuple[str, float]], int]:
        """Serve until the load is over; return kind and milliseconds of each request, and how many were wrong."""
        taken, wrong = [], 0
        while not self._is_over.is_set():
            kind, begin = self.kind, time.perf_counter()
            outputs, _ = execute(self._published.current, self._target, self._inputs)
            seconds = time.perf_counter() - begin
            taken.append((kind, 1e3 * seconds))
            wrong += any(not np.array_equal(outputs[x], y) for x, y in self._expected.items())
            time.sleep(PAUSE * seconds)
        return taken, wrong

    def end(self) -> None:
        """Have the callers return."""
        self._is_over.set()


def take_turns(load: Load, swap: Callable[[bool], None], swaps: int) -> dict[str, int]:
    """Change the kind of load in turns until there were so many swaps; return how many each kind had.

    ``swap`` publishes another version, linked anew where it is told so.
    """
    counts = dict.fromkeys(PAUSE_SECONDS, 0)
    while counts["swaps"] < swaps:
        for kind, pause_seconds in PAUSE_SECONDS.items():
            load.kind = kind
            end = time.perf_counter() + TURN_SECONDS
            while time.perf_counter() < end:
                if kind in ("swaps", "links"):
                    swap(kind == "links")
                    counts[kind] += 1
                time.sleep(pause_seconds)
    return counts


def measure(order: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return percentiles of latency in milliseconds, with swaps and without."""
    case = make_case(order["network"], folder)
    target: Any = open_target("cpu", order["threads"])
    with np.load(case.inputs) as file:
        inputs = dict(file)
    with Session(case.network, target) as opened:
        graph, choices = opened.graph, opened.table.choices
    draft, workshop = Drafts(graph, target, target.spec).draft(choices), target.workshop()
    versions = itertools.cycle([draft.table(graph, target, workshop) for _ in range(2)])
    published = CurrentTable(next(versions))

    def swap(is_anew: bool) -> None:
        if not is_anew:
            published.swap(next(versions))
            return
        with SHORT_TURNS:
            published.swap(draft.table(graph, target, workshop))

    load = Load(published, target, IoAdapter(graph).to_float32(inputs))
    with ThreadPoolExecutor(CALLERS) as pool:
        serving = [pool.submit(load.serve) for _ in range(CALLERS)]
        try:
            counts = take_turns(load, swap, order["swaps"])
        finally:
            load.end()
        found = [one.result() for one in serving]
    rows = [row for taken, _ in found for row in taken]
    percentiles = {kind: _percentiles([ms for name, ms in rows if name == kind]) for kind in counts}
    return {"counts": counts, "wrong": sum(wrong for _, wrong in found), "load": percentiles}


def _percentiles(milliseconds: list[float]) -> dict[str, float]:
    found = np.percentile(milliseconds, (50, 99, 99.9, 100)).tolist()
    return dict(zip(("p50", "p99", "p99.9", "most"), found, strict=True)) | {
        "count": len(milliseconds)
    }


def main() -> None:
    """Measure as ordered, and print figures."""
    raise_priority()
    order = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(order, Path(folder))))


if __name__ == "__main__":
    main()
