"""Exploration: the menu is near a search, the front is confirmed, and the page tells it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.cli.commands.explore import exploration_document
from autotune.errors import InputError
from autotune.report.explore_page import exploration_page
from autotune.store.store import Store
from autotune.targets.components import read_components
from autotune.targets.opening import load_spec
from autotune.targets.settings import Setting, with_settings
from autotune.tuner.machines.exploration import Exploration, ExploreOptions
from autotune.tuner.machines.explored import ExploreResult
from autotune.tuner.machines.front import non_dominated
from autotune.tuner.machines.menu import menu_of
from autotune.tuner.machines.search_point import PointOptions
from autotune.tuner.machines.space import Budget, Space
from autotune.tuner.progress import silent
from tests.tuner.search_case import residual

EDGE = load_spec("edge")
pytestmark = pytest.mark.slow  # a dozen searches

GRID = (
    *("matrix.rows,matrix.cols=8,16", "dram.bytes_per_cycle=6.4,12.8", "vector.lanes=16"),
    *("scratchpad.size_bytes=256Ki", "cores=1", "matrix.dataflow=os"),
)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ExploreResult:
    point = PointOptions(measure=32, workers=1, folder=tmp_path_factory.mktemp("points"))
    options = ExploreOptions(evaluations=8, confirmed=1, point=point)
    space = Space.around(EDGE, map(Setting.parse, GRID), read_components())
    with Store.memory() as store:
        return Exploration(space, [residual(1)], options, store).run()


def test_every_machine_is_priced_and_the_confirmed_front_beats_itself_nowhere(
    result: ExploreResult,
) -> None:
    assert len(result.priced) == 4
    costs = [one.costs for one in result.front]
    assert None not in costs and len(non_dominated(costs)) == len(costs)
    assert [c[0] for c in costs] == sorted(c[0] for c in costs)
    assert all(one.design.area_mm2 <= result.space.budget.area_mm2 for one in result.front)


def test_prices_are_near_what_the_emulator_counts(result: ExploreResult) -> None:
    assert 0 < result.prediction_error < 0.25


def test_machines_beyond_those_searched_are_counted_by_the_models_plans(
    result: ExploreResult,
) -> None:
    by_plan = [one for one in result.confirmed if not one.searched]
    assert by_plan and len(result.confirmed) <= len(result.priced)
    searched = [one for one in result.confirmed if one.searched]
    assert all(one.point.figures for one in (*by_plan, *searched))
    assert f"of which {len(searched)} by the plans of a search" in exploration_page(
        result, ["autotune", "explore"]
    )


def test_the_next_doubling_of_each_resource_is_told(result: ExploreResult) -> None:
    rows = {row[0]: row for row in result.doubling_rows()}
    assert set(rows) == {
        *("matrix.rows", "matrix.cols", "vector.lanes", "scratchpad.size_bytes"),
        *("dram.bytes_per_cycle", "cores"),
    }
    assert rows["dram.bytes_per_cycle"][2].startswith("-")
    assert all(row[4].startswith("+") for row in rows.values())


def test_the_page_and_the_document_tell_the_front(result: ExploreResult) -> None:
    page = exploration_page(result, ["autotune", "explore", "net.onnx"])
    for row in result.rows:
        assert all(cell in page for cell in row)
    assert "Horowitz" in page and "autotune explore net.onnx" in page
    document = json.loads(json.dumps(exploration_document(result)))
    assert len(document["front"]) == len(result.front) and len(document["priced"]) == 4


def test_machines_alike_in_every_column_are_one_row(result: ExploreResult) -> None:
    twice = replace(result, front=(*result.front, *result.front))
    assert twice.rows == result.rows
    assert len(set(result.rows[:-1])) == len(result.rows) - 1


def test_no_machine_within_the_budget_is_one_line(tmp_path: Path) -> None:
    options = ExploreOptions(evaluations=2, point=PointOptions(workers=1, folder=tmp_path))
    space = Space.around(EDGE, map(Setting.parse, GRID), read_components(), Budget(area_mm2=0.1))
    with Store.memory() as store, pytest.raises(InputError, match=r"no machine within 0\.1 mm²"):
        Exploration(space, [residual(1)], options, store).run()


def test_a_menu_mixes_the_plans_of_its_anchors() -> None:
    graph = residual(1)
    slow = with_settings(EDGE, {"dram.bytes_per_cycle": 1.6})
    menu = menu_of(graph, [EDGE, slow], 0, silent)
    both = menu.estimate(EDGE)
    alone = menu_of(graph, [EDGE], 0, silent).estimate(EDGE)
    assert both is not None and alone is not None
    assert both.cycles <= alone.cycles * 1.0001
    assert sorted(n for group in both.groups for n in group) == sorted(op.name for op in graph.ops)
    slower = menu.estimate(slow)
    assert slower is not None and slower.cycles > both.cycles
    assert menu.estimate(
        with_settings(EDGE, {"scratchpad.size_bytes": 1024})
    ) is None or np.isfinite(slower.energy_fj)
