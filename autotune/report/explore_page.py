"""The page of an exploration: the front, what the next doubling buys, where areas come from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.disk.atomic_file import replace_file
from autotune.report.document import KIND
from autotune.report.front_plot import Disc, front_plot
from autotune.report.machines_page import render
from autotune.targets.settings import spelled_assignment, spelled_value
from autotune.tuner.machines.explored import DOUBLING_COLUMNS, ExploreResult
from autotune.tuner.machines.space import Design


def write_exploration(result: ExploreResult, command: Sequence[str], path: Path) -> None:
    """Write the page of an exploration that ``command`` repeats. Raises ``OSError`` naming ``path``."""
    replace_file(path, exploration_page(result, command).encode(), KIND)


def exploration_page(result: ExploreResult, command: Sequence[str]) -> str:
    """Return the page of an exploration as HTML text; nothing is loaded from elsewhere."""
    base = result.space.base
    return render(
        "explore.html",
        title=f"Machines for {', '.join(result.networks)}",
        base=base,
        lead=lead(result),
        plot=front_plot(list(_discs(result))),
        columns=result.columns,
        rows=result.rows,
        doubling_columns=DOUBLING_COLUMNS,
        doublings=list(result.doubling_rows()),
        fastest=spelled_assignment(dict(result.front[0].design.settings)) or base.name,
        components=_components(result),
        sources=result.space.components.sources,
        parameters=[
            (parameter.name, ", ".join(map(spelled_value, parameter.values)))
            for parameter in result.space.parameters
        ],
        command=shlex.join(command),
    )


def lead(result: ExploreResult) -> str:
    """Return in two sentences what was looked at."""
    budget, searched = result.space.budget, sum(one.searched for one in result.confirmed)
    return (
        f"The model priced {len(result.priced)} machines of at most {budget.area_mm2:,.3g} mm² and "
        f"{budget.watts:,.3g} W at their peak; the emulator ran {len(result.confirmed)}, of which "
        f"{searched} by the plans of a search; {len(result.front)} are the front. Predicted times were off by {result.prediction_error:.1%} in "
        "the mean."
    )


def _discs(result: ExploreResult) -> Iterator[Disc]:
    for priced in result.priced:
        if priced.costs is not None:
            yield _disc(result, priced.design, priced.costs, "tried", "predicted")
    for explored in result.front:
        if explored.costs is not None:
            yield _disc(result, explored.design, explored.costs, "point", "confirmed")
    if result.base.costs is not None:
        yield _disc(result, result.base.design, result.base.costs, "base", "the base")


def _disc(
    result: ExploreResult,
    design: Design,
    costs: tuple[float, float, float],
    style: str,
    word: str,
) -> Disc:
    seconds, joules, area = costs
    tip = f"{result.text(design)}\n{word}: {seconds * 1e3:.4g} ms, {joules * 1e6:.4g} µJ, {area:.3g} mm²"
    return Disc(seconds * 1e3, joules * 1e6, area, style, tip)


def _components(result: ExploreResult) -> list[tuple[str, str]]:
    table = result.space.components
    return [
        ("cell of the array", f"{table.cell_um2:,.0f} µm²"),
        ("vector lane", f"{table.lane_um2:,.0f} µm²"),
        ("byte of scratchpad", f"{table.scratchpad_byte_um2:,.2f} µm²"),
        ("rest of a core", f"{table.core_um2 / 1e6:,.2f} mm²"),
        ("10⁹ bytes a second of DRAM interface", f"{table.dram_gigabyte_um2 / 1e6:,.3f} mm²"),
        (
            "energy of a scratchpad's byte",
            f"with capacity to the {table.scratchpad_energy_exponent:g}",
        ),
        ("leakage and clock of a core", "with its area"),
    ]
