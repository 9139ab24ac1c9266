"""Machines behind a function: how they are found, called, timed, and what they may not answer."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import InputError, ProgramError, SpecError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.lowering.exported import export_candidate
from autotune.operators.op import OpKind
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import plugin_target, target
from autotune.targets.plugins import registry
from autotune.targets.plugins.model_target import ExportedGroup, ModelTarget
from autotune.targets.protocol import ExclusiveTarget
from tests.targets.plugins import timing_functions as functions

FILE = Path(functions.__file__)


def exported() -> ExportedGroup:
    b = GraphBuilder("dense")
    product = b.add(OpKind.MATMUL, b.input("x", (8, 16)), b.constant(np.ones((16, 24))))
    graph = b.build([b.add(OpKind.RELU, product)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    return export_candidate(group, Schedule(()))


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})


def test_seconds_become_nanoseconds() -> None:
    machine = ModelTarget("mine", functions.by_size)
    cost = machine.time(exported())
    assert cost.cycles == round((1e-5 + 1e-9 * (8 * 16 + 8 * 24)) * 1e9)
    assert cost.counters["repeats"] > 1 and not cost.counters["noisy"]


def test_a_function_that_loads_first_is_repeated_without_loading_again() -> None:
    loads = []

    def time_model(model: bytes, inputs: object) -> object:
        loads.append(model)
        return lambda: 5e-4

    cost = ModelTarget("mine", time_model).time(exported())
    assert (cost.cycles, len(loads)) == (500_000, 1)
    assert cost.counters["repeats"] >= 8


@pytest.mark.parametrize(
    ("function", "reason"),
    (
        (functions.raises, "^RuntimeError: device lost at line 2$"),
        (functions.returns_nan, "returned nan, not seconds"),
        (functions.returns_negative, "returned -1.0, not seconds"),
        (functions.returns_text, "returned 'fast', not seconds"),
    ),
)
def test_what_is_no_time_fails_in_one_line(function: object, reason: str) -> None:
    with pytest.raises(ProgramError, match=reason):
        ModelTarget("mine", function).time(exported())


def test_failed_calls_are_made_again_and_counted() -> None:
    cost = ModelTarget("mine", functions.flaky).time(exported())
    assert cost.counters["failed_calls"] in (2, 3) and cost.remark == "RuntimeError: link busy"
    runs = ModelTarget("mine", functions.half_flaky_runs).time(exported())
    assert runs.cycles == 100_000 and runs.counters["failed_calls"] >= 2
    steady = ModelTarget("mine", functions.by_size).time(exported())
    assert (steady.counters["failed_calls"], steady.remark) == (0, "")


def test_what_succeeded_counts_when_later_calls_fail_for_good() -> None:
    answers = iter([2e-3])

    def once(model: bytes) -> float:
        return next(answers)

    cost = ModelTarget("mine", once).time(exported())
    assert (cost.cycles, cost.counters["repeats"]) == (2_000_000, 1)


@pytest.mark.parametrize("function", (functions.asks_for_more, lambda: 1.0, 3))
def test_a_function_of_other_arguments_is_refused(function: object) -> None:
    with pytest.raises(InputError, match=r"^target mine: "):
        ModelTarget("mine", function)


def test_a_function_that_asks_for_a_schedule_without_a_spec_is_refused() -> None:
    def time_model(model: bytes, schedule: object) -> float:
        return 1e-3

    with pytest.raises(InputError, match="has a spec"):
        ModelTarget("mine", time_model)


@pytest.mark.parametrize(
    ("function", "reason"),
    (
        (functions.takes_a_configuration, "a function that takes a configuration has parameters"),
        (functions.declares_nothing_legal, "parameter units is 4, not a list"),
    ),
)
def test_parameters_are_checked_when_the_machine_is_made(function: object, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^target mine: .*{reason}"):
        ModelTarget("mine", function)


def test_a_configuration_reaches_the_function() -> None:
    machine, group = ModelTarget("mine", functions.tuned), exported().model
    costs = {
        units: machine.time(ExportedGroup(group, {}, {"units": units, "layout": "rows"})).cycles
        for units in (1, 4)
    }
    assert costs[1] == pytest.approx(1.75 * costs[4], rel=1e-3)
    assert machine.profile_id != ModelTarget("mine", functions.by_results).profile_id


def test_it_is_timed_alone_by_worker_processes() -> None:
    machine = ModelTarget("mine", functions.by_size)
    assert isinstance(machine, ExclusiveTarget)
    with pytest.raises(ProgramError, match="runs no tile program"):
        machine.run(None, {})


def test_profiles_tell_machines_apart_by_name_and_identity() -> None:
    named = [("a", ""), ("b", ""), ("a", "driver 2")]
    ids = {ModelTarget(name, functions.by_size, identity).profile_id for name, identity in named}
    assert len(ids) == 3


def test_a_registered_function_opens_by_name_and_travels_to_other_processes() -> None:
    factor = 2

    def time_model(model: bytes) -> float:
        return factor * 1e-3

    made = registry.register_target("mine", time_model)
    assert plugin_target("mine") is made and "mine" in registry.plugin_names()
    copy = pickle.loads(pickle.dumps(made))
    assert copy.profile_id == made.profile_id and copy.time_model(b"") == 2e-3


def test_a_function_in_a_file_opens_by_path_and_reopens_by_it() -> None:
    machine = plugin_target(f"{FILE}:by_size")
    assert machine is not None and machine.name == f"{FILE}:by_size"
    assert pickle.loads(pickle.dumps(machine)).profile_id == machine.profile_id


@pytest.mark.parametrize(
    ("name", "reason"),
    (
        (f"{FILE}:nothing", "defines no nothing; it has .*by_size"),
        ("absent.py:f", "absent.py: no such file"),
        ("other", "no target is named 'other'.*plug-ins: ort"),
    ),
)
def test_an_unknown_machine_is_refused_with_the_way_out(name: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        target(name)


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    with pytest.raises(SpecError, match=r"broken\.py: cannot be run: ModuleNotFoundError"):
        plugin_target(f"{tmp_path}/broken.py:f")


@pytest.mark.parametrize(
    ("value", "reason"),
    (
        ("tests.targets.plugins.timing_functions:by_size", ""),
        ("no_such_package:f", "plug-in installed: no_such_package:f cannot be imported"),
    ),
)
def test_an_installed_package_brings_a_machine(
    value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "installed_target-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-target\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\ninstalled = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "installed" in registry.plugin_names()
    if reason:
        with pytest.raises(SpecError, match=reason):
            plugin_target("installed")
    else:
        machine = plugin_target("installed")
        assert machine is not None and machine.name == machine.origin == "installed"


def test_what_plans_or_runs_programs_refuses_a_machine_without_a_spec() -> None:
    registry.register_target("mine", functions.by_size)
    with pytest.raises(SpecError, match="mine times ONNX models and has no spec"):
        target("mine")


def test_the_shipped_machine_runs_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    machine = plugin_target("ort")
    assert machine is not None and machine.identity.startswith("onnxruntime ")
    assert machine.time(exported()).cycles > 0
