"""What profiling costs: every run, every status file, every hit of the program cache, and memory.

    python -m benchmarks.run_profile [--markdown docs/figures-profile.md] [--json FILE]

Run it by `make bench-profile`. Times are CPU time of one thread, so that other work of the machine
adds little. Blocks of runs with the profile and without take turns in one session.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autotune.fusion.group import Group
from autotune.runtime.execution.execution import RunTrace, TimedGroups
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable
from autotune.runtime.profile.graph_profile import GraphProfile
from autotune.runtime.profile.registry import registry
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.profile.status_writer import GROUPS_TOLD, INTERVAL_SECONDS
from autotune.runtime.session.session import Session
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from benchmarks.machine import busy
from benchmarks.table import Table

NETWORKS = (
    *("gru", "lstm", "lstm_layer", "mlp", "transformer_block", "elementwise", "bert_small"),
    *("light_shufflenet", "light_squeezenet", "mobilenet_v2", "bert_layer"),
)
LOOP = """<ir_version: 8, opset_import: ["" : 17]>
decode (int64 trips, bool go, float[64, 256] x, float[256, 256] w) => (float[64, 256] last) {
    last = Loop (trips, go, x) <
        body = step (int64 trip, bool more, float[64, 256] state)
            => (bool again, float[64, 256] next) {
            again = Identity (more)
            t = MatMul (state, w)
            next = Tanh (t)
        }
    >
}
"""
TRIPS = 16
TURN_SECONDS, TURNS_SECONDS = 0.01, 3.0
"""CPU time of one turn, and of all turns with the profile: turns are short so that what disturbs one
disturbs the next, and so many that batches are added up in them."""
RESAMPLES = 400
RECORDS = 100_000
LONG_RUNS = 100_000
"""Runs after which memory is compared with that after a tenth of them."""
TABLES = 500
"""Published tables, each with some runs, in the measurement of memory."""

Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Overhead:
    """A network's groups, CPU seconds of a run without profile and of taking one in, and the share
    that turns show, with its 90 % interval."""

    network: str
    groups: int
    seconds: float
    record_seconds: float
    by_turns: float
    interval: tuple[float, float]

    @property
    def share(self) -> float:
        """Share of a run that the profile takes."""
        return self.record_seconds / self.seconds

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of the table."""
        low, high = self.interval
        return (
            self.network,
            str(self.groups),
            f"{1e6 * self.seconds:,.1f}",
            f"{1e6 * self.record_seconds:.2f}",
            f"{self.share:.3%}",
            f"{self.by_turns:+.2%}",
            f"{low:+.2%} to {high:+.2%}",
        )


@contextmanager
def opened(name: str) -> Iterator[tuple[Session, Run]]:
    """Give a session on one thread, and one run of it."""
    rng = np.random.default_rng(0)
    if name != "loop":
        with Session(name, "cpu:1") as session:
            feeds = session.draw_inputs(rng)
            yield session, lambda: session.run(feeds)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loop.onnx"
        onnx.save(onnx.parser.parse_model(LOOP), path)
        feeds = {"trips": np.asarray(TRIPS), "go": np.asarray(True)}
        feeds |= {
            x: rng.standard_normal((n, 256)).astype(np.float32) for x, n in (("x", 64), ("w", 256))
        }
        with Session(path, "cpu:1") as session:
            session.traced_run(feeds)  # compiles
            yield session, lambda: session.run(feeds)


def nothing(*_: object) -> None:
    """Stand in for a method of the profile."""


class SilentGraph(GraphProfile):
    """A profile that takes in no run."""

    record = nothing  # type: ignore[assignment]


class SilentSession(SessionProfile):
    """The same for runs of several graphs."""

    record_parts = nothing  # type: ignore[assignment]


class SameGraph(GraphProfile):
    """A profile as any other: turns against it show what turns see where there is nothing."""


@contextmanager
def without_profile(session: Session, other: type[GraphProfile] = SilentGraph) -> Iterator[None]:
    """Let no run of a session enter its profile, or all of them enter an ``other`` kind.

    Objects change their class for it: to change the class itself would make the interpreter slow down
    every call of it in the next turn.
    """
    history = session.history
    graphs = (history.whole, *history._parts)
    for graph in graphs:
        graph.__class__ = other
    history.__class__ = SilentSession if other is SilentGraph else SessionProfile
    try:
        yield
    finally:
        for graph in graphs:
            graph.__class__ = GraphProfile
        history.__class__ = SessionProfile


def cpu_seconds(run: Run, count: int) -> float:
    """CPU seconds of one of some runs."""
    begin = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - begin) / count


