"""This CPU with and without learning: two callers, a neighbour that takes memory bandwidth, then slower cores.

    python -m benchmarks.online_cpu [--networks light_squeezenet …] [--seconds 12] [--json FILE]

Three processes serve the network and take turns of half a second: one does not learn, one does (``online=True``), one does not
learn again and shows what two equal sessions differ by. While one has its turn the others are stopped, with what they compile in the
background. There are five phases of equal length: alone, beside a process that copies memory, alone again, on slower cores,
alone at last. A program cannot set the clock of this CPU, so a stand-in slows the cores: one process a core that computes
without end and touches no memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.runtime.session.session import Session
from autotune.store.store import Store
from benchmarks.child import ROOT
from benchmarks.cpu_networks import make_case
from benchmarks.table import Table

PHASES = ("alone", "beside a neighbour", "alone again", "on slower cores", "alone at last")
KINDS = ("not", "learning", "not, again")
_HOG = "import numpy as np\na, b = np.ones(1 << 24), np.empty(1 << 24)\nwhile True: np.copyto(b, a)"
_SPIN = "while True: pass"
_DISTURBERS = {1: (_HOG,), 3: (_SPIN,) * (os.cpu_count() or 1)}
"""Place of a phase to the Python processes that run beside it."""
TURN_SECONDS = 0.5
WARM_UP_SECONDS = 0.05
"""Time of a turn whose requests count nothing: the caches hold another process's data."""
COUNTED = {
    "drifts": ("drift",),
    "models": ("retrained",),
    "trials": ("proposed",),
    "swaps": ("swapped", "split"),
    "failures": ("failed", "restarted"),
}
"""Column to the kinds of events that it counts."""
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
DRAWS = 400
"""Draws of the bootstrap, of turns of one phase with replacement."""


@dataclass(frozen=True, slots=True)
class Served:
    """What one process served for so many callers: milliseconds of requests by phase and turn; events as (phase, second of its own turns,
    text); and by phase how many events each column of ``COUNTED`` has."""

    network: str
    callers: int
    kind: str
    milliseconds: tuple[tuple[tuple[float, ...], ...], ...]
    events: tuple[tuple[int, float, str], ...]
    counts: tuple[tuple[int, ...], ...]


# one process


def serve(network: str, is_online: bool, callers: int) -> None:
    """Serve turns as the parent orders them on stdin, one line each; print what was served at the end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        case = make_case(network, folder)
        with np.load(case.inputs) as file:
            feeds = dict(file)
        store = stack.enter_context(Store.open(folder / "a.db"))
        session = stack.enter_context(Session(case.network, "cpu", store, online=is_online))
        for _ in range(5):
            session.run(feeds)
        phases: list[list[list[float]]] = [[] for _ in PHASES]
        spans: list[tuple[float, int]] = []
        print("ready", flush=True)
        for line in sys.stdin:
            phase, seconds = json.loads(line)
            if phase is None:
                break
            spans.append((time.time(), phase))
            phases[phase].append(_turn(session, feeds, seconds, callers))
            print("done", flush=True)
        events = [_placed(e.at_seconds, f"{e.kind.value}: {e.text}", spans) for e in session.events]
    counts = [[0] * len(COUNTED) for _ in PHASES]
    for phase, _, text in events:
        for place, kinds in enumerate(COUNTED.values()):
            counts[phase][place] += text.split(":")[0] in kinds
    print(json.dumps({"milliseconds": phases, "events": events, "counts": counts}))


def _turn(session: Session, feeds: Any, seconds: float, callers: int) -> list[float]:
    """Return the milliseconds of the requests of one turn, by so many callers without a pause."""
    taken: list[list[float]] = [[] for _ in range(callers)]
    begin = time.monotonic()

    def call(mine: list[float]) -> None:
        while (start := time.monotonic()) < begin + seconds:
            session.run(feeds)
            if start > begin + WARM_UP_SECONDS:
                mine.append(1e3 * (time.monotonic() - start))

    threads = [threading.Thread(target=call, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for mine in taken for one in mine]


def _placed(at: float, text: str, spans: Sequence[tuple[float, int]]) -> tuple[int, float, str]:
    """Return the phase of an event, the second of the process's own turns, and its text."""
    begun = max((place for place, (begin, _) in enumerate(spans) if begin <= at), default=0)
    within = min(TURN_SECONDS, max(0.0, at - spans[begun][0]))
    return spans[begun][1], begun * TURN_SECONDS + within, text


