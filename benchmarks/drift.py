"""Drift detectors beside each other: false alarms on quiet runs, runs until a shift is found, time a run.

    python -m benchmarks.drift [--recording .bench/drift/quiet.npz] [--markdown docs/figures-drift.md]

Quiet runs are recordings of networks on this CPU, made long by drawing blocks of them, and drawn noise of
known kinds. The recording is made when its file is missing (two minutes). River runs in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.runtime.online.host_drift import HostDriftRule
from autotune.runtime.online.watching import requests_apart
from benchmarks.drift_bound import expected_delays
from benchmarks.drift_detectors import DETECTORS, HERE
from benchmarks.drift_recording import CASES, Recording, load, record, save
from benchmarks.drift_series import Series, all_series
from benchmarks.drift_trial import LOOKED_AT, STARTS, trial
from benchmarks.machine import busy
from benchmarks.table import Table

QUIET_RUNS, FACTORS, SEED = 100_000, (1.05, 1.10, 1.30), 0
PEER = Path(".bench/drift/bin/python")
WORKER = Path(__file__).with_name("drift_worker.py")
NOTE = """`make bench-drift` writes this page. A series is {runs:,} quiet runs. Recorded ones are blocks of 64 to 512
consecutive runs, drawn with replacement from {cases} recordings of networks on this CPU. Drawn ones have known
noise: normal; Student's t with two degrees of freedom and single runs up to five times as long; spells of up
to twenty runs that take a third longer; a clock that steps between two modes 2 % apart.

A detector begins anew after each alarm. Delays are runs from the shift to the alarm, from {starts} places of each series;
a shift that was not found within {most:,} runs counts as {most:,}. The last column is CPU time of one quiet run.

*Theory* is the delay log(ARL) / KL (Lorden 1971) of a test that finds 5 % and raises one false alarm in {runs:,} runs: at Gaussian
noise log(ARL) × 2 S / m², with the variance S of Huber's score of a run and the shift m of its mean; as *correlated*, S is the
long-run variance. Tests that know which heights noise never reaches may be faster than the second. *Looked at*: a session's detector
sees so many of short runs, as learning looks at; a drift has to last for {lasts:.1f} s.

{busy}"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one detector: alarms by series, delays by series and factor, and microseconds a run."""

    alarms: tuple[int, ...]
    delays: tuple[tuple[tuple[int, ...], ...], ...]
    microseconds: float

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Figures:
        """Read what ``trial`` returned."""
        alarms, delays = found["alarms"], found["delays"]
        assert isinstance(alarms, list) and isinstance(delays, list)
        by_factor = tuple(tuple(tuple(one) for one in series) for series in delays)
        micro = found["microseconds"]
        assert isinstance(micro, float)
        return cls(tuple(alarms), by_factor, micro)


def recorded(path: Path) -> list[Recording]:
    """Return the recordings of a file, which is made if it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, [record(network, threads, 1500) for network, threads in CASES])
    return load(path)


def peers(series: Sequence[np.ndarray]) -> dict[str, Figures]:
    """Run River's detectors, in their own environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "series.npz"
        np.savez(path, *series)
        factors = ",".join(map(str, FACTORS))
        command = [str(PEER), str(WORKER), str(path), factors]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {name: Figures.of(found) for name, found in json.loads(done.stdout).items()}


def summary(names: Sequence[str], figures: Mapping[str, Figures]) -> Table:
    """All series together: worst beside typical."""
    real = [i for i, name in enumerate(names) if name.startswith("recorded")]
    rows = []
    for name, found in figures.items():
        quiet = [found.alarms[i] for i in real]
        others = [a for i, a in enumerate(found.alarms) if i not in real]
        cells = [f"{sum(quiet):,}", f"{max(quiet):,}", f"{sum(others):,}"]
        for place in range(len(FACTORS)):
            medians = [float(np.median(series[place])) for series in found.delays]
            cells.append(f"{np.median(medians):.0f} / {max(medians):.0f}")
        rows.append((name, *cells, f"{found.microseconds:.1f}"))
    shifts = (f"{factor - 1:.0%}: typical / worst series" for factor in FACTORS)
    columns = (
        "detector",
        "alarms, recorded",
        "worst recording",
        "alarms, drawn",
        *shifts,
        "µs a run",
    )
    return Table(
        f"**All series** ({len(real)} recorded, {len(names) - len(real)} drawn)",
        columns,
        tuple(rows),
    )