def overhead(name: str, other: type[GraphProfile] = SilentGraph) -> Overhead:
    """Measure one network, with its profile against an ``other`` kind."""
    with opened(name) as (session, run):
        for _ in range(5):
            run()
        once = cpu_seconds(run, 5)
        runs = max(1, round(TURN_SECONDS / once))
        pairs = max(8, round(TURNS_SECONDS / (runs * once)))
        took = np.array(
            [one_pair(session, run, runs, bool(pair % 2), other) for pair in range(pairs)]
        )
        trace = session.last_run.groups
        parts = 1 if isinstance(trace, TimedGroups) else TRIPS
        record = parts * record_seconds(session.tables[0])
    rng = np.random.default_rng(0)
    drawn = took[rng.integers(0, pairs, (RESAMPLES, pairs))].sum(axis=1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1] - 1, (5, 95))
    profiled, bare = took.sum(axis=0)
    seconds = float(np.median(took[:, 1]))
    return Overhead(name, len(trace), seconds, record, profiled / bare - 1, (low, high))


def one_pair(
    session: Session, run: Run, runs: int, is_profiled_first: bool, other: type[GraphProfile]
) -> tuple[float, float]:
    """Return CPU seconds of a run with the profile, and without, in two turns."""
    if is_profiled_first:
        profiled = cpu_seconds(run, runs)
        with without_profile(session, other):
            return profiled, cpu_seconds(run, runs)
    with without_profile(session, other):
        bare = cpu_seconds(run, runs)
    return cpu_seconds(run, runs), bare


def record_seconds(table: ProgramTable) -> float:
    """CPU seconds of taking in one run of a table, clocks and adding up included."""
    profile = GraphProfile(nothing)
    rng = np.random.default_rng(1)
    traces = [
        RunTrace(
            TimedGroups(table, 2e9, rng.integers(1000, 9000, len(table.group_steps))),
            0,
            0,
            table.layout,
        )
        for _ in range(512)
    ]
    now = time.perf_counter_ns

    def take(trace: RunTrace) -> None:
        profile.record(trace, now(), now())

    def none(trace: RunTrace) -> None:
        pass

    costs = []
    for function in (take, none):
        begin = time.process_time()
        for i in range(RECORDS):
            function(traces[i % 512])
        costs.append((time.process_time() - begin) / RECORDS)
    return costs[0] - costs[1]


def status_row(name: str) -> tuple[str, ...]:
    """Measure the writing of one network's status file while it runs."""
    writer = registry()._writer
    with opened(name) as (_, run):
        run()
        took = []
        for _ in range(10):
            run()
            begin = time.process_time()
            writer._write()
            took.append(time.process_time() - begin)
        document = registry().statuses()[0].to_json(GROUPS_TOLD)
    seconds = float(np.median(took))
    return (
        name,
        f"{len(json.dumps(document)) / 1e3:.1f}",
        f"{1e3 * seconds:.2f}",
        f"{1e3 * max(took):.2f}",
        f"{min(seconds / INTERVAL_SECONDS, 0.001):.3%}",
    )


class KeyedByText:
    """The cache as it was: keys hold a schedule as JSON, the least recently used program goes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str, str], tuple[Group, Any]] = OrderedDict()

    def lowered(self, choice: Choice, spec: HardwareSpec, program: Any) -> Any:
        """Return program and names."""
        assert choice.schedule is not None
        key = (choice.group.key, choice.schedule.to_json(), spec.profile_id)
        entry = self._entries.pop(key, None) or (choice.group, program)
        self._entries[key] = entry
        pairs = zip(entry[0].types, choice.group.types, strict=True)
        return entry[1], {theirs: ours for (theirs, _), (ours, _) in pairs}


def hit_rows(name: str) -> list[tuple[str, ...]]:
    """Time hits of the program cache on a network's groups: the mean and the slowest group."""
    with opened(name) as (session, _):
        table, spec = session.tables[0], session.target.spec
    choices = [choice for choice in table.choices if choice.schedule is not None]
    cache, old = ProgramCache(), KeyedByText()
    for choice in choices:
        old.lowered(choice, spec, cache.lowered(choice, spec).program)
    fresh = [Choice(Group.from_json(c.group.to_json()), c.schedule) for c in choices]

    def timed(call: Callable[[Choice], Any], given: list[Choice], repeats: int) -> list[float]:
        return [1e6 * cpu_seconds(lambda c=c: call(c), repeats) for c in given]  # type: ignore[misc]

    figures = {
        "hit": timed(lambda c: cache.lowered(c, spec), choices, 2000),
        "before: key as JSON": timed(lambda c: old.lowered(c, spec, None), choices, 2000),
        "hit of a group read anew": timed(lambda c: cache.lowered(c, spec), fresh, 1),
    }
    return [
        (name, str(len(choices)), what, f"{np.mean(x):.2f}", f"{max(x):.2f}")
        for what, x in figures.items()
    ]


