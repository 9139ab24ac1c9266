"""The report page: puts the plots of one search into a single self-contained HTML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2

from autotune.disk.atomic_file import FileKind, replace_file
from autotune.report.axis import short
from autotune.report.convergence import convergence
from autotune.report.fusion_graph import fusion_graph
from autotune.report.group_bars import SHOWN, group_bars
from autotune.report.plan_bars import plan_bars
from autotune.report.roofline import roofline
from autotune.report.scatter import scatter
from autotune.report.view import GroupRow, PlanCosts, RooflineRow, SearchView
from autotune.targets.spec import HardwareSpec

KIND = FileKind("HTML page", (b"<!doctypehtml", b"<html"))

METRICS: Mapping[str, tuple[str, str]] = {
    # key of the cost model's metrics: (what it is called here, format)
    "mape": ("mean absolute relative error", "{:.1%}"),
    "spearman": ("Spearman rank correlation within a group", "{:.3f}"),
    "median_error": ("median absolute relative error", "{:.1%}"),
    "within_5": ("predictions within ±5 %", "{:.1%}"),
    "within_10": ("predictions within ±10 %", "{:.1%}"),
    "kendall": ("Kendall rank correlation within a group", "{:.3f}"),
    "top1_regret": ("regret of its first choice", "{:.1%}"),
    "top5_regret": ("regret of the best of its first five", "{:.1%}"),
    "coverage": ("intervals that hold the truth", "{:.1%}"),
    "training_rows": ("measurements it learned from", "{:,.0f}"),
    "test_rows": ("measurements it was tested on", "{:,.0f}"),
}


def render(view: SearchView) -> str:
    """The page as HTML text: under 500 kB, nothing loaded from elsewhere."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("autotune.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("report.html").render(
        view=view,
        version=version("autotune"),
        headline=_headline(view),
        cards=_cards(view),
        bars_note=_bars_note(view),
        group_bars=group_bars(view.groups),
        roofline=roofline(view.groups, view.spec),
        scatter=scatter(view.groups),
        scatter_note=_scatter_note(view),
        fusion_graph=fusion_graph(view.groups),
        convergence=convergence(view.trials, view.predicted_cycles) if view.trials else "",
        search_note=_search_note(view),
        rows=[_table_row(row, sum(r.cycles for r in view.groups)) for row in view.groups],
        metrics=_metrics(view.model_metrics),
        machine=_machine(view.spec),
        rooflines=[_roofline_row(row) for row in view.rooflines],
    )


def write_view(view: SearchView, path: Path) -> None:
    """Write the page whole or not at all.

    Raises ``InputError`` for a place that cannot hold it, ``OSError`` when writing fails.
    """
    replace_file(path, render(view), KIND)


def _headline(view: SearchView) -> str:
    found = view.cycles.found
    if found is None:
        return f"The found plan has {len(view.groups)} groups."
    parts = [f"The found plan takes <b>{found:,.0f}</b> cycles ({_seconds(found, view.spec)})"]
    if view.cycles.unfused:
        parts.append(f"<b>{found / view.cycles.unfused:.2f}×</b> of the unfused network")
    if view.cycles.greedy:
        parts.append(f"<b>{found / view.cycles.greedy:.2f}×</b> of greedy fusion")
    operators = sum(len(row.operators) for row in view.groups)
    return f"{': '.join(parts[:2])}{''.join(f' and {p}' for p in parts[2:])}. It runs {operators} operators as {len(view.groups)} groups."


def _seconds(cycles: float, spec: HardwareSpec) -> str:
    seconds = cycles / spec.clock_hz
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _cards(view: SearchView) -> list[dict[str, str]]:
    def card(
        title: str, note: str, costs: PlanCosts, show: Callable[[float], str]
    ) -> dict[str, str]:
        return {"title": title, "note": note, "svg": plan_bars(title, costs, show)}

    def traffic(size: float) -> str:
        return f"{short(size)}B"

    figures = (
        ("Time", "cycles, measured", view.cycles, short),
        ("Energy", "joules, measured", view.energy_fj, joules),
        ("DRAM traffic", "bytes, measured", view.dram_bytes, traffic),
    )
    # figures without a measurement have no card
    return [card(*figure) for figure in figures if figure[2].found is not None]


