"""What is kept of rule schedules changes no choice, and nothing damaged or foreign is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.disk.source_version import source_files
from autotune.errors import ScheduleError
from autotune.runtime.caches.schedule_cache import DECIDING, cached_heuristic_plan, cached_schedules
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner import heuristic_plan
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.runtime import runtime_case as case
from tests.runtime.caches.import_closure import closure


def test_known_schedules_give_the_same_choices_and_none_is_sought_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, spec = case.network(), case.SPEC
    wanted = heuristic_choices(graph, spec)
    with cached_schedules(spec, tmp_path) as known:
        assert not known
        assert heuristic_choices(graph, spec, known) == wanted
    monkeypatch.setattr(heuristic_plan, "enumerate_on", None)  # calling it would raise
    with cached_schedules(spec, tmp_path) as known:
        assert heuristic_choices(graph, spec, known) == wanted


@pytest.mark.parametrize("memory", list(Memory))
def test_a_kept_plan_is_the_plan_and_nothing_is_fused_again(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, spec = case.network(), replace(case.SPEC, memory=memory)
    wanted = heuristic_choices(graph, spec)
    assert cached_heuristic_plan(graph, spec, tmp_path) == wanted
    monkeypatch.setattr(heuristic_plan, "greedy", None)  # calling it would raise
    assert cached_heuristic_plan(graph, spec, tmp_path) == wanted
    with pytest.raises(TypeError):
        cached_heuristic_plan(graph, replace(spec, cores=2), tmp_path)


def test_a_group_without_a_schedule_comes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    find = heuristic_plan.heuristic_schedule

    def alone(group: case.Group, spec: HardwareSpec) -> Schedule | None:
        return find(group, spec) if len(group.ops) == 1 else None

    monkeypatch.setattr(heuristic_plan, "heuristic_schedule", alone)
    found = heuristic_choices(case.network(), case.SPEC)
    assert {len(choice.group.ops) for choice in found} == {1}
    monkeypatch.setattr(heuristic_plan, "heuristic_schedule", lambda *_: None)
    with pytest.raises(ScheduleError, match="has no legal schedule on edge"):
        heuristic_choices(case.network(), case.SPEC)


def test_another_machine_has_schedules_of_its_own(tmp_path: Path) -> None:
    with cached_schedules(case.SPEC, tmp_path) as known:
        known["a group"] = None
    with cached_schedules(replace(case.SPEC, clock_hz=2 * case.SPEC.clock_hz), tmp_path) as known:
        assert not known
    with cached_schedules(case.SPEC, tmp_path) as known:
        assert known == {"a group": None}


def test_two_that_add_at_once_both_keep_theirs(tmp_path: Path) -> None:
    with (
        cached_schedules(case.SPEC, tmp_path) as first,
        cached_schedules(case.SPEC, tmp_path) as other,
    ):
        first["one"], other["another"] = None, None
    with cached_schedules(case.SPEC, tmp_path) as known:
        assert set(known) == {"one", "another"}


def test_damaged_files_are_as_good_as_none(tmp_path: Path) -> None:
    with cached_schedules(case.SPEC, tmp_path) as known:
        known["one"] = None
    (file,) = tmp_path.glob("*.object")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with cached_schedules(case.SPEC, tmp_path) as known:
        assert not known


def test_schedules_are_kept_under_the_sources_of_every_module_that_the_heuristic_imports() -> None:
    apart = ("errors.py", "display.py", "kernels/__init__.py", "kernels/emit/__init__.py")
    imported = {str(path) for path in closure(["autotune.tuner.heuristic_plan"])}
    missing = {path for path in imported if not path.endswith(apart)} - {*source_files(DECIDING)}
    assert not missing and len(imported) > 50
    assert not any("/passes/" in path for path in source_files(DECIDING))
