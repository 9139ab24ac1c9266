"""The report page: puts the plots of one search into a single self-contained HTML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from autotune.disk.atomic_file import FileKind, replace_file
from autotune.report.axis import short
from autotune.report.convergence import convergence, search_curves
from autotune.report.group_bars import SHOWN, group_bars
from autotune.report.network_graph import network_graph
from autotune.report.plan_bars import plan_bars
from autotune.report.plan_front import plan_front
from autotune.report.precision_front import precision_front, precision_rows
from autotune.report.roofline import roofline
from autotune.report.scatter import scatter
from autotune.report.svg import NARROW, WIDE
from autotune.report.timeline import timeline
from autotune.report.titles import titles
from autotune.report.view import FrontRow, GroupRow, PlanCosts, RooflineRow, SearchView
from autotune.report.waterfall import waterfall
from autotune.targets.spec import HardwareSpec

KIND = FileKind("HTML page", (b"<!doctypehtml", b"<html"))

METRICS: Mapping[str, tuple[str, str]] = {
    # key of the cost model's metrics: (what it is called here, format)
    "mape": ("mean absolute relative error", "{:.1%}"),
    "spearman": ("Spearman rank correlation within a group", "{:.3f}"),
    "median_error": ("median absolute relative error", "{:.1%}"),
    "within_5": ("predictions within ±5 %", "{:.1%}"),
    "within_10": ("predictions within ±10 %", "{:.1%}"),
    "ordered": ("pairs 5 % apart within a group in the right order", "{:.1%}"),
    "kendall": ("Kendall rank correlation within a group", "{:.3f}"),
    "top1_regret": ("regret of its first choice", "{:.1%}"),
    "top5_regret": ("regret of the best of its first five", "{:.1%}"),
    "coverage": ("intervals that hold the truth", "{:.1%}"),
    "training_rows": ("measurements it learned from", "{:,.0f}"),
    "test_rows": ("measurements it was tested on", "{:,.0f}"),
}


def render(view: SearchView) -> str:
    """Return the page as HTML text: nothing is loaded from elsewhere, and all is legible without scripts."""
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
        pictures=_pictures(view),
        titles=titles(view),
        bars_note=_bars_note(view),
        rows=[_table_row(row, view) for row in view.groups],
        metrics=_metrics(view.model_metrics),
        machine=_machine(view.spec),
        front=[_front_row(row, view) for row in view.front],
        precision=[] if view.precision is None else precision_rows(view.precision, view.scale),
        rooflines=[_roofline_row(row) for row in view.rooflines],
    )


def _pictures(view: SearchView) -> dict[str, Markup]:
    """Return every drawing by name, empty where there is nothing to draw."""
    groups, scale, costs = view.groups, view.scale, view.cost_scale
    measured = view.of_plans(view.cycles, view.energy_fj)
    predicted = view.of_plans(view.predicted_cycles, PlanCosts(None, None, None))
    drawn: dict[str, Callable[[float], str]] = {
        "graph": lambda width: network_graph(groups, width, scale),
        "timeline": lambda width: timeline(groups, width, scale),
        "waterfall": lambda width: waterfall(groups, width, scale),
        "bars": lambda width: group_bars(groups, width, scale),
        "roofline": lambda width: (
            "" if view.rooflines else roofline(groups, view.spec, _half(width))
        ),
        "scatter": lambda width: (
            scatter(groups, _half(width), scale) if view.measured_groups else ""
        ),
        "curves": lambda width: (
            search_curves(view.curves, measured, _half(width), costs) if view.curves else ""
        ),
        "front": lambda width: plan_front(view.front, _half(width), scale) if view.front else "",
        "precision": lambda width: (
            "" if view.precision is None else precision_front(view.precision, _half(width), scale)
        ),
        "trials": lambda width: (
            convergence(view.trials, predicted, _half(width), costs, _trial_axes(view))
            if view.trials
            else ""
        ),
    }
    return {name: _both(draw) for name, draw in drawn.items()}


def _trial_axes(view: SearchView) -> tuple[str, str]:
    """Return what the axes of trials are: a CPU is searched in place, by generations of whole runs."""
    if view.spec.timed:
        return "generations", f"measured {view.cost_scale.unit}"
    return "trials on the cost model", f"predicted {view.cost_scale.unit}"


def _half(width: float) -> float:
    """Return the width of one of two drawings side by side; a phone has them below each other."""
    return width if width == NARROW else 500.0


def _both(draw: Callable[[float], str]) -> Markup:
    """Return a drawing for a desk and one for a phone, of which the style sheet shows one."""
    wide = draw(WIDE)
    if not wide:
        return Markup("")
    # Markup: the drawings escape their texts
    return Markup(f'<div class="wide">{wide}</div><div class="narrow">{draw(NARROW)}</div>')


def write_view(view: SearchView, path: Path) -> None:
    """Write the page whole or not at all.

    Raises ``InputError`` for a place that cannot hold it, ``OSError`` when writing fails.
    """
    replace_file(path, render(view), KIND)


def _headline(view: SearchView) -> Markup:
    found, scale = view.cycles.found, view.scale
    if found is None:
        return Markup("The found plan has {} groups.").format(len(view.groups))
    seconds = "" if view.spec.timed else f" ({_seconds(found, view.spec)})"
    text = Markup("The found plan takes <b>{}</b>{}").format(scale.text(found), seconds)
    ratios = [
        Markup("<b>{:.2f} times</b> as fast as {}").format(other / found, name)
        for other, name in (
            (view.cycles.unfused, "unfused"),
            (view.cycles.greedy, "fused by rule"),
            (view.cycles.heuristic, "by heuristic schedules"),
        )
        if other
    ][:2]
    operators = sum(len(row.operators) for row in view.groups)
    sizes = Markup(" It runs {} operators as {} programs.").format(operators, len(view.groups))
    return (
        text + Markup(": " if ratios else "") + Markup(" and ").join(ratios) + Markup(".") + sizes
    )


def _seconds(cycles: float, spec: HardwareSpec) -> str:
    seconds = cycles / spec.clock_hz
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _cards(view: SearchView) -> list[dict[str, Any]]:
    def card(
        title: str, note: str, costs: PlanCosts, show: Callable[[float], str]
    ) -> dict[str, Any]:
        return {"title": title, "note": note, "svg": Markup(plan_bars(title, costs, show))}

    def traffic(size: float) -> str:
        return f"{short(size)}B"

    figures = (
        ("Time", f"{view.scale.unit}, measured", view.cycles, view.scale.short),
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
    return f"Of {len(view.groups)} groups, the {SHOWN} slowest." if len(view.groups) > SHOWN else ""


def _cell(
    value: float | None, show: Callable[[float], str], is_signed: bool = False
) -> dict[str, Any]:
    if value is None or not math.isfinite(value):
        return {"value": "" if is_signed else -1, "text": "–"}
    return {"value": value, "text": show(value)}


def _table_row(row: GroupRow, view: SearchView) -> dict[str, Any]:
    total_cycles, cycles = sum(r.cycles for r in view.groups), view.scale.number

    def whole(value: float) -> str:
        return f"{value:,.0f}"

    return {
        "index": row.index,
        "reads": ", ".join(f"#{i}" for i in row.reads),
        "title": row.title,
        "names": ", ".join(row.names),
        "schedule": row.schedule,
        "interval": f"{cycles(row.low_cycles)} to {cycles(row.high_cycles)}",
        "saved": _cell(row.saved_cycles, cycles, is_signed=True),
        "bound": _cell(row.bound_cycles, cycles),
        "predicted": _cell(row.predicted_cycles, cycles),
        "measured": _cell(row.measured_cycles, cycles),
        "error": _cell(row.error, lambda e: f"{e:+.1%}", is_signed=True),
        "share": _cell(row.cycles / (total_cycles or 1.0), lambda s: f"{s:.1%}"),
        "dram": _cell(row.dram_bytes, whole),
        "energy": _cell(row.energy_fj, joules),
    }


def _front_row(row: FrontRow, view: SearchView) -> list[tuple[str, str]]:
    """Return (title, text) of every cell."""
    best = min(one.energy_delay for one in view.front)
    energy = [
        ("energy", f"{row.energy_fj / 1e9:,.1f} µJ"),
        ("energy-delay", f"{row.energy_delay / (best or 1.0):.3f}"),
    ]
    return [
        ("time", view.scale.text(row.cycles)),
        *(energy if row.energy_fj else ()),
        ("peak memory", f"{row.peak_bytes / 1024:,.0f} KiB"),
        ("groups", str(row.groups)),
        ("objective", row.objective),
        ("plan", row.plan_file or "–"),
    ]


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
