"""``autotune bench drift``: online learning while an emulated machine loses DRAM bandwidth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.options import JsonOption, TargetOption
from autotune.cli.progress import progress

if TYPE_CHECKING:
    from autotune.runtime.drift_demo import DriftSeries

COLUMNS = ("run", "DRAM", "prediction error", "cycles", "model", "plan")


def drift(
    plan: Annotated[Path, typer.Argument(help="Plan file of the network to run.")],
    target: TargetOption = None,
    bandwidth: Annotated[
        float, typer.Option("--bandwidth", min=0.05, max=4.0, help="Factor on DRAM bandwidth.")
    ] = 0.6,
    before: Annotated[int, typer.Option("--before", min=1, help="Runs before the cut.")] = 8,
    after: Annotated[int, typer.Option("--after", min=1, help="Runs after the cut.")] = 12,
    json: JsonOption = False,
) -> None:
    """Run online while the emulator's DRAM bandwidth is cut, and show model and plan follow."""
    from autotune import api
    from autotune.runtime.drift_demo import demonstrate_drift
    from autotune.runtime.session.defaults import choose_target
    from autotune.tuner.plan import Plan

    loaded = Plan.load(plan)
    machine = choose_target(target, plan)
    loaded.check_target(machine.spec)
    network = loaded.network_file.check() if loaded.network_file is not None else loaded.network
    spec = machine.spec
    graph = api.load_network(
        network, layout=spec.layout, accuracy=loaded.accuracy, formats=spec.formats
    )
    with api.opened(None) as store, progress(f"drift of {plan}") as report:
        series = demonstrate_drift(
            graph,
            machine,
            store,
            plan=loaded,
            runs_before=before,
            runs_after=after,
            dram_bandwidth=bandwidth,
            progress=lambda done, total: report("runs", done, total),
        )
    if json:
        print_json(_document(series))
    else:
        _print_series(series)


def _document(series: DriftSeries) -> dict[str, object]:
    document = asdict(series)
    document["events"] = [
        {"kind": e.kind.value, "run": e.run, "text": e.text, "figures": dict(e.figures)}
        for e in series.events
    ]
    return document


def _print_series(series: DriftSeries) -> None:
    rows = [
        (
            str(p.run),
            "cut" if p.derated else "",
            f"{p.error:.1%}",
            f"{p.cycles:,}",
            str(p.model_version),
            str(p.plan_version),
        )
        for p in series.points
    ]
    title = f"{series.network} on {series.target}, DRAM bandwidth × {series.dram_bandwidth:g}"
    print_table(title, COLUMNS, rows)
    last = series.points[-1].cycles
    print_facts(
        {
            "error before, worst, after": f"{series.error_before:.1%}, {series.error_at_worst:.1%}, "
            f"{series.error_after:.1%}",
            "first plan on the cut machine": f"{series.frozen_cycles:,} cycles",
            "plan at the end": f"{last:,} cycles ({last / series.frozen_cycles - 1:+.1%})",
        }
    )
    for event in series.events:
        say(f"run {event.run}: {event.kind.value}: {event.text}")