def by_series(series: Mapping[str, Series], found: Figures, title: str) -> Table:
    """One detector, series by series: delays as median and largest, beside those of theory."""
    rows = []
    for (name, one), alarms, delays in zip(series.items(), found.alarms, found.delays, strict=True):
        spans = (f"{np.median(taken):.0f} ({max(taken)})" for taken in delays)
        seconds = np.median(delays[0]) * float(np.exp(np.median(one.log_seconds)))
        theory = expected_delays(one.log_seconds, FACTORS[0], QUIET_RUNS)
        told = f"{seconds:.2f}" if name.startswith("recorded") else ""
        looked = 1 / requests_apart(float(np.exp(np.median(one.log_seconds))))
        rows.append(
            (name, str(alarms), *spans, told, f"{looked:.0%}", *(f"{x:,.0f}" for x in theory))
        )
    columns = (
        "series", "false alarms", *(f"{factor - 1:.0%}" for factor in FACTORS), "5%: seconds", "looked at",
        "theory: independent", "theory: correlated",
    )  # fmt: skip
    return Table(
        f"**{title}**, by series: median delay and the longest in parentheses", columns, tuple(rows)
    )


def machine(recordings: Sequence[Recording]) -> Table:
    """What the recordings are like."""
    rows = []
    for one in recordings:
        values = one.log_seconds - np.median(one.log_seconds)
        low, high, odd = np.quantile(values, [0.05, 0.95, 0.99])
        seconds = 1e3 * float(np.exp(np.median(one.log_seconds)))
        windows = [np.median(values[i : i + 50]) for i in range(0, len(values) - 50, 50)]
        cells = (
            f"{low:+.1%}",
            f"{high:+.1%}",
            f"{odd:+.1%}",
            f"{min(windows):+.1%} to {max(windows):+.1%}",
        )
        rows.append(
            (
                one.name,
                f"{len(values):,}",
                f"{seconds:.2f}",
                *cells,
                f"{np.mean(one.taken > 0):.0%}",
            )
        )
    columns = (
        "recording",
        "runs",
        "median ms",
        "5 %",
        "95 %",
        "99 %",
        "medians of 50 runs",
        "core taken away",
    )
    return Table("**Recordings**: log ratio to the median", columns, tuple(rows))


def main() -> None:
    """Print the tables; with ``--markdown`` write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recording", type=Path, default=Path(".bench/drift/quiet.npz"))
    parser.add_argument("--markdown", type=Path)
    wanted = parser.parse_args()
    recordings = recorded(wanted.recording)
    series = all_series(recordings, QUIET_RUNS, SEED)
    names, values = list(series), [one.log_seconds for one in series.values()]
    figures = {name: Figures.of(trial(make, values, FACTORS)) for name, make in DETECTORS.items()}
    figures |= peers(values) if PEER.exists() else {}
    tables = [
        summary(names, figures),
        by_series(series, figures[HERE], HERE),
        machine(recordings),
    ]
    times = {"lasts": HostDriftRule().plateau_seconds}
    note = NOTE.format(
        runs=QUIET_RUNS, cases=len(recordings), starts=STARTS, most=LOOKED_AT, busy=busy(), **times
    )
    text = "\n\n".join(["# Drift detectors", note, *(table.markdown() for table in tables)]) + "\n"
    print("\n\n".join(table.text() for table in tables))
    if wanted.markdown is not None:
        wanted.markdown.write_text(text)


if __name__ == "__main__":
    main()
