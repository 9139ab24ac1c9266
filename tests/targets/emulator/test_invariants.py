"""What holds of every run: cycles, traffic and energy add up in every view, however it is taken."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
from hypothesis import given

from autotune.isa.program import Program, Role
from autotune.kernels.emulator.engine import Loaded
from autotune.kernels.emulator.outcome import By, Outcome
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.emulator.counters import COUNTERS, PART_COUNTERS, causes_of
from autotune.targets.emulator.reading import UNITS
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from tests.targets.drawn_program import (
    PARAMETER,
    TENSORS,
    VALUES,
    drawn_programs,
    machines,
    specialised,
)

EVERY_EVENT = 1 << 20
OVERLAPPING = {"cycles": max, "scratchpad_peak_bytes": max}
FEEDS = {
    row.name: np.zeros(row.shape, ARRAY_TYPES[row.format])
    for row in TENSORS
    if row.role is not Role.OUTPUT
}


@given(drawn_programs(), machines(), VALUES)
def test_every_cycle_of_every_unit_is_booked_once(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    found = dict(EmulatorTarget(spec).time(case, {PARAMETER: value}).counters)
    for unit in UNITS:
        spent = sum(found[f"{unit}_{cause}_cycles"] for cause in causes_of(unit))
        assert spent + found[f"{unit}_idle_cycles"] == found["core_cycles"]
    parts = ("busy", "full", "semaphore", "idle")
    assert sum(found[f"sequencer_{part}_cycles"] for part in parts) == found["core_cycles"]
    negative = {name: number for name, number in found.items() if number < 0}
    assert not negative


@given(drawn_programs(), machines(), VALUES)
def test_marks_and_instructions_add_up_to_the_program(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    profile = EmulatorTarget(spec).profile(case, parameters={PARAMETER: value})
    whole = profile.execution.counters
    instructions = [one.counters for one in profile.instructions]
    for parts in (list(profile.marks.values()), instructions):
        for name in PART_COUNTERS:
            found = OVERLAPPING.get(name, sum)(part[name] for part in parts)
            assert found == whole[name] or (name == "cycles" and found <= whole[name]), name


@given(drawn_programs(), machines(), VALUES)
def test_instructions_and_components_add_up_to_the_energy(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    profile = EmulatorTarget(spec).profile(case, parameters={PARAMETER: value})
    ledger, whole = profile.ledger, profile.execution
    views = ledger.by_instruction(), ledger.by_component(), ledger.by_action()
    assert {sum(view.values()) for view in views} == {ledger.total_fj, whole.energy_fj}
    assert len(ledger.by_instruction()) == len(profile.instructions) + 1
    components = {f"energy_{a.component}_{a.name}_fj": fj for a, fj in ledger.by_action().items()}
    assert components.pop("energy_static_cycle_fj") == whole.counters["energy_static_fj"]
    assert sum(components.values()) == sum(
        number
        for name, number in whole.counters.items()
        if name.startswith("energy_") and name not in ("energy_fj", "energy_static_fj")
    )


def outcomes_agree(one: Outcome, two: Outcome) -> bool:
    same = (one.cycles, one.sequencers) == (two.cycles, two.sequencers)
    return same and all(np.array_equal(one.sums[by], two.sums[by]) for by in By)


@given(drawn_programs(), machines(), VALUES)
def test_neither_numbers_nor_a_trace_change_the_cost(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    loaded, at = Loaded(case, spec), {PARAMETER: value}
    plain = loaded.execute(1.0, None, at, tuple(By))
    for limit in (3, EVERY_EVENT):
        assert outcomes_agree(plain, loaded.execute(1.0, None, at, tuple(By), limit))
    machine = EmulatorTarget(spec)
    assert machine.run(case, FEEDS, at)[0] == machine.time(case, at)
    assert machine.profile(case, FEEDS, at) == machine.profile(case, parameters=at)


@given(drawn_programs(), machines(), VALUES)
def test_a_trace_has_every_cycle_of_every_unit_and_obeys_the_ports(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    outcome = Loaded(case, spec).execute(1.0, None, {PARAMETER: value}, tuple(By), EVERY_EVENT)
    assert outcome.dropped == 0
    events = sorted(outcome.events.tolist(), key=lambda e: (e[3], e[4]))
    for (_, unit), group in groupby(events, key=lambda e: (e[3], e[4])):
        row = list(group)
        assert all(end <= after for (_, _, end, *_), (_, after, *_) in pairwise(row))
        if unit < len(UNITS):
            assert [e[0] for e in row] == [0, *(e[2] for e in row[:-1])]
    for core in range(len(case.streams)):
        steps = [(at, change) for since, begin, end, c, unit, *_ in events if c == core and unit < 4
                 for at, change in ((begin, 1), (end, -1))]  # fmt: skip
        working = 0
        for _, change in sorted(steps):
            working += change
            assert working <= spec.scratchpad.ports


@given(drawn_programs(), machines(), VALUES)
def test_a_case_costs_what_its_body_costs_or_nothing(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    dispatched = EmulatorTarget(spec).time(case, {PARAMETER: value}).counters
    plain = EmulatorTarget(spec).time(specialised(case, value)).counters
    for name in COUNTERS:
        assert dispatched[name] == plain[name] or name == "cases_entered", name


@given(drawn_programs(), machines(), VALUES)
def test_traffic_is_what_was_wanted_and_no_less(
    case: Program, spec: HardwareSpec, value: int
) -> None:
    found = EmulatorTarget(spec).time(case, {PARAMETER: value}).counters
    assert found["dram_write_useful_bytes"] <= found["dram_write_bytes"]
    assert found["macs_useful"] == sum(found[f"macs_{kind}"] for kind in ("fp32", "bf16", "int8"))
    assert found["macs_useful"] <= found["macs_issued"]
    assert found["dram_row_hits"] + found["dram_row_misses"] == (
        found["dram_read_bursts"] + found["dram_write_bursts"]
    )
    assert found["padding_bytes"] <= found["scratchpad_load_write_bytes"]
    assert found["scratchpad_peak_bytes"] <= spec.scratchpad.size_bytes
