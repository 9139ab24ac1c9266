"""``autotune explore``: which machine within a budget to build for some networks.

The way of the data: options → space of machines → exploration → table, page.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.sweep import (
    BaseOption,
    PointMeasureOption,
    point_document,
)
from autotune.cli.console import print_json, print_table, say
from autotune.cli.options import (
    MOST_COUNTED,
    DimOption,
    JsonOption,
    NetworksArgument,
    PageOption,
    SeedOption,
    StoreOption,
    WorkersOption,
    dimensions,
)
from autotune.cli.progress import progress
from autotune.disk.atomic_file import check_place
from autotune.tuner.options import DEFAULT_MEASURE

if TYPE_CHECKING:
    from autotune.tuner.machines.explored import Explored, ExploreResult

AreaOption = Annotated[
    float | None,
    typer.Option("--area-mm2", help="Largest area. Without a budget: the area of the base."),
]
WattsOption = Annotated[
    float | None,
    typer.Option(
        "--watts", help="Most watts with every part at its peak. Without a budget: the base's."
    ),
]
ParameterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE,…",
        help="Values of a key to explore, in place of its own; one value holds it. Repeatable.",
    ),
]
EvaluationsOption = Annotated[
    int,
    typer.Option("--evaluations", min=1, max=MOST_COUNTED, help="Machines that the model prices."),
]
SecondsOption = Annotated[
    float | None, typer.Option("--seconds", min=0.001, help="Time for pricing, at most.")
]
ConfirmOption = Annotated[
    int,
    typer.Option(
        "--confirm", min=1, max=MOST_COUNTED, help="Machines of the front that are searched."
    ),
]
ComponentsOption = Annotated[
    Path | None,
    typer.Option("--components", help="TOML file of areas of parts. Default: 45 nm, with sources."),
]
STAGES = {"menus": 0.2, "price": 0.3, "count": 0.15, "confirm": 0.35}
"""Phases of an exploration with their shares of its time."""


def explore(
    models: NetworksArgument,
    target: BaseOption,
    area_mm2: AreaOption = None,
    watts: WattsOption = None,
    settings: ParameterOption = None,
    evaluations: EvaluationsOption = 200,
    seconds: SecondsOption = None,
    confirm: ConfirmOption = 12,
    measure: PointMeasureOption = DEFAULT_MEASURE,
    components: ComponentsOption = None,
    out: PageOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    store: StoreOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Explore machines around a base: the front of latency, energy and area for some networks.

    Optuna proposes, the shipped model prices, the emulator runs the front, searches improve it. Then the next
    doubling of each resource is searched.
    """
    page = Path("explore.html") if out is None else out
    with progress(f"explore around {target}", STAGES) as heard:
        from autotune import api
        from autotune.report.document import KIND as PAGE

        check_place(page, PAGE)
        result = api.explore(
            models,
            target,
            area_mm2=area_mm2,
            watts=watts,
            settings=settings or (),
            evaluations=evaluations,
            seconds=seconds,
            confirm=confirm,
            measure=measure,
            components=components,
            seed=seed,
            store=store,
            dims=dimensions(dim),
            progress=heard,
            workers=workers,
        )
    _write_page(result, page, [*models, "--target", target], seed)
    if json:
        print_json(exploration_document(result))
    else:
        _print_result(result)
    say(f"page: {page}")


def _write_page(result: ExploreResult, page: Path, arguments: list[str], seed: int) -> None:
    from autotune.report.explore_page import write_exploration

    budget, command = result.space.budget, ["autotune", "explore", *arguments]
    for option, value in (("--area-mm2", budget.area_mm2), ("--watts", budget.watts)):
        if math.isfinite(value):
            command += [option, f"{value:g}"]
    for parameter in result.space.own:
        command += ["--set", parameter.text]
    command += ["--evaluations", str(len(result.priced)), "--seed", str(seed)]
    write_exploration(result, command, page)


def _print_result(result: ExploreResult) -> None:
    from autotune.report.explore_page import lead
    from autotune.tuner.machines.explored import DOUBLING_COLUMNS

    print_table(
        f"front of {', '.join(result.networks)} around {result.space.base.name} (last row: the base)",
        result.columns,
        result.rows,
    )
    rows = list(result.doubling_rows())
    if rows:
        print_table("twice as much of one resource of the first machine", DOUBLING_COLUMNS, rows)
    say(lead(result))
    say(f"{result.priced_seconds:.0f} s for the model, {result.seconds:.0f} s in all")


def exploration_document(result: ExploreResult) -> dict[str, Any]:
    """Return an exploration as JSON has it."""
    budget = result.space.budget
    return {
        "target": result.space.base.name,
        "networks": list(result.networks),
        "budget": {
            name: value if math.isfinite(value) else None
            for name, value in (("area_mm2", budget.area_mm2), ("watts", budget.watts))
        },
        "priced": [
            {"settings": dict(one.design.settings), "seconds": one.seconds, "joules": one.joules,
             "area_mm2": one.design.area_mm2, "watts": one.design.watts}
            for one in result.priced
        ],
        "front": [_explored_document(one) for one in result.front],
        "base": _explored_document(result.base),
        "doublings": [
            {"key": one.key} | _explored_document(one.made) for one in result.doublings
        ],
        "prediction_error": result.prediction_error,
        "priced_seconds": result.priced_seconds,
        "seconds": result.seconds,
    }  # fmt: skip


def _explored_document(one: Explored) -> dict[str, Any]:
    seconds, joules = (None, None) if one.costs is None else one.costs[:2]
    return {
        "seconds": seconds,
        "joules": joules,
        "area_mm2": one.design.area_mm2,
        "watts": one.design.watts,
        "searched": one.searched,
    } | point_document(one.point)