def joules(femtojoules: float) -> str:
    """Return energy with an SI prefix."""
    value = femtojoules * 1e-15
    for factor, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-12:.3g} pJ"


def _bars_note(view: SearchView) -> str:
    if len(view.groups) <= SHOWN:
        return "Every group of the found plan in execution order."
    slowest = sorted((row.cycles for row in view.groups), reverse=True)
    share = sum(slowest[:SHOWN]) / (sum(slowest) or 1.0)
    return f"The {SHOWN} slowest of {len(view.groups)} groups, in execution order: {share:.0%} of the time."


def _scatter_note(view: SearchView) -> str:
    error = view.prediction_error
    if error is None:
        return "No group was measured."
    return (
        f"Mean absolute error {error:.1%} over {len(view.measured_groups)} groups; "
        "the band is ±10 %, lines are the prediction's intervals."
    )


def _search_note(view: SearchView) -> str:
    last = view.trials[-1]
    return (
        f"{last.trial + 1} trials over fusion and schedules, objective {view.objective}; costs as the "
        "model predicts them, each dot one trial, the line the best so far."
    )


def _cell(value: float | None, show: Callable[[float], str]) -> dict[str, Any]:
    if value is None or not math.isfinite(value):
        return {"value": -1, "text": "–"}
    return {"value": value, "text": show(value)}


def _table_row(row: GroupRow, total_cycles: float) -> dict[str, Any]:
    def whole(value: float) -> str:
        return f"{value:,.0f}"

    return {
        "index": row.index,
        "title": row.title,
        "names": ", ".join(row.names),
        "schedule": row.schedule,
        "interval": f"{row.low_cycles:,.0f} to {row.high_cycles:,.0f}",
        "bound": _cell(row.bound_cycles, whole),
        "predicted": _cell(row.predicted_cycles, whole),
        "measured": _cell(row.measured_cycles, whole),
        "error": _cell(row.error, lambda e: f"{e:+.1%}"),
        "share": _cell(row.cycles / (total_cycles or 1.0), lambda s: f"{s:.1%}"),
        "dram": _cell(row.dram_bytes, whole),
        "energy": _cell(row.energy_fj, joules),
    }


def _roofline_row(row: RooflineRow) -> dict[str, Any]:
    def whole(value: float) -> str:
        return f"{value:,.0f}"

    return {
        "index": row.index,
        "title": row.title,
        "names": ", ".join(row.names),
        "ms": _cell(row.seconds, lambda s: f"{1e3 * s:.3f}"),
        "share": _cell(row.share, lambda s: f"{s:.1%}"),
        "mflop": _cell(row.flops / 1e6, lambda n: f"{n:,.2f}"),
        "touched": _cell(row.touched_bytes / 1e3, whole),
        "memory": _cell(row.memory_bytes / 1e3, whole),
        "bound": _cell(row.bound_seconds, lambda s: f"{1e3 * s:.3f}"),
        "fraction": _cell(row.fraction, lambda f: f"{f:.0%}"),
        "limit": row.limit,
        "steps": row.steps,
        "reason": row.reason,
    }


def _metrics(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    known = [(METRICS[k][0], METRICS[k][1].format(metrics[k])) for k in METRICS if k in metrics]
    return known + [(k, f"{v:.4g}") for k, v in metrics.items() if k not in METRICS]


def _machine(spec: HardwareSpec) -> list[tuple[str, str]]:
    rows = [
        ("cores", str(spec.cores)),
        ("clock", f"{spec.clock_hz / 1e6:,.0f} MHz"),
        ("peak", f"{spec.peak_macs_per_cycle:,} multiply-adds per cycle"),
        (
            "ridge point",
            f"{spec.peak_macs_per_cycle / spec.dram.bytes_per_cycle:.3g} multiply-adds per byte",
        ),
    ]
    for part in ("matrix", "vector", "scratchpad", "dram"):
        numbers = asdict(getattr(spec, part))
        rows.append((part, ", ".join(f"{k} {v}" for k, v in numbers.items())))
    return rows
