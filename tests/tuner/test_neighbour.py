"""A new machine begins from the nearest one that was measured, schedule by schedule."""

from __future__ import annotations

from dataclasses import replace

from autotune.fusion.group import Group, layer
from autotune.store.records import Record
from autotune.store.store import Store, StoredProfile
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.heuristic_plan import heuristic_schedule
from autotune.tuner.neighbour import (
    FARTHEST,
    Neighbour,
    machine_distance,
    nearest_machine,
    remember_machine,
)
from autotune.tuner.objective import Objective
from tests.store.store_case import record

EDGE = load_spec("edge")
GROUP = layer("matmul", a=(64, 64), b=(64, 64))


def with_bandwidth(factor: float) -> HardwareSpec:
    dram = replace(EDGE.dram, bytes_per_cycle=EDGE.dram.bytes_per_cycle * factor)
    return replace(EDGE, dram=dram)


def measured(spec: HardwareSpec, group: Group = GROUP) -> Record:
    schedule = heuristic_schedule(group, spec)
    assert schedule is not None
    text = schedule.to_json()
    return record(5, "search", spec.profile_id, group_key=group.key, schedule_json=text)


def store_of(*specs: HardwareSpec) -> Store:
    store = Store.memory()
    for spec in specs:
        remember_machine(store, EmulatorTarget(spec))
        store.add([measured(spec)])
    return store


def nearest(store: Store, spec: HardwareSpec = EDGE) -> Neighbour | None:
    return nearest_machine(store, spec, Objective.LATENCY, [GROUP.key])


def test_distance_is_that_of_the_numbers_and_nothing_else() -> None:
    assert machine_distance(EDGE, replace(EDGE, name="other", description="x")) == 0
    half, quarter = with_bandwidth(0.5), with_bandwidth(0.25)
    assert 0 < machine_distance(EDGE, half) < machine_distance(EDGE, quarter) < FARTHEST
    assert machine_distance(EDGE, half) == machine_distance(half, EDGE)
    other = replace(EDGE, matrix=replace(EDGE.matrix, dataflow="is"))
    assert machine_distance(EDGE, other) > 0


def test_the_nearest_machine_with_a_measured_group_is_taken() -> None:
    with store_of(with_bandwidth(0.25), with_bandwidth(0.5)) as store:
        found = nearest(store)
        assert found is not None
        assert found.profile_id == with_bandwidth(0.5).profile_id
        assert found.spec == with_bandwidth(0.5)
        assert nearest_machine(store, EDGE, Objective.LATENCY, ["another group"]) is None


def test_a_machine_is_no_neighbour_of_itself_nor_of_machines_of_another_kind() -> None:
    other = replace(EDGE, layout="channels_last")
    with store_of(EDGE, other) as store:
        assert nearest(store) is None


def test_far_and_unreadable_machines_are_left_out() -> None:
    spec = replace(with_bandwidth(1e-3), cores=64, vector=replace(EDGE.vector, lanes=65536))
    spec = replace(spec, control=replace(EDGE.control, dispatch_cycles=1000))
    spec = replace(spec, scratchpad=replace(EDGE.scratchpad, size_bytes=1 << 28, banks=4096))
    assert machine_distance(EDGE, spec) > FARTHEST
    with store_of(spec) as store:
        assert nearest(store) is None
    with store_of(with_bandwidth(0.5)) as store:
        profile = with_bandwidth(0.5).profile_id
        for text in ("", "[]", "{}", '{"name":"a","identity":"","machine":{}}'):
            store.save_profile(StoredProfile(profile, "edge", text))
            assert nearest(store) is None
