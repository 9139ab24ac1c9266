"""The figures of `cpu.py` as tables and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cpu_figures import ENGINES, FAST, OURS, PEERS, Figures, NetworkRow, geometric_mean
from table import Table

ABSENT = "–"
SHOWN = {"onnxruntime": "ORT", "openvino": "OV", OURS: "ours", FAST: "fast"}
SPEEDS = (
    "openvino_times_onnxruntime",
    "ours_times_onnxruntime",
    "ours_times_better",
    "fast_times_onnxruntime",
    "fast_times_better",
)
"""Names in JSON of what `_speeds` gives."""
LEGEND = (
    "Milliseconds are medians of rounds in which the engines take turns. ORT is ONNX Runtime, OV "
    'OpenVINO, *ours* this engine as it is opened, *fast* with `accuracy="fast"`, which allows '
    "Winograd's convolutions; *A / B* says how many times as fast A is, the median over the rounds; *spread* is "
    "that of the noisiest engine's rounds; *differ* is the outputs' greatest distance from the "
    "first engine's, of their range."
)


def speed_table(figures: Figures, threads: int) -> Table:
    """Milliseconds, ratios and shares of the peak, network by network, with geometric means."""
    rows = [row for row in figures.rows if row.threads == threads]
    peak = figures.peak_gflops[threads]
    return Table(
        f"{threads} thread{'s' if threads > 1 else ''}, measured peak {peak:.0f} GFLOP/s:",
        (
            "network",
            *(f"{SHOWN[engine]} ms" for engine in ENGINES),
            "OV / ORT",
            "ours / ORT",
            "ours / better",
            "fast / ORT",
            "fast / better",
            *(f"{SHOWN[engine]} of peak" for engine in ENGINES),
            "spread",
            "differ",
        ),
        (*(_cells(row, peak) for row in rows), _means(rows)),
    )


def _cells(row: NetworkRow, peak: float) -> tuple[str, ...]:
    found = row.engines
    return (
        row.network,
        *(f"{found[e].seconds * 1e3:.3f}" if e in found else ABSENT for e in ENGINES),
        *(_ratio(speed) for speed in _speeds(row)),
        *(_share(row.of_peak(engine, peak)) for engine in ENGINES),
        _share(max((e.spread for e in found.values()), default=None)),
        f"{max(e.difference for e in found.values()):.0e}" if found else ABSENT,
    )


def _speeds(row: NetworkRow) -> tuple[float | None, ...]:
    first, second = PEERS
    ours = ((row.speed(engine, first), row.speed_of_better(engine)) for engine in (OURS, FAST))
    return (row.speed(second, first), *(speed for pair in ours for speed in pair))


def _means(rows: list[NetworkRow]) -> tuple[str, ...]:
    columns = zip(*(_speeds(row) for row in rows), strict=True)
    means = (_ratio(geometric_mean(column)) for column in columns)
    return ("geometric mean", *("" for _ in ENGINES), *means, *("" for _ in ENGINES), "", "")


def _ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.0%}"


def tables(figures: Figures) -> list[Table]:
    """One for every number of threads."""
    return [speed_table(figures, threads) for threads in figures.peak_gflops]


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
    found = asdict(figures)
    for row, shown in zip(figures.rows, found["rows"], strict=True):
        for name, speed in zip(SPEEDS, _speeds(row), strict=True):
            shown[name] = speed
    return found
