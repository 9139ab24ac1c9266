"""``make bench-scale``: what a calibration costs over many workers, what bounds it, and whether values stay.

The way of the data: measured costs and durations → simulation of up to 1,000 workers → page; beside it values
measured by one to four workers, and training over Dask.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from autotune.measure.batching import BATCH
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.measurement import Measured
from autotune.measure.runner import Runner, Workers
from autotune.schedule.candidate import Candidate
from autotune.targets.native.cpu.topology import model_name
from autotune.targets.opening import load_spec, target
from autotune.targets.protocol import Target
from benchmarks.scale_costs import Recording, drawn, record, scheduler_seconds, submit_seconds
from benchmarks.scale_simulation import Costs, Outcome, simulate
from benchmarks.scale_training import Training, base_rows, train_both
from benchmarks.table import Table

COUNTS = {"edge": 640, "cpu": 64}
"""Candidates that are measured and recorded on each target."""
WORKERS = (1, 10, 100, 1000)
MEASUREMENTS = 10_000_000
JOINED = 120.0
"""Seconds that workers may take to start."""
SAME, TIMED = 400, 96
"""Candidates of which values are compared: emulated ones, and timed ones."""
ROWS = 1_000_000
AIM = 0.05
"""Share of the time that the store may take."""
PARTS = ("costs", "values", "trees")
"""What can be measured alone; each is some sections of the page."""
INTRODUCTION = """# Measuring on many machines

Written by `make bench-scale`, which measures what a calibration costs beside the measurements themselves, and simulates it over up to
1,000 workers and 10,000,000 measurements. [The guide](guides/machines.md) says how to use many machines.

Measured on {machine}: all seconds of candidates and jobs in the first two tables. The scheduler's are those of Dask's own state
machine, driven with workers that exist in its state only; jobs of the simulation take the sum of recorded durations. Simulated: the
order of events with one thread each for coordinator and scheduler, and two jobs under way for each worker. Left out: networks,
Dask's messages (a scheduler that sends and reads them takes a few times as long), heartbeats and losses of workers.

Candidates of emulated targets are drawn by workers, in blocks, and taken in by the coordinator; those of a CPU by the coordinator. Seconds
are those of the processor, but for measurements on `cpu`: those are of the clock, and a loaded machine makes them longer.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, simulate, train; write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, help="file to write the page to")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows to train on")
    parser.add_argument("--timed", type=int, default=TIMED, help="candidates timed on cpu; 0: none")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--note", default="", help="what to tell of the machine under the parts")
    parser.add_argument("--json", type=Path, help="sections to go on from, and to keep")
    chosen = parser.parse_args(arguments)
    found: dict[str, dict[str, str]] = {}
    if chosen.json is not None and chosen.json.exists():
        found = json.loads(chosen.json.read_text())
    for part in chosen.parts:
        if part in found:
            continue
        with tempfile.TemporaryDirectory() as folder:
            sections = _sections(part, Path(folder), chosen.rows, chosen.timed)
            text = "".join(f"{section}\n" for section in sections)
        found[part] = {"day": f"{date.today()}", "note": chosen.note, "text": text}
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    page = "\n".join((INTRODUCTION.format(machine=f"two cores of {model_name()}"), *_page(found)))
    if chosen.markdown is None:
        print(page)
    else:
        chosen.markdown.write_text(page, encoding="utf-8")
    return 0


