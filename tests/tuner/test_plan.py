"""Plan files: lossless, atomic, and refused in one line when they do not fit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import InputError, PlanError
from autotune.graph.accuracy import Accuracy
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.opening import load_spec
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import NetworkFile, Plan
from tests.tuner.search_case import EDGE, chain, residual

GRAPH = chain(3)
OLD_PLANS = Path(__file__).parent / "old_plans"


def plan() -> Plan:
    schedule = Schedule((NestSchedule((4, 32), (0, 1), (), 2, 1),))
    names = [op.name for op in GRAPH.ops]
    first, second = GRAPH.ops[1].output, GRAPH.ops[2].output
    groups = (
        PlannedGroup(tuple(names[:2]), (first,), schedule, 100.5, 101, 7, 8),
        PlannedGroup((names[2],), (second,), schedule, 50.25, 49, 5, 4),
    )
    return Plan(
        (GraphPlan(GRAPH.name, GRAPH.fingerprint, groups),),
        NetworkFile("net.onnx", "0" * 64),
        "edge",
        EDGE.spec.profile_id,
        Objective.LATENCY,
    )


def with_groups(*groups: PlannedGroup) -> Plan:
    return replace(plan(), graphs=(replace(plan().graphs[0], groups=groups),))


def test_a_saved_plan_loads_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    plan().save(path)
    assert Plan.load(path) == plan()
    assert [p.name for p in tmp_path.iterdir()] == ["a.plan"]


def test_a_plan_without_file_or_measurements_loads_as_it_was(tmp_path: Path) -> None:
    groups = (
        replace(g, schedule=None, measured_cycles=None, energy_fj=None, dram_bytes=None)
        for g in plan().groups
    )
    bare = replace(with_groups(*groups), network_file=None)
    bare.save(tmp_path / "a.plan")
    assert Plan.load(tmp_path / "a.plan") == bare


def test_totals_are_sums_and_none_where_something_was_not_measured() -> None:
    whole = plan()
    assert (whole.predicted_cycles, whole.measured_cycles) == (150.75, 150)
    assert (whole.energy_fj, whole.dram_bytes) == (12, 12)
    open_ = with_groups(whole.groups[0], replace(whole.groups[1], measured_cycles=None))
    assert open_.measured_cycles is None


def test_plans_of_several_graphs_load_as_they_were(tmp_path: Path) -> None:
    body = GraphPlan("chain/body", "f" * 64, plan().groups[:1])
    tree = replace(plan(), graphs=(*plan().graphs, body))
    tree.save(tmp_path / "a.plan")
    assert Plan.load(tmp_path / "a.plan") == tree
    assert tree.network == "net"
    assert tree.measured_cycles == 251
    with pytest.raises(InputError, match="for a network with control flow"):
        tree.only_graph()


def test_plans_of_older_versions_load() -> None:
    one = Plan.load(OLD_PLANS / "graph_schema_1.plan")
    ranges = (("x", (0.0, 1.0)),)
    new = replace(plan(), dims=(("batch", 2),), ranges=ranges, accuracy=Accuracy.CLOSE)
    assert one == replace(new, profile_id=one.profile_id, graphs=one.graphs)
    assert one.groups == plan().groups
    tree = Plan.load(OLD_PLANS / "tree_schema_1.plan")
    assert [graph.graph for graph in tree.graphs] == [GRAPH.name, "chain/body"]
    assert [len(graph.groups) for graph in tree.graphs] == [2, 1]
    assert tree.network_file == plan().network_file
    assert tree.dims == (("batch", 2),)
    assert Plan.from_json(tree.to_json()) == tree


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: p.update(schema=99), "schema 99"),
        (lambda p: p.pop("schema"), "no schema version"),
        (lambda p: p["graphs"][0].pop("groups"), "'groups' is missing"),
        (lambda p: p["graphs"][0].update(groups=[]), "no groups"),
        (lambda p: p["graphs"][0].update(groups=7), "not a plan"),
        (lambda p: p.update(graphs=[]), "none of its graphs has a plan"),
        (lambda p: p.update(objective="speed"), "not a plan"),
        (
            lambda p: p["graphs"][0]["groups"][0].update(schedule=[[[0], [0], [], 2, 1]]),
            "must be ≥ 1",
        ),
        (lambda p: p["graphs"][0]["groups"][0].update(predicted_cycles="many"), "not a plan"),
        (
            lambda p: p["graphs"][0]["groups"][0].update(predicted_cycles=float("nan")),
            "not a number of cycles",
        ),
    ],
)
def test_a_broken_plan_is_refused_with_its_place(tmp_path: Path, change, reason) -> None:
    plain = json.loads(plan().to_json())
    change(plain)
    path = tmp_path / "a.plan"
    path.write_text(json.dumps(plain))
    with pytest.raises(PlanError, match=reason) as caught:
        Plan.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"3"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.plan"
    path.write_bytes(text)
    with pytest.raises(PlanError, match="not a plan"):
        Plan.load(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        Plan.load(tmp_path / "none.plan")
    with pytest.raises(PlanError, match="cannot be read"):
        NetworkFile.of(tmp_path / "none.onnx")


def test_a_plan_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="there is no folder"):
        plan().save(tmp_path / "missing" / "a.plan")
    assert not list(tmp_path.iterdir())


def test_another_machine_or_network_is_refused() -> None:
    plan().check_target(EDGE.spec)
    plan().graphs[0].check_graph(GRAPH)
    with pytest.raises(PlanError, match="hardware profile"):
        plan().check_target(load_spec("mobile"))
    with pytest.raises(PlanError, match="plan is for network chain"):
        plan().graphs[0].check_graph(residual(1))
    with pytest.raises(PlanError, match="no group holds"):
        with_groups(plan().groups[0]).graphs[0].check_graph(GRAPH)


def test_a_changed_network_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"one")
    file = NetworkFile.of(path)
    assert file.check() == path
    path.write_bytes(b"two")
    with pytest.raises(PlanError, match="has changed"):
        file.check()
