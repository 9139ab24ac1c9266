"""This CPU with and without learning: two callers, a neighbour that takes memory bandwidth, then slower cores.

    python -m benchmarks.online_cpu [--network light_squeezenet] [--seconds 9] [--turns 2] [--json FILE]

Each turn is a process of its own, once without and once with ``online=True``. It has five phases of equal length: alone,
beside a process that copies memory, alone again, on slower cores, alone at last. A program cannot set the clock of this CPU,
so a stand-in slows the cores: one process a core that computes without end and touches no memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.runtime.session.session import Session
from autotune.store.store import Store
from benchmarks.table import Table

PHASES = ("alone", "beside a neighbour", "alone again", "on slower cores", "alone at last")
_HOG = "import numpy as np\na, b = np.ones(1 << 24), np.empty(1 << 24)\nwhile True: np.copyto(b, a)"
_SPIN = "while True: pass"
_DISTURBERS = {1: (_HOG,), 3: (_SPIN,) * (os.cpu_count() or 1)}
"""Place of a phase to the Python processes that run beside it."""
COUNTED = {
    "drifts": ("drift",),
    "models": ("retrained",),
    "trials": ("proposed",),
    "swaps": ("swapped",),
    "failures": ("failed", "restarted"),
}
"""Column to the kinds of events that it counts."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One process: if it learned, milliseconds of requests by phase, events as (second, text), and by phase how many
    events each column of ``COUNTED`` has."""

    is_online: bool
    milliseconds: tuple[tuple[float, ...], ...]
    events: tuple[tuple[float, str], ...]
    counts: tuple[tuple[int, ...], ...]


def serve(network: str, seconds: float, is_online: bool, callers: int) -> dict[str, Any]:
    """Run ``callers`` threads for all phases; return their latencies and what learning told."""
    taken: list[list[tuple[float, float]]] = [[] for _ in range(callers)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "a.db") as store,
        Session(network, "cpu", store, online=is_online) as session,
    ):
        feeds = session.draw_inputs(np.random.default_rng(0))
        for _ in range(5):
            session.run(feeds)
        begin, wall = time.monotonic(), time.time()
        end = begin + len(PHASES) * seconds
        threads = [threading.Thread(target=_call, args=(session, feeds, end, one)) for one in taken]
        for thread in threads:
            thread.start()
        for phase in range(len(PHASES)):
            with _beside(_DISTURBERS.get(phase, ())):
                time.sleep(max(0.0, begin + (phase + 1) * seconds - time.monotonic()))
        for thread in threads:
            thread.join()
        events = [(e.at_seconds - wall, f"{e.kind.value}: {e.text}") for e in session.events]
    phases: list[list[float]] = [[] for _ in PHASES]
    for ended, took in (pair for one in taken for pair in one):
        phases[_phase(ended - begin, seconds)].append(1e3 * took)
    counts = [[0] * len(COUNTED) for _ in PHASES]
    for at, text in events:
        for place, kinds in enumerate(COUNTED.values()):
            counts[_phase(at, seconds)][place] += text.split(":")[0] in kinds
    return {"is_online": is_online, "milliseconds": phases, "events": events, "counts": counts}


def _phase(at: float, seconds: float) -> int:
    return max(0, min(len(PHASES) - 1, int(at / seconds)))


@contextmanager
def _beside(programs: Sequence[str]) -> Iterator[None]:
    """Run Python programs beside the block, and end them after it."""
    started = [subprocess.Popen([sys.executable, "-c", one]) for one in programs]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def _call(session: Session, feeds: Any, end: float, taken: list[tuple[float, float]]) -> None:
    while (start := time.monotonic()) < end:
        session.run(feeds)
        now = time.monotonic()
        taken.append((now, now - start))


def measure(network: str, seconds: float, turns: int, callers: int = 2) -> list[Turn]:
    """Run processes without and with learning in turns."""
    made = []
    for turn in range(2 * turns):
        command = [sys.executable, "-m", "benchmarks.online_cpu", "--network", network, "--serve"]
        command += ["--seconds", str(seconds), "--callers", str(callers)]
        command += ["--online"] if turn % 2 else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        phases = tuple(tuple(one) for one in found["milliseconds"])
        events = tuple((at, text) for at, text in found["events"])
        made.append(Turn(found["is_online"], phases, events, tuple(map(tuple, found["counts"]))))
    return made


def kept(path: Path) -> list[Turn]:
    """Turns that an earlier call kept in a file."""
    rows = json.loads(path.read_text())
    return [
        Turn(
            is_online,
            tuple(map(tuple, phases)),
            tuple((at, text) for at, text in events),
            tuple(map(tuple, counts)),
        )
        for is_online, phases, events, counts in rows
    ]


def table(network: str, turns: Sequence[Turn]) -> Table:
    """Latencies and throughput by phase, without learning and with it."""
    rows = []
    for phase, name in enumerate(PHASES):
        for is_online in (False, True):
            ours = [t.milliseconds[phase] for t in turns if t.is_online is is_online]
            every = np.concatenate([np.asarray(one) for one in ours])
            cells = [f"{np.quantile(every, q):.2f}" for q in (0.5, 0.99, 0.999, 1.0)]
            counted = [t.counts[phase] for t in turns if t.is_online is is_online]
            sums = [str(sum(one)) for one in zip(*counted, strict=True)]
            label = "learning" if is_online else "not"
            rows.append((name, label, f"{len(every):,}", *cells, *sums))
    columns = ("phase", "session", "requests", "p50 ms", "p99", "p99.9", "longest", *COUNTED)
    return Table(
        f"**{network} on this CPU**, two callers, {len(turns) // 2} turns each",
        columns,
        tuple(rows),
    )


def main() -> None:
    """Print the table, or with ``--serve`` be one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="light_squeezenet")
    parser.add_argument("--seconds", type=float, default=9.0)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--callers", type=int, default=2)
    parser.add_argument("--online", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    if wanted.serve:
        found = serve(wanted.network, wanted.seconds, wanted.online, wanted.callers)
        print(json.dumps(found))
        return
    turns = measure(wanted.network, wanted.seconds, wanted.turns, wanted.callers)
    print(table(wanted.network, turns).text())
    for turn in turns:
        print(*(f"{at:7.1f} s  {text}" for at, text in turn.events), sep="\n")
    if wanted.json is not None:
        rows = [[t.is_online, t.milliseconds, t.events, t.counts] for t in turns]
        wanted.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
