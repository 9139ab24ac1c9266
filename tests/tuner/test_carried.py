"""A search on a changed machine tries what its neighbour knew, one schedule after the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.schedule.fit import check
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.fusion import search
from autotune.tuner.legality import legal_nests
from autotune.tuner.machines.search_point import model_of
from autotune.tuner.options import SearchOptions
from autotune.tuner.result import GraphSearch
from autotune.tuner.study_storage import storage_for
from tests.tuner.search_case import residual

pytestmark = pytest.mark.slow  # searches

GRAPH = residual(1)
EDGE = load_spec("edge")
SLOW = replace(EDGE, dram=replace(EDGE.dram, bytes_per_cycle=EDGE.dram.bytes_per_cycle / 2))
SMALL = replace(EDGE, scratchpad=replace(EDGE.scratchpad, size_bytes=1 << 14))


def searched(
    folder: Path, spec: HardwareSpec, measure: int, strategy: str = "model"
) -> GraphSearch:
    options = SearchOptions(trials=20, measure=measure, workers=1, strategy=strategy)
    with Store.open(folder / "store.db") as store:
        storage = storage_for(None, store)
        machine = EmulatorTarget(spec)
        return search(GRAPH, machine, model_of(spec), options, store=store, storage=storage)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store that knows the edge machine."""
    folder = tmp_path_factory.mktemp("known")
    assert searched(folder, EDGE, 40).began_from == ""
    yield folder


def copied(known: Path, to: Path) -> Path:
    return Path(shutil.copytree(known, to))


def schedules(result: GraphSearch) -> list[tuple[str, str]]:
    groups = [g for g in result.found.groups if g.schedule is not None]
    return [(g.group.key, g.schedule.to_json()) for g in groups if g.schedule is not None]


@pytest.mark.parametrize("spec", [SLOW, SMALL], ids=["bandwidth", "scratchpad"])
def test_what_still_fits_is_measured_and_the_plan_is_no_dearer(
    spec: HardwareSpec, known: Path, tmp_path: Path
) -> None:
    result = searched(copied(known, tmp_path / "a"), spec, 40, "heuristic")
    assert result.began_from.startswith("edge was never measured: the search began from edge")
    assert result.heuristic is not None
    found, heuristic = result.found.measured_cycles, result.heuristic.measured_cycles
    assert found is not None and heuristic is not None and found <= heuristic
    for group in result.found.groups:
        nests = legal_nests(group.group, spec)
        if group.schedule is not None:
            assert nests is not None
            assert check(nests, group.schedule, spec.capacity, spec.cores) is None
    with Store.open(known / "store.db") as store:
        before = store.best_schedules(EDGE.profile_id)
    tried = {(r.group_key, r.schedule_json) for r in result.records}
    assert (spec is SMALL) or tried & set(before.items())


def test_a_machine_with_measurements_begins_from_its_own(known: Path, tmp_path: Path) -> None:
    folder = copied(known, tmp_path / "a")
    assert searched(folder, SLOW, 30, "heuristic").began_from
    assert searched(folder, SLOW, 30, "heuristic").began_from == ""


def test_equal_stores_give_equal_plans(known: Path, tmp_path: Path) -> None:
    first, again = (searched(copied(known, tmp_path / x), SLOW, 30) for x in ("a", "b"))
    assert schedules(first) == schedules(again)
    assert first.began_from == again.began_from


def test_a_budget_is_kept(known: Path, tmp_path: Path) -> None:
    result = searched(copied(known, tmp_path / "a"), SLOW, 9)
    assert result.heuristic is not None
    assert len(result.records) <= max(9, len(result.heuristic.groups))


@pytest.mark.parametrize("measure", [14, 40])
def test_a_strategy_tries_its_plan_before_all_else_that_a_neighbour_knew(
    measure: int, known: Path, tmp_path: Path
) -> None:
    result = searched(copied(known, tmp_path / "a"), SLOW, measure)
    cold = searched(tmp_path, SLOW, measure)
    assert result.began_from and not cold.began_from
    assert result.heuristic is not None
    first = result.history[0]
    assert first.cost is not None
    assert first.measurements <= len(result.heuristic.groups) + len(first.partition.groups)
    assert result.found.measured_cycles is not None and cold.found.measured_cycles is not None
    assert result.found.measured_cycles <= cold.found.measured_cycles


def test_the_plan_that_a_cold_search_begins_with_is_tried_too(known: Path, tmp_path: Path) -> None:
    result = searched(copied(known, tmp_path / "a"), SLOW, 80)
    cold = searched(tmp_path, SLOW, 80).history[0]
    assert len(result.history) > 2
    tried = {trial.partition: trial.cost for trial in result.history}
    assert tried[cold.partition] is not None
    assert result.found.measured_cycles is not None and cold.cost is not None
    assert result.found.measured_cycles <= cold.cost