def memory_rows() -> list[tuple[str, ...]]:
    """Compare the memory of a session after many runs with that after a tenth, then of many tables."""
    with opened("mlp") as (session, run):
        tracemalloc.start()
        held = []
        for runs in (LONG_RUNS // 10, LONG_RUNS - LONG_RUNS // 10):
            for _ in range(runs):
                run()
            session.status()  # adds up what is pending
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        executions = session.profile()[0].executions
        rows: list[tuple[str, ...]] = [
            ("runs of mlp", f"{LONG_RUNS // 10:,}", f"{LONG_RUNS:,}", _kilobytes(held[1] - held[0]))
        ]
        rows.append(("counted executions of its first group", "", f"{executions:,}", ""))
        current, profile = CurrentTable(session.tables[0]), GraphProfile()
        held = []
        for tables in (TABLES // 10, TABLES - TABLES // 10):
            for _ in range(tables):
                table = current.swap(current.current)
                for _ in range(20):
                    groups = TimedGroups(table, 2e9, np.ones(len(table.group_steps), np.int64))
                    profile.record(RunTrace(groups, 0, 0, table.layout), 0, 1)
            profile.rows(1)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        rows.append(
            ("tables published", f"{TABLES // 10:,}", f"{TABLES:,}", _kilobytes(held[1] - held[0]))
        )
    return rows


def _kilobytes(count: int) -> str:
    return f"{count / 1e3:+.1f}"


def tables() -> Iterator[Table]:
    """Measure all tables, one after the other."""
    found = [overhead(name) for name in (*NETWORKS, "loop")]
    worst = max(found, key=lambda one: one.share)
    turns = [one.by_turns for one in found]
    control = overhead("lstm_layer", SameGraph)
    yield Table(
        "The profile's share of a run",
        ("network", "groups", "run µs", "profile µs", "share", "by turns", "90 % interval"),
        (
            *(one.row for one in found),
            ("mean", "", "", "", f"{np.mean([x.share for x in found]):.3%}", f"{np.mean(turns):+.2%}", ""),
            (f"worst: {worst.network}", "", "", "", f"{worst.share:.3%}", f"{max(turns):+.2%}", ""),
            ("lstm_layer against itself", "", "", "", "", *control.row[-2:]),
        ),
    )  # fmt: skip
    yield Table(
        f"Status files, one in {INTERVAL_SECONDS:g} s",
        ("network", "KB", "median CPU ms", "longest", "share of a CPU"),
        tuple(map(status_row, ("mlp", "mobilenet_v2", "light_densenet121"))),
    )
    yield Table(
        "Program cache, µs",
        ("network", "groups", "what", "mean", "worst group"),
        tuple(row for name in ("bert_layer", "mobilenet_v2") for row in hit_rows(name)),
    )
    yield Table("Memory", ("what", "from", "to", "growth KB"), tuple(memory_rows()))


HEAD = """# Figures of the profile

Written by `make bench-profile`: what it costs to profile every run, on one thread of this CPU, in CPU time of the thread.
*profile* is the time to take in one run, two readings of the clock and adding up included; *share* divides it by the run.
*by turns* is the same from outside: short turns with the profile and without, in one session, all runs of the one over all
runs of the other; they count all threads. Where the interval holds zero, turns do not see the profile; *against itself* are
turns with the profile in both. `loop` is a network with control flow: {trips} runs of a body, each an entry.

A status file is written by a thread of its own; with many groups it is written less often, so that it never takes more than
0.1 % of a CPU. *before* is the key that the cache of programs had: every hit wrote the schedule as JSON.
{busy}

"""


def main() -> None:
    """Print all tables; ``--markdown FILE`` and ``--json FILE`` keep them too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--markdown", type=Path, help="also write docs/figures-profile.md here")
    chosen = parser.parse_args()
    found = []
    for table in tables():
        found.append(table)
        print(table.text(), end="\n\n", flush=True)
    if chosen.markdown is not None:
        head = HEAD.format(trips=TRIPS, busy=busy())
        chosen.markdown.write_text(head + "\n\n".join(t.markdown() for t in found) + "\n")
    if chosen.json is not None:
        plain = {t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in found}
        chosen.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
