"""The contract that every strategy keeps: within the measurements, no plan dearer than the heuristic one."""

import pytest

from autotune.tuner.fusion import search
from autotune.tuner.options import STRATEGY_NAMES, SearchOptions
from autotune.tuner.result import GraphSearch
from autotune.tuner.strategies.table import STRATEGIES
from tests.tuner.search_case import EDGE, calibrated, residual

pytestmark = pytest.mark.slow  # trains a model

GRAPH = residual(1)
MEASURE = 40


def found(name: str, **others: int) -> GraphSearch:
    options = SearchOptions(measure=MEASURE, strategy=name, workers=1, **others)
    return search(GRAPH, EDGE, calibrated()[0], options)


@pytest.fixture(scope="module", params=STRATEGY_NAMES)
def result(request: pytest.FixtureRequest) -> GraphSearch:
    return found(request.param)


def test_it_is_never_dearer_than_the_heuristic_plan(result: GraphSearch) -> None:
    assert result.heuristic is not None
    assert result.found.measured_cycles <= result.heuristic.measured_cycles
    assert result.found.measured_cycles <= result.unfused.measured_cycles


def test_it_takes_no_more_measurements_than_allowed(result: GraphSearch) -> None:
    assert len(result.records) <= MEASURE


def test_the_table_and_the_names_of_the_command_line_agree() -> None:
    assert tuple(STRATEGIES) == STRATEGY_NAMES
    assert all(name == strategy.name for name, strategy in STRATEGIES.items())


@pytest.mark.parametrize("name", ["random", "tpe"])
def test_seeds_repeat_a_search_and_differ(name: str) -> None:
    first, again, other = (
        [(r.group_key, r.schedule_json) for r in found(name, seed=seed).records]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_without_measurements_the_model_alone_prices_what_is_tried() -> None:
    options = SearchOptions(trials=5, measure=0, strategy="random", workers=1)
    result = search(GRAPH, EDGE, calibrated()[0], options)
    assert not result.records
    assert result.found.predicted_cycles <= result.greedy.predicted_cycles
