"""Pages of studies of machines: a sweep as bars and one table, in a single self-contained HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2

from autotune.disk.atomic_file import replace_file
from autotune.report.document import KIND
from autotune.report.machine_bars import Bar, machine_bars
from autotune.targets.settings import spelled_value
from autotune.tuner.machines.figures import MachinePoint, NetworkFigures
from autotune.tuner.machines.sweep import SweepResult


def write_sweep(result: SweepResult, command: Sequence[str], path: Path) -> None:
    """Write the page of a sweep that ``command`` repeats. Raises ``OSError`` naming ``path``."""
    replace_file(path, sweep_page(result, command).encode(), KIND)


def sweep_page(result: SweepResult, command: Sequence[str]) -> str:
    """Return the page of a sweep as HTML text; nothing is loaded from elsewhere."""
    networks = [outcome.network for outcome in result.points[0].outcomes]
    return render(
        "sweep.html",
        title=f"{', '.join(networks)} on {result.base.name} and its variants",
        lead=_lead(result),
        base=result.base,
        charts=[(network, _bars(result, number)) for number, network in enumerate(networks)],
        columns=result.columns,
        rows=result.rows,
        settings=len(result.settings),
        warnings=[(p.spec.name, warning) for p in result.points for warning in p.warnings],
        command=shlex.join(command),
    )


def render(template: str, **values: Any) -> str:
    """Return a page by its template."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("autotune.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template).render(version=version("autotune"), **values)


def settings_label(point: MachinePoint) -> str:
    """Return what sets a machine apart, in few words."""
    parts = (f"{key.rpartition('.')[2]} {spelled_value(value)}" for key, value in point.settings)
    return ", ".join(parts) or point.spec.name


def _lead(result: SweepResult) -> str:
    count = f"{len(result.points)} of {result.machines} machines"
    return (
        f"{count}. Every figure is of one run, counted by the emulator, of the best plan that a search with "
        "the shipped cost model found; no machine was calibrated."
    )


def _bars(result: SweepResult, number: int) -> str:
    bars = [_bar(point, number) for point in result.points]
    return machine_bars("Milliseconds of one run on every machine", bars)


def _bar(point: MachinePoint, number: int) -> Bar:
    outcome, label = point.outcomes[number], settings_label(point)
    if not isinstance(outcome, NetworkFigures):
        return Bar(label, None, "does not fit", outcome.reason)
    milliseconds = outcome.seconds * 1e3
    shares = ", ".join(f"{part} {share:.0%}" for part, share in outcome.use.items())
    text = f"{milliseconds:,.3f} ms, {outcome.bound}"
    return Bar(label, milliseconds, text, f"{label}\n{text}\nbusy: {shares}")