# all processes


class _Worker:
    """A process of ``serve``, stopped while it has no turn."""

    def __init__(self, network: str, is_online: bool, callers: int) -> None:
        command = [sys.executable, "-m", "benchmarks.online_cpu", "--serve", "--networks", network]
        command += ["--callers", str(callers), *["--online"] * is_online]
        self._stopped: list[int] = []
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._expect("ready")
        self._signal(signal.SIGSTOP)

    def turn(self, phase: int) -> None:
        """Let it serve one turn."""
        self._signal(signal.SIGCONT)
        self._tell((phase, TURN_SECONDS))
        self._expect("done")
        self._signal(signal.SIGSTOP)

    def end(self) -> dict[str, Any]:
        """Return what it served, and end it."""
        self._signal(signal.SIGCONT)
        self._tell((None, None))
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        self._process.wait()
        return found

    def kill(self) -> None:
        """End it and what it started, whatever they do: what is stopped would never end by itself."""
        started = self._stopped
        if self._process.poll() is None:
            started = [*started, *_children(self._process.pid)]
            self._process.kill()
            self._process.wait()
        for process in started:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                os.kill(process, signal.SIGCONT)

    def _tell(self, what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if said != word:
            raise RuntimeError(f"the serving process said {said!r}, not {word!r}")

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process and those that it started."""
        started = _children(self._process.pid)
        for process in (self._process.pid, *started):
            with suppress(ProcessLookupError):
                os.kill(process, number)
        self._stopped = started if number == signal.SIGSTOP else []


def _children(process: int) -> list[int]:
    """Return the processes that any thread of a process started (proc(5))."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found += map(int, (task / "children").read_text().split())
    return found


@contextmanager
def _beside(programs: Sequence[str]) -> Iterator[None]:
    """Run Python programs beside the block, and end them after it."""
    started = [subprocess.Popen([sys.executable, "-c", one]) for one in programs]
    try:
        time.sleep(0.3 * bool(started))
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def measure(network: str, seconds: float, callers: int = 2) -> list[Served]:
    """Run the three processes in turns through all phases, each for ``seconds`` a phase."""
    with ExitStack() as stack:
        workers = []
        for kind in KINDS:
            workers.append(_Worker(network, kind == "learning", callers))
            stack.callback(workers[-1].kill)
        for phase in range(len(PHASES)):
            with _beside(_DISTURBERS.get(phase, ())):
                for turn in range(max(1, round(seconds / TURN_SECONDS))):
                    for place in range(len(KINDS)):  # each comes first, second and last
                        workers[(place + turn) % len(KINDS)].turn(phase)
        found = [worker.end() for worker in workers]
    return [
        Served(
            network,
            callers,
            kind,
            tuple(tuple(map(tuple, turns)) for turns in one["milliseconds"]),
            tuple((phase, at, text) for phase, at, text in one["events"]),
            tuple(map(tuple, one["counts"])),
        )
        for kind, one in zip(KINDS, found, strict=True)
    ]


def kept(path: Path) -> list[Served]:
    """What an earlier call kept in a file; nothing if there is none."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return [
        Served(
            row["network"],
            row["callers"],
            row["kind"],
            tuple(tuple(map(tuple, turns)) for turns in row["milliseconds"]),
            tuple((phase, at, text) for phase, at, text in row["events"]),
            tuple(map(tuple, row["counts"])),
        )
        for row in rows
    ]


def keep(path: Path, served: Sequence[Served]) -> None:
    """Keep what was served in a file."""
    path.write_text(json.dumps([asdict(one) for one in served]))


# figures

Turns = Sequence[Sequence[float]]


def over(ours: Turns, others: Turns, quantile: float) -> tuple[float, float, float]:
    """Return the quantile of all requests over that of the others, with its 90 % interval by a bootstrap of turns.

    Turns of the same place ran beside each other and are drawn together. Those in which no request of either counts are left out;
    NaN if none are left.
    """
    rng = np.random.default_rng(0)
    ours, others = _counted(ours, others)
    count = len(ours)
    if not count:
        return math.nan, math.nan, math.nan
    draws = rng.integers(0, count, (DRAWS, count))
    found = [_ratio(ours, others, draw, quantile) for draw in draws]
    low, high = np.quantile(found, (0.05, 0.95))
    return _ratio(ours, others, range(count), quantile), float(low), float(high)


def _rate(ours: Turns, others: Turns) -> str:
    """Return requests over those of the others, the median of the turns, with its 90 % interval; turns as in ``over``."""
    rng = np.random.default_rng(0)
    ours, others = _counted(ours, others)
    if not ours:
        return _shown(math.nan, math.nan, math.nan)
    pairs = np.array([len(one) / len(other) for one, other in zip(ours, others, strict=True)])
    draws = np.median(pairs[rng.integers(0, len(pairs), (DRAWS, len(pairs)))], axis=1)
    low, high = np.quantile(draws, (0.05, 0.95))
    return _shown(float(np.median(pairs)), low, high)


def _shown(ratio: float, low: float, high: float) -> str:
    """Return a ratio and its interval as changes; an em dash if it is not known."""
    if math.isnan(ratio):
        return "—"
    return f"{ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})"


def _counted(ours: Turns, others: Turns) -> tuple[Turns, Turns]:
    """Return the turns of the same places in which requests of both count."""
    both = [(one, other) for one, other in zip(ours, others, strict=False) if one and other]
    return [one for one, _ in both], [other for _, other in both]


def _ratio(ours: Turns, others: Turns, turns: Sequence[int] | Any, quantile: float) -> float:
    return _quantile([ours[i] for i in turns], quantile) / _quantile(
        [others[i] for i in turns], quantile
    )


def _quantile(turns: Turns, quantile: float) -> float:
    """Return the quantile of all requests; NaN if no request counts."""
    if not any(turns):
        return math.nan
    every: npt.NDArray[np.float64] = np.concatenate([np.asarray(one) for one in turns])
    return float(np.quantile(every, quantile))


def table(served: Sequence[Served]) -> Table:
    """Latencies by phase, and those over the process that does not learn; ``served`` are one load's."""
    rows = []
    base = served[0]
    for phase, name in enumerate(PHASES):
        for one in served:
            turns = one.milliseconds[phase]
            cells = [f"{sum(map(len, turns)):,}"]
            cells.append("" if one is base else _rate(turns, base.milliseconds[phase]))
            for quantile in QUANTILES.values():
                cells.append(f"{_quantile(turns, quantile):.2f}")
                if one is base:
                    cells.append("")
                    continue
                cells.append(_shown(*over(turns, base.milliseconds[phase], quantile)))
            cells.append(f"{_quantile(turns, 1.0):.2f}")
            rows.append((name, one.kind, *cells, *map(str, one.counts[phase])))
    quantiles = [x for name in QUANTILES for x in (f"{name} ms", f"{name} over not")]
    columns = ("phase", "session", "requests", "rate", *quantiles, "longest", *COUNTED)
    count = len(base.milliseconds[0])
    title = f"**{base.network} on this CPU**, callers: {base.callers}, {count} turns of {TURN_SECONDS:g} s each a phase"
    return Table(title, columns, tuple(rows))


def by_load(served: Sequence[Served]) -> list[list[Served]]:
    """Return what was served, a list for each network and number of callers."""
    loads: dict[tuple[str, int], list[Served]] = {}
    for one in served:
        loads.setdefault((one.network, one.callers), []).append(one)
    return list(loads.values())


def told(served: Sequence[Served]) -> str:
    """What the session that learns told, in its own seconds."""
    lines = [f"{at:6.1f} s  {text}" for one in served for _, at, text in one.events]
    return "\n".join(["```", *(lines or ["nothing"]), "```"])


def main() -> None:
    """Print the tables, or with ``--serve`` be one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=["light_squeezenet"])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--callers", type=int, default=2)
    parser.add_argument("--online", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    if wanted.serve:
        serve(wanted.networks[0], wanted.online, wanted.callers)
        return
    found = [] if wanted.json is None else kept(wanted.json)
    for network in wanted.networks:
        load = network, wanted.callers
        found = [one for one in found if (one.network, one.callers) != load]
        found += measure(network, wanted.seconds, wanted.callers)
        if wanted.json is not None:
            keep(wanted.json, found)
    for served in by_load(found):
        print(table(served).text())
        print(told(served))


if __name__ == "__main__":
    main()
