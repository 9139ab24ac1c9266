"""The emulator with a physical state: exact when off, closed forms when on, one history per machine."""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest

from autotune.errors import SpecError
from autotune.isa.program import Role
from autotune.measure.packing import pack
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.physical import Drift, PhysicalSpec, PhysicalState, noise_factor
from autotune.targets.spec import HardwareSpec
from tests.targets.machine_case import PLAIN, fill, load, loop, program, store, tensor

ELEMENTS = 16 * 256  # 256 bursts of 64 bytes: 16 rows of 16 bursts
X, Y = tensor("x", ELEMENTS), tensor("y", ELEMENTS, role=Role.OUTPUT)
LOAD = program(load(0, 0, ELEMENTS), tensors=(X,), elements=ELEMENTS)
COPY = program(
    load(0, 0, ELEMENTS, signal0=1), store(1, 0, ELEMENTS, wait0=1), tensors=(X, Y),
    elements=ELEMENTS,
)  # fmt: skip
FREE_ROWS = replace(PLAIN, dram=replace(PLAIN.dram, activate_cycles=0))


def with_physics(spec: HardwareSpec = PLAIN, **numbers: float) -> HardwareSpec:
    return replace(spec, physical=PhysicalSpec(**numbers))


HOT = with_physics(
    ambient_celsius=20.0, thermal_resistance_kelvin_per_watt=30.0,
    thermal_capacity_joule_per_kelvin=1e-6, throttle_celsius=60.0, release_celsius=40.0,
    throttle_clock=0.5,
)  # fmt: skip
"""COPY takes about 6 µs of it; its time constant is 30 µs."""


def test_a_machine_without_physics_keeps_no_state_and_costs_the_same_always() -> None:
    plain, sourced = EmulatorTarget(PLAIN), EmulatorTarget(with_physics(noise_seed=3))
    first = plain.time(COPY)
    assert all(machine.time(COPY) == first for machine in (plain, sourced) for _ in range(5))
    assert first.cycles == first.counters["cycles"]
    assert plain.physical_state is None
    assert sourced.physical_state is None
    assert sourced.spec.profile_id == PLAIN.profile_id


def test_physics_that_is_off_is_no_part_of_the_hardware_profile() -> None:
    numbers = {
        key: value
        for key, value in asdict(PLAIN).items()
        if key
        not in (
            "name",
            "description",
            "sources",
            "physical",
            "layout",
            "tile_multiple",
            "memory",
            "identity",
        )
    }
    numbers["dram"].pop("converts_fp16")  # these two cost nothing
    numbers["scratchpad"].pop("accumulator_bytes")
    without_the_section = hashlib.sha256(repr(sorted(numbers.items())).encode()).hexdigest()[:16]
    assert PLAIN.profile_id == without_the_section
    assert HOT.profile_id != PLAIN.profile_id