def _page(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the parts in order, each with the day it was measured on."""
    for part in PARTS:
        if part in found:
            note = found[part]["note"] and f": {found[part]['note']}"
            yield f"{found[part]['text'].rstrip()}\n\nMeasured on {found[part]['day']}{note}.\n"


def _sections(part: str, folder: Path, rows: int, timed: int) -> Iterator[str]:
    if part == "values":
        yield from _values(timed)
    elif part == "costs":
        recordings = [record(target(name), count, folder) for name, count in COUNTS.items()]
        yield from _cost_sections(recordings)
    else:
        edge = record(target("edge"), COUNTS["edge"], folder)
        x, y = base_rows(edge.records, load_spec("edge"))
        with started(2) as cluster:
            yield from _trained(train_both(cluster.client, x, y, rows))


def _cost_sections(recordings: Sequence[Recording]) -> Iterator[str]:
    with started(2) as cluster:
        largest = max(recordings, key=lambda one: one.job_bytes)
        submit = submit_seconds(cluster, largest.job_bytes, largest.result_bytes)
    yield _costs(recordings, submit).markdown() + "\n"
    scheduling = {workers: scheduler_seconds(workers) for workers in WORKERS}
    unnamed = {workers: scheduler_seconds(workers, is_named=False) for workers in WORKERS}
    yield _scheduling(scheduling, unnamed).markdown() + "\n"
    for one in recordings:
        yield from _simulated(one, submit, scheduling)


def started(workers: int) -> Cluster:
    """Start so many local workers, and wait for all."""
    cluster = Cluster.open(workers)
    cluster.client.wait_for_workers(workers, timeout=JOINED)
    while cluster.size < workers:
        time.sleep(0.1)
    return cluster


def _costs(recordings: Sequence[Recording], submit: float) -> Table:
    rows = []
    for one in recordings:
        costs = one.costs
        parts = (one.draw_seconds, costs.draw, costs.pack, costs.record, costs.store)
        measured = one.durations - (one.draw_seconds if one.is_drawn_apart else 0.0)
        rows.append(
            (
                one.target,
                f"{measured.mean() * 1e3:.2f} (worst job {measured.max() * 1e3:.2f})",
                *(f"{part * 1e3:.3f}" for part in parts),
                f"{submit * 1e3:.2f}",
                f"{one.job_bytes / 1e3:.1f} + {one.result_bytes / 1e3:.1f}",
            )
        )
    columns = (
        *(
            "target",
            "ms to measure a candidate",
            "draw it",
            "draw or take it in",
            "pack it",
            "record it",
        ),
        "store it",
        *(f"ms to send a job of {BATCH}", "kB of it, there and back"),
    )
    return Table("## Costs in the coordinator\n", columns, tuple(rows))


def _scheduling(named: dict[int, float], unnamed: dict[int, float]) -> Table:
    rows = [
        (f"{workers:,}", f"{named[workers] * 1e3:.2f}", f"{unnamed[workers] * 1e3:.2f}")
        for workers in named
    ]
    columns = ("workers", "ms of a job that names its worker (ours)", "ms of a job for any worker")
    return Table("## Costs in Dask's scheduler\n", columns, tuple(rows))


def _simulated(one: Recording, submit: float, scheduling: dict[int, float]) -> Iterator[str]:
    outcomes: dict[int, Outcome] = {}
    for workers, seconds in scheduling.items():
        c = one.costs
        costs = Costs(c.draw, c.pack, c.record, c.store, submit, seconds)
        rng = np.random.default_rng(0)
        outcomes[workers] = simulate(workers, MEASUREMENTS, one.durations, costs, rng)
    rows = [
        (
            f"{workers:,}",
            f"{found.seconds / 3600:.2f}",
            f"{found.workers_share:.1%}",
            f"{found.coordinator_share:.1%}",
            f"{found.draw_share:.1%}",
            f"{found.scheduler_share:.1%}",
            f"{found.store_share:.1%}",
            found.bottleneck,
        )
        for workers, found in outcomes.items()
    ]
    columns = (
        *("workers", "hours", "workers work", "coordinator works", "of it drawing or taking in"),
        *("scheduler works", "store works", "bottleneck"),
    )
    yield Table(
        f"## {MEASUREMENTS:,} measurements on {one.target}\n", columns, tuple(rows)
    ).markdown()
    most = one.durations.mean() / (sum((c.draw, c.pack, c.record, c.store)) + submit / BATCH)
    yield (
        f"\nShares are of the whole time. One coordinator keeps {most:.0f} workers busy with this target; "
        "beyond that it is the bound, and its largest part is named.\n"
    )
    yield store_limit(one.durations.mean(), one.costs.store)


def store_limit(measured: float, stored: float) -> str:
    """Say which rates make the store's share ``AIM``, by seconds to measure and to store one candidate."""
    delivered, taken, most = WORKERS[-1] / measured, 1 / stored, AIM / stored
    return (
        f"The store alone takes {taken:,.0f} measurements a second; {WORKERS[-1]:,} workers that nothing holds up deliver "
        f"{delivered:,.0f} of this target. So it stays under {AIM:.0%} of the time up to {most:,.0f} a second: those of "
        f"{most * measured:,.0f} workers, or of {WORKERS[-1]:,} whose measurements take {WORKERS[-1] / most * 1e3:,.0f} ms or longer.\n"
    )


def _values(timed: int) -> Iterator[str]:
    """Compare what one process measures with what so many workers do."""
    cases = [(target("edge"), SAME)] + ([(target("cpu:1"), timed)] if timed else [])
    sets = [(machine, drawn(machine, count)[0]) for machine, count in cases]
    alone = [_cycles(machine, candidates, None) for machine, candidates in sets]
    again = [_cycles(machine, candidates, None) for machine, candidates in sets]
    found = {"alone, a second time": again}
    for workers in (1, 2, 4):
        with started(workers) as cluster:
            found[f"{workers} local workers"] = [
                _cycles(machine, candidates, cluster) for machine, candidates in sets
            ]
    rows = [
        _compared(machine.name, by, alone[at], cycles[at])
        for at, (machine, _) in enumerate(sets)
        for by, cycles in found.items()
    ]
    columns = (
        "target",
        "measured by",
        "equal to alone",
        "sure of both",
        "median bias",
        "worst candidate",
    )
    yield Table("## Values by the number of workers\n", columns, tuple(rows)).markdown()
    yield (
        "\nOn `cpu` one worker of a machine times, alone; two runs of one process show how far times repeat. "
        "The bias is the median of measured over alone, less one, over candidates that both are sure of: a time of too few calm "
        "visits says so itself, training hardly counts it, and a calibration takes it again.\n"
    )


def _cycles(
    machine: Target, candidates: Sequence[Candidate], workers: Workers
) -> list[tuple[int, bool]]:
    """Return cycles of each candidate, 0 where it failed, and whether they are sure."""
    results = Runner(machine, workers).measure(candidates)
    return [
        (one.execution.cycles, not one.execution.counters.get("noisy", 0))
        if isinstance(one, Measured)
        else (0, False)
        for one in results
    ]


def _compared(
    name: str, by: str, alone: list[tuple[int, bool]], found: list[tuple[int, bool]]
) -> tuple[str, ...]:
    pairs = list(zip(alone, found, strict=True))
    ratios = [b / a - 1 for (a, first), (b, second) in pairs if first and second]
    equal = sum(a == b for a, b in pairs)
    told = ("–", "–")
    if ratios:
        told = f"{statistics.median(ratios):+.2%}", f"{max(ratios, key=abs):+.1%}"
    return (
        name,
        by,
        f"{equal} of {len(alone)}",
        f"{len(ratios)}",
        *told,
    )


def _trained(found: Training) -> Iterator[str]:
    rows = (
        ("plain XGBoost, 2 threads", f"{found.plain_seconds:.1f}", f"{found.plain_error:.5f}"),
        ("XGBoost on 2 Dask workers", f"{found.dask_seconds:.1f}", f"{found.dask_error:.5f}"),
    )
    title = f"## Trees on {found.rows:,} rows of {found.features} features\n"
    columns = ("trained by", "seconds, with drawing the rows", "held-out error (log)")
    yield Table(title, columns, rows).markdown()
    yield (
        f"\nPredictions of the two differ by {found.mean_difference:.1e} in the mean and {found.worst_difference:.1e} at most: "
        "workers merge the quantiles of their own rows, so split points differ a little. Rows are measured ones of `edge`, "
        "drawn with replacement, each feature moved by 1 %.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
