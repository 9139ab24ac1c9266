"""Machines behind a function that takes schedules: how they are opened, timed, told apart, and refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from autotune.errors import InputError, ProgramError, SpecError
from autotune.fusion.group import layer
from autotune.lowering.exported import export_candidate
from autotune.lowering.lower import lower
from autotune.measure.runner import lowering_for
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, plugin_target, target
from autotune.targets.plugins import registry
from autotune.targets.plugins.model_target import ExportedGroup, ModelTarget
from autotune.targets.plugins.scheduled_target import ScheduledTarget
from tests.targets.plugins import scheduled_functions as functions

FILE = Path(functions.__file__)
GROUP = layer("relu", (4, 8))
SCHEDULE = Schedule((NestSchedule((2, 8), (0, 1), (), buffers=1),))


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})


def exported() -> ExportedGroup:
    return export_candidate(GROUP, SCHEDULE, load_spec("edge"))


def test_a_function_gets_the_decisions_of_each_nest() -> None:
    (nest,) = exported().schedule
    assert (nest["shape"], nest["tile"], nest["order"], nest["buffers"]) == (
        (4, 8),
        (2, 8),
        (0, 1),
        1,
    )
    outputs = onnx.load_from_string(exported().model).graph.output
    assert [one.name for one in outputs] == [nest["result"]]


def test_a_schedule_of_another_group_is_refused() -> None:
    other = Schedule((NestSchedule((2,), (0,), ()),))
    machine = ScheduledTarget.of("mine", functions.tiled)
    with pytest.raises(Exception, match="another group"):
        export_candidate(GROUP, other, machine.spec)


def test_seconds_become_cycles_of_the_stated_clock() -> None:
    def time_model(model: bytes, schedule: list[dict[str, Any]]) -> float:
        return 1e-6 * np.prod(schedule[0]["tile"])

    for clock_hz in (1e9, 2.5e8):
        time_model.spec = replace(load_spec("edge"), clock_hz=clock_hz)  # type: ignore[attr-defined]
        machine = ScheduledTarget.of("mine", time_model)
        assert machine.time(exported()).cycles == round(16e-6 * clock_hz)


def test_measurements_of_different_machines_never_mix() -> None:
    machines = [
        ScheduledTarget.of("one", functions.tiled),
        ScheduledTarget.of("two", functions.tiled),
        ScheduledTarget.of("one", functions.tiled, "driver 2"),
    ]
    profiles = {one.spec.profile_id for one in machines} | {load_spec("edge").profile_id}
    assert len(profiles) == 4


def test_it_opens_by_file_and_by_name_and_travels_to_other_processes() -> None:
    machine = target(f"{FILE}:tiled")
    assert isinstance(machine, ScheduledTarget) and plugin_target(f"{FILE}:tiled") is None
    assert load_spec(f"{FILE}:tiled") == machine.spec
    registered = registry.register_target("mine", functions.tiled)
    assert target("mine") is registered
    for one in (machine, registered):
        again = pickle.loads(pickle.dumps(one))
        assert (
            again.spec == one.spec and again.time(exported()).cycles == one.time(exported()).cycles
        )


def test_an_object_that_runs_programs_opens_by_file() -> None:
    machine = target(f"{FILE}:machine")
    assert machine.name == "counted" and lowering_for(machine) is lower
    program = lower(GROUP, SCHEDULE, machine.spec)
    assert machine.time(program).cycles == 10 * sum(map(len, program.streams))


def test_only_machines_that_take_models_get_them() -> None:
    assert lowering_for(ScheduledTarget.of("mine", functions.tiled)) is not lower
    assert lowering_for(EmulatorTarget(load_spec("edge"))) is lower


def test_it_runs_no_program() -> None:
    with pytest.raises(ProgramError, match="no tile program"):
        ScheduledTarget.of("mine", functions.tiled).run(None, {})


@pytest.mark.parametrize(
    ("name", "reason"),
    (
        ("without_spec", "has a spec"),
        ("without_schedule", "takes a schedule"),
        ("of_a_cpu", "with a scratchpad"),
    ),
)
def test_functions_that_fit_neither_kind_are_refused_in_one_line(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        target(f"{FILE}:{name}")
    assert "\n" not in str(refused.value)


def test_a_spec_that_does_not_exist_is_named() -> None:
    def time_model(model: bytes, schedule: object) -> float:
        return 1e-3

    time_model.spec = "nowhere.toml"  # type: ignore[attr-defined]
    with pytest.raises(SpecError, match="nowhere"):
        ScheduledTarget.of("mine", time_model)


def test_a_function_without_spec_stays_a_machine_of_groups() -> None:
    assert isinstance(registry.register_target("plain", lambda model: 1e-3), ModelTarget)
