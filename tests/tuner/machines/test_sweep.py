"""Sweeps: every figure is what a session of that machine counts, and what is done is done once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.report.machines_page import sweep_page
from autotune.schedule.schedule import Schedule
from autotune.store.store import Store
from autotune.targets.opening import load_spec
from autotune.targets.settings import Setting
from autotune.tuner.fusion import search
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.machines import search_point
from autotune.tuner.machines.confirmation import confirm
from autotune.tuner.machines.figures import MachinePoint, NetworkFigures, Unfit, speedup
from autotune.tuner.machines.search_point import PointOptions
from autotune.tuner.machines.sweep import Sweep, SweepResult
from autotune.tuner.progress import silent
from tests.tuner.search_case import chain, residual

EDGE = load_spec("edge")
OPTIONS = PointOptions(measure=16, workers=1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are kept in a folder of the test."""
    monkeypatch.setattr(search_point, "cache_folder", lambda: tmp_path)


def swept(*texts: str, graphs: Sequence[Graph], store: Store | None = None) -> SweepResult:
    plan = Sweep(EDGE, tuple(map(Setting.parse, texts)))
    with store or Store.memory() as records:
        points = tuple(plan.points(lambda layout: graphs, OPTIONS, records, silent))
    return SweepResult(plan.base, plan.settings, points, len(plan.machines))


def test_more_bandwidth_is_faster_until_another_part_is_the_bound() -> None:
    result = swept("dram.bytes_per_cycle=1.6,12.8,204.8", graphs=[residual(1)])
    figures = [point.figures for point in result.points]
    assert all(figures) and result.is_complete
    cycles = [one[0].cycles for one in figures if one is not None]
    assert cycles[0] > cycles[1] > cycles[2]
    slow = figures[0][0] if figures[0] else None
    assert slow is not None and slow.bound == "DRAM" and 0 < slow.array_use < 1
    assert [row[0] for row in result.rows] == ["1.6", "12.8", "204.8"]


def test_a_finished_machine_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text, graphs = "dram.bytes_per_cycle=6.4,12.8", [chain()]
    first = swept(text, graphs=graphs)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(f"{search_point.__name__}.search", refuse)
    again = swept(text, graphs=graphs)
    assert again.rows == first.rows
    assert [p.outcomes for p in again.points] == [p.outcomes for p in first.points]


def test_an_interrupted_sweep_has_given_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = search, []

    def second_is_interrupted(*args: object, **kwargs: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(f"{search_point.__name__}.search", second_is_interrupted)
    plan = Sweep(EDGE, (Setting.parse("cores=1,2"),))
    points: list[MachinePoint] = []
    with pytest.raises(KeyboardInterrupt), Store.memory() as store:
        points.extend(plan.points(lambda layout: [chain()], OPTIONS, store, silent))
    with Store.memory() as store:
        points = list(plan.points(lambda layout: [chain()], OPTIONS, store, silent))
    assert len(calls) == 3  # the first machine was kept
    assert len(points) == 2


def test_a_network_that_does_not_fit_is_a_row_with_its_reason() -> None:
    result = swept("scratchpad.size_bytes=1024,65536", graphs=[residual(1, size=28)])
    small, large = (point.outcomes[0] for point in result.points)
    assert isinstance(large, NetworkFigures)
    assert isinstance(small, Unfit) and "no legal schedule" in small.reason
    assert "does not fit" in result.rows[0]
    assert "does not fit" in sweep_page(result, ["autotune", "sweep"])


def test_the_fastest_of_the_given_schedules_counts() -> None:
    graph = residual(2)
    one = heuristic_choices(graph, EDGE)[0]
    assert one.schedule is not None
    slow = Schedule(tuple(replace(nest, tile=(1,) * len(nest.tile)) for nest in one.schedule.nests))
    pairs = ([slow], [one.schedule], [slow, one.schedule])
    worst, best, both = (confirm(graph, [(one.group, p)], EDGE, 1.0, workers=1) for p in pairs)
    assert both == best and worst.cycles > best.cycles


def test_confirmed_figures_are_sums_over_the_groups_of_a_plan() -> None:
    graph = residual(2)
    choices = [
        (one.group, [one.schedule]) for one in heuristic_choices(graph, EDGE) if one.schedule
    ]
    whole = confirm(graph, choices, EDGE, 1.0, workers=1)
    parts = [confirm(graph, [choice], EDGE, 1.0, workers=1) for choice in choices]
    assert whole.cycles == sum(part.cycles for part in parts)
    assert whole.energy_fj == sum(part.energy_fj for part in parts)
    assert whole.groups == len(choices)
    assert speedup([whole], [whole]) == 1.0


def test_settings_are_checked_before_anything_is_searched() -> None:
    with pytest.raises(InputError, match="too many"):
        values = ",".join(map(str, range(1, 65)))
        Sweep(
            EDGE,
            tuple(
                Setting.parse(f"{key}={values}") for key in ("cores", "vector.lanes", "matrix.rows")
            ),
        )


def test_the_page_tells_every_figure_and_how_to_repeat_it() -> None:
    result = swept("cores=1,2", graphs=[chain()])
    page = sweep_page(result, ["autotune", "sweep", "my net.onnx", "--set", "cores=1,2"])
    assert page.startswith("<!doctype html>") and "http" not in page.replace(
        "http://www.w3.org", ""
    )
    assert "autotune sweep &#39;my net.onnx&#39; --set cores=1,2" in page
    for row in result.rows:
        assert all(cell in page for cell in row)
