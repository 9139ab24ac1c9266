"""The view of a real search: figures of the page follow from its plans and measurements."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from autotune.cost_model.shipped import shipped_model
from autotune.report.document import render
from autotune.report.from_search import search_view
from autotune.report.view import SearchView, TimeScale
from autotune.report.waterfall import steps
from autotune.targets.opening import load_spec
from autotune.tuner.fusion import search
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions
from autotune.tuner.result import SearchResult
from tests.tuner.search_case import EDGE, residual

COMMAND = "autotune search residual.onnx --target edge --seed 3"


@cache
def searched(measure: int = 6) -> tuple[SearchResult, SearchView]:
    model = shipped_model(EDGE.spec)
    assert model is not None
    options = SearchOptions(trials=4, measure=measure, seed=3, workers=1)
    found = search(residual(size=8), EDGE, model, options)
    result = SearchResult.of([found], EDGE, Objective.LATENCY)
    return result, search_view(result, EDGE.spec, command=COMMAND)


@pytest.mark.slow
@pytest.mark.parametrize("measure", [6, 48])
def test_the_waterfall_leads_from_operators_apart_to_the_found_plan(measure: int) -> None:
    result, view = searched(measure)
    made = steps(view.groups)
    is_measured = result.unfused.measured_cycles is not None
    assert is_measured == (measure == 48), "few measurements leave no room for the unfused plan"
    for cycles, plan in ((made[0].start, result.unfused), (made[-1].end, result.found)):
        expected = plan.measured_cycles if is_measured else plan.predicted_cycles
        assert cycles == pytest.approx(expected)
    for before, after in itertools.pairwise(made):
        assert before.end == after.start
    assert [step.saved for step in made] == sorted((step.saved for step in made), reverse=True)


@pytest.mark.slow
def test_the_curve_falls_to_the_best_measured_plan() -> None:
    result, view = searched()
    (curve,) = view.curves
    costs = [cost for _, cost in curve.points]
    assert costs == sorted(costs, reverse=True)
    assert curve.points[-1][0] == result.measurements
    measured = [plan.measured_cycles for plan in result.plans.values()]
    assert costs[-1] == min(cycles for cycles in measured if cycles is not None)


@pytest.mark.slow
def test_the_page_tells_the_command_and_every_group() -> None:
    result, view = searched()
    page = render(view)
    assert COMMAND in page and "No candidate failed" in page
    for row in view.groups:
        assert f'<tr data-g="{row.index}" data-names="{", ".join(row.names)}"' in page
    assert f"{result.found.measured_cycles:,} cycles" in page


def test_machines_timed_by_their_clock_are_shown_in_time() -> None:
    cpu, edge = load_spec("cpu"), load_spec("edge")
    scale = TimeScale.of(cpu, cpu.clock_hz * 0.005)
    assert scale.text(cpu.clock_hz * 0.0025) == "2.5 ms"
    assert TimeScale.of(edge, 1e9).text(1234567) == "1,234,567 cycles"
