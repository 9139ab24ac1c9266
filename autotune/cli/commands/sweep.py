"""``autotune sweep``: what networks take on every combination of settings of a machine.

The way of the data: options → machines → search of every network on each → table, page.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_json, print_table, say
from autotune.cli.ending import PRINTED
from autotune.cli.options import (
    MOST_COUNTED,
    DimOption,
    JsonOption,
    NetworksArgument,
    PageOption,
    SeedOption,
    StoreOption,
    WorkersOption,
    complete_spec,
    dimensions,
)
from autotune.cli.progress import Report, progress
from autotune.disk.atomic_file import check_place
from autotune.tuner.options import DEFAULT_MEASURE
from autotune.tuner.progress import SEARCH_STAGES

if TYPE_CHECKING:
    from autotune.tuner.machines.figures import MachinePoint, Outcome
    from autotune.tuner.machines.sweep import Sweep, SweepResult

SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE,…",
        help="Values of a key of the spec, such as dram.bytes_per_cycle=12.8,25.6; repeatable: every "
        "combination is a machine. KEY,KEY=VALUE,… gives several keys the same value.",
    ),
]
BaseOption = Annotated[
    str,
    typer.Option(
        "--target",
        autocompletion=complete_spec,
        help="Machine to change: shipped spec or TOML file.",
    ),
]
PointMeasureOption = Annotated[
    int,
    typer.Option(
        "--measure", min=1, max=MOST_COUNTED, help="Measurements of a network on a machine."
    ),
]


def sweep(
    models: NetworksArgument,
    settings: SetOption,
    target: BaseOption,
    measure: PointMeasureOption = DEFAULT_MEASURE,
    out: PageOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    store: StoreOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Search networks on every combination of settings of a machine: one table, and one page.

    No machine is calibrated: the shipped model searches, the emulator confirms every figure. Ctrl-C prints
    what is done; run it again to go on.
    """
    page = Path("sweep.html") if out is None else out
    with progress(f"sweep of {target}", SEARCH_STAGES) as heard:
        from autotune.report.document import KIND as PAGE

        check_place(page, PAGE)
        result = _swept(
            models, settings, target, measure, dimensions(dim), seed, store, heard, workers
        )
    if not result.points:
        raise KeyboardInterrupt
    _write_page(result, page, [*models, "--target", target], measure, seed)
    if json:
        print_json(sweep_document(result))
    else:
        count = f"{len(result.points)} of {result.machines} machines"
        print_table(f"{result.base.name}, {count}", result.columns, result.rows)
    _say_findings(result)
    say(f"page: {page}")
    if not result.is_complete:
        raise typer.Exit(PRINTED)


def _swept(
    models: list[str],
    settings: list[str],
    target: str,
    measure: int,
    dims: dict[str, int],
    seed: int,
    store: str | None,
    heard: Report,
    workers: str | None,
) -> SweepResult:
    """Return the sweep, or what of it was done at Ctrl-C."""
    from autotune import api
    from autotune.tuner.machines.sweep import SweepResult

    plan: Sweep = api.planned_sweep(target, settings)
    points: list[MachinePoint] = []
    try:
        result: SweepResult = api.sweep(
            models,
            target,
            settings,
            measure,
            seed,
            dims,
            store=store,
            progress=heard,
            each=points.append,
            workers=workers,
        )
    except KeyboardInterrupt:
        return SweepResult(plan.base, plan.settings, tuple(points), len(plan.machines))
    return result


def _write_page(
    result: SweepResult, page: Path, arguments: list[str], measure: int, seed: int
) -> None:
    from autotune.report.machines_page import write_sweep

    command = ["autotune", "sweep", *arguments]
    for setting in result.settings:
        command += ["--set", setting.text]
    write_sweep(result, [*command, "--measure", str(measure), "--seed", str(seed)], page)


def _say_findings(result: SweepResult) -> None:
    """Tell why networks do not fit, and what is odd about machines."""
    from autotune.tuner.machines.figures import Unfit

    for point in result.points:
        for outcome in point.outcomes:
            if isinstance(outcome, Unfit):
                say(f"{point.spec.name}: {outcome.reason}")
    warnings = {warning: point.spec.name for point in result.points for warning in point.warnings}
    for warning, name in warnings.items():
        say(f"warning: {name}: {warning}")


def sweep_document(result: SweepResult) -> dict[str, Any]:
    """Return a sweep as JSON has it."""
    return {
        "target": result.base.name,
        "machines": result.machines,
        "complete": result.is_complete,
        "points": [point_document(point) for point in result.points],
    }


def point_document(point: MachinePoint) -> dict[str, Any]:
    """Return one machine with its figures as JSON has it."""
    return {
        "settings": dict(point.settings),
        "profile_id": point.spec.profile_id,
        "networks": [_outcome_document(outcome) for outcome in point.outcomes],
        "warnings": list(point.warnings),
    }


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    from autotune.tuner.machines.figures import NetworkFigures

    document = asdict(outcome)
    if not isinstance(outcome, NetworkFigures):
        return document
    return document | {"seconds": outcome.seconds, "busiest": outcome.bound}
