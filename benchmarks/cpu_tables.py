"""The figures of `cpu.py` as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.cpu_figures import (
    ENGINES,
    EXACT,
    FAST,
    OURS,
    PEERS,
    EngineRow,
    Figures,
    NetworkRow,
    Summary,
)
from benchmarks.cpu_networks import SYNTHETIC
from benchmarks.table import Table

ABSENT = "–"
SHOWN = {
    "onnxruntime": "ORT", "openvino": "OV", OURS: "ours", EXACT: "exact", FAST: "fast",
}  # fmt: skip
LEGEND = (
    "Milliseconds are medians of rounds in which the engines take turns. ORT is ONNX Runtime, OV "
    "OpenVINO, *ours* this engine by its defaults, nothing tuned; *exact* and *fast* are other "
    "accuracies. *A / B* says how many times as fast A is, the median over the rounds, and "
    "*A / better* compares with the faster peer. *spread* is that of the noisiest engine's rounds; "
    "*differ* is the outputs' greatest distance from the first engine's, of their range. Means are "
    f"geometric and leave out single operators and chains ({', '.join(SYNTHETIC)})."
)


def speed_table(figures: Figures, threads: int) -> Table:
    """Milliseconds, ratios and shares of the peak, network by network."""
    rows = [row for row in figures.rows if row.threads == threads]
    peak, engines = figures.peak_gflops[threads], _measured(figures)
    return Table(
        f"{threads} thread{'s' if threads > 1 else ''}, measured peak {peak:.0f} GFLOP/s:",
        (
            "network",
            *(f"{SHOWN[engine]} ms" for engine in engines),
            *_speeds(rows[0], engines),
            *(f"{SHOWN[engine]} of peak" for engine in engines),
            "spread",
            "differ",
        ),
        tuple(_cells(row, peak, engines) for row in rows),
    )


def summary_table(figures: Figures) -> Table:
    """Every ratio's mean over the networks, its least, and on how many networks it is below 1."""
    engines, rows = _measured(figures), list[tuple[str, ...]]()
    for threads in figures.peak_gflops:
        speeds = {
            row.network: _speeds(row, engines)
            for row in figures.rows
            if row.threads == threads and row.network not in SYNTHETIC
        }
        for ratio in next(iter(speeds.values()), {}):
            summary = Summary.of({name: found[ratio] for name, found in speeds.items()})
            if summary is not None:
                rows.append((ratio, str(threads), *_summary_cells(summary, len(speeds))))
    columns = ("ratio", "threads", "geometric mean", "least", "on", "slower on")
    return Table("Over all networks:", columns, tuple(rows))


def _summary_cells(summary: Summary, networks: int) -> tuple[str, ...]:
    slower = f"{summary.slower} of {networks}"
    return _ratio(summary.mean), _ratio(summary.least), summary.worst, slower


def _measured(figures: Figures) -> tuple[str, ...]:
    """The engines that ran any network, in the order of the columns."""
    ran = {engine for row in figures.rows for engine in row.engines}
    return tuple(engine for engine in ENGINES if engine in ran)


def _cells(row: NetworkRow, peak: float, engines: Sequence[str]) -> tuple[str, ...]:
    found = row.engines
    return (
        row.network,
        *(f"{found[e].seconds * 1e3:.3f}" if e in found else ABSENT for e in engines),
        *(_ratio(speed) for speed in _speeds(row, engines).values()),
        *(_share(row.of_peak(engine, peak)) for engine in engines),
        _share(max((e.spread for e in found.values()), default=None)),
        f"{max(e.difference for e in found.values()):.0e}" if found else ABSENT,
    )


def _speeds(row: NetworkRow, engines: Sequence[str]) -> dict[str, float | None]:
    """How many times as fast, by the ratio's name: the second peer of the first, then ours of both."""
    first, second = PEERS
    speeds = {f"{SHOWN[second]} / {SHOWN[first]}": row.speed(second, first)}
    for engine in engines:
        if engine not in PEERS:
            speeds[f"{SHOWN[engine]} / {SHOWN[first]}"] = row.speed(engine, first)
            speeds[f"{SHOWN[engine]} / better"] = row.speed_of_better(engine)
    return speeds


def _ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.0%}"


def tables(figures: Figures) -> list[Table]:
    """The summary, then one for every number of threads."""
    speeds = [speed_table(figures, threads) for threads in figures.peak_gflops]
    return [summary_table(figures), *speeds]


def failures(figures: Figures) -> list[str]:
    """What did not run, by the reason."""
    where: dict[str, list[str]] = {}
    for row in figures.rows:
        for reason in row.failures.values():
            where.setdefault(reason, []).append(f"{row.network} on {row.threads}")
    return [f"{reason} ({', '.join(places)})" for reason, places in where.items()]


def text(figures: Figures) -> str:
    """For stdout."""
    return "\n\n".join([figures.machine, LEGEND, *(table.text() for table in tables(figures))])


def markdown(figures: Figures) -> str:
    """docs/figures-cpu.md."""
    head = (
        "# Figures against ONNX Runtime and OpenVINO\n\n"
        "Written by `make bench-cpu`: every engine in a process of its own, the same ONNX file, "
        f"inputs and threads. {figures.machine}\n\n{LEGEND}\n\n"
    )
    return head + "\n\n".join(table.markdown() for table in tables(figures)) + "\n"


def as_json(figures: Figures) -> dict[str, Any]:
    """All that was measured, and the ratios."""
    found, engines = asdict(figures), _measured(figures)
    for row, shown in zip(figures.rows, found["rows"], strict=True):
        for ratio, speed in _speeds(row, engines).items():
            shown[ratio.replace(" / ", "_times_")] = speed
    return found


def from_json(found: dict[str, Any]) -> Figures:
    """Read what ``as_json`` wrote."""
    rows = tuple(
        NetworkRow(
            row["network"],
            row["threads"],
            row["multiply_adds"],
            {
                name: EngineRow(tuple(one["rounds"]), one["open_seconds"], one["difference"])
                for name, one in row["engines"].items()
            },
            row["failures"],
        )
        for row in found["rows"]
    )
    peaks = {int(threads): peak for threads, peak in found["peak_gflops"].items()}
    return Figures(found["machine"], peaks, rows)