@pytest.mark.parametrize("clock", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("bandwidth", [0.25, 0.5, 1.0])
def test_drifted_time_of_a_transfer_is_its_closed_form(clock: float, bandwidth: float) -> None:
    machine = EmulatorTarget(FREE_ROWS)
    machine.drift(Drift(dram_bandwidth=bandwidth, clock=clock))
    found = machine.time(LOAD)
    # bursts take seconds, whatever the core's clock; dispatch and set-up take the core's cycles
    data = 256 * 8 * clock / bandwidth
    core = found.counters["cycles"] - data
    assert found.counters["dram_data_cycles"] == data
    assert core == PLAIN.dram.setup_cycles + PLAIN.control.dispatch_cycles
    assert found.cycles == round(256 * 8 / bandwidth + core / clock)


def test_a_slower_core_computes_the_same_numbers_and_counts() -> None:
    machine = EmulatorTarget(PLAIN)
    before = machine.time(COPY)
    machine.drift(Drift(clock=0.8, noise=0.1))
    x = np.arange(ELEMENTS, dtype=np.float32)
    execution, got = machine.run(COPY, {"x": x})
    np.testing.assert_array_equal(got["y"], x)
    assert execution.dram_bytes == before.dram_bytes
    assert execution.counters["dram_row_misses"] == before.counters["dram_row_misses"]
    machine.drift(Drift())
    assert machine.time(COPY) == before
    assert machine.physical_state is None


def test_the_machine_heats_by_its_own_power_to_the_steady_state() -> None:
    spec = replace(HOT, physical=replace(HOT.physical, throttle_clock=1.0))
    machine = EmulatorTarget(spec)
    cost = machine.time(COPY)
    watts = cost.energy_fj * 1e-15 * spec.clock_hz / cost.cycles
    for _ in range(200):
        assert machine.time(COPY) == cost
    state = machine.physical_state
    assert state is not None
    assert state.temperature_celsius == pytest.approx(20.0 + watts * 30.0, rel=1e-9)
    assert state.run_seconds == pytest.approx(201 * cost.cycles / spec.clock_hz)
    assert state.measurements == 201


def test_throttling_holds_until_the_core_has_cooled_to_release() -> None:
    compute = program(*loop(100, fill()))
    cost = EmulatorTarget(PLAIN).time(compute)
    seconds = cost.cycles / PLAIN.clock_hz
    watts = cost.energy_fj * 1e-15 / seconds
    # settles at 100 °C, and at 60 °C when throttled, where the same energy takes twice as long
    spec = replace(HOT, physical=replace(
        HOT.physical, thermal_resistance_kelvin_per_watt=80 / watts,
        thermal_capacity_joule_per_kelvin=20 * seconds * watts / 80,
        throttle_celsius=80.0, release_celsius=70.0,
    ))  # fmt: skip
    machine, throttled, temperatures = EmulatorTarget(spec), [], []
    for _ in range(200):
        temperatures.append(_temperature(machine))
        found = machine.time(compute)
        assert found.counters == cost.counters
        assert found.cycles in (cost.cycles, 2 * cost.cycles)
        throttled.append(found.cycles == 2 * cost.cycles)
    for (was, now), celsius in zip(pairwise(throttled), temperatures[1:], strict=True):
        assert now == (celsius >= 80.0 or (was and celsius > 70.0))
    assert sum(was != now for was, now in pairwise(throttled)) >= 6
    assert max(temperatures) < 82


def _temperature(machine: EmulatorTarget) -> float:
    assert machine.physical_state is not None
    return machine.physical_state.temperature_celsius


def test_aging_shows_in_the_time_of_a_transfer() -> None:
    spec = with_physics(FREE_ROWS, bandwidth_aging_per_hour=0.5)
    machine = EmulatorTarget(spec)
    new = machine.time(LOAD)
    machine._state = PhysicalState(20.0, run_seconds=2 * 3600.0)
    old = machine.time(LOAD)
    assert old.cycles - new.cycles == 3 * new.counters["dram_data_cycles"]


def test_noise_multiplies_the_time_and_nothing_else_and_a_seed_repeats_it() -> None:
    exact = EmulatorTarget(PLAIN).time(COPY)
    noisy = with_physics(noise=0.05, noise_seed=11)
    found, again = ([m.time(COPY) for _ in range(50)] for m in map(EmulatorTarget, (noisy, noisy)))
    assert found == again
    factors = [noise_factor(noisy.physical, PhysicalState(20.0, measurements=i)) for i in range(50)]
    assert [cost.cycles for cost in found] == [round(exact.cycles * factor) for factor in factors]
    assert all(replace(cost, cycles=exact.cycles) == exact for cost in found)


def test_threads_share_one_history() -> None:
    spec = replace(HOT, physical=replace(HOT.physical, noise=0.02))
    alone, shared = EmulatorTarget(spec), EmulatorTarget(spec)
    want = sorted(alone.time(COPY).cycles for _ in range(100))
    with ThreadPoolExecutor(4) as pool:
        found = sorted(cost.cycles for cost in pool.map(shared.time, [COPY] * 100))
    assert found == want
    assert shared.physical_state == alone.physical_state


def test_a_pickled_machine_goes_on_where_it_stands() -> None:
    machine = EmulatorTarget(replace(HOT, physical=replace(HOT.physical, noise=0.02)), "mine")
    machine.drift(Drift(dram_bandwidth=0.5, clock=0.9, temperature_celsius=55.0))
    for _ in range(3):
        machine.time(COPY)
    copy: EmulatorTarget = pickle.loads(pickle.dumps(machine))
    assert (copy.name, copy.spec, copy.physical_state) == (
        "mine",
        machine.spec,
        machine.physical_state,
    )
    assert [copy.time(COPY) for _ in range(9)] == [machine.time(COPY) for _ in range(9)]


def test_a_machine_with_a_history_is_not_copied_to_worker_processes() -> None:
    machine = EmulatorTarget(PLAIN)
    assert pack(machine) is not None
    machine.drift(Drift(noise=0.1))
    assert pack(machine) is None
    machine.drift(Drift(dram_bandwidth=0.5, clock=0.5))
    assert pack(machine) is not None


def test_a_temperature_can_be_set_and_throttles_at_once() -> None:
    machine = EmulatorTarget(HOT)
    machine.drift(Drift(temperature_celsius=85.0))
    assert machine.physical_state == PhysicalState(85.0, throttled=True)
    cost = machine.time(COPY)
    assert cost.cycles == 2 * cost.counters["cycles"]
    machine.derate(0.5)  # leaves the temperature alone
    assert machine.physical_state is not None
    assert machine.physical_state.measurements == 1
    with pytest.raises(SpecError, match="85 on plain, which does not heat; give its spec"):
        EmulatorTarget(PLAIN).drift(Drift(temperature_celsius=85.0))
