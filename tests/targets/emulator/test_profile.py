"""A profile takes an execution apart by marks and instructions, and the parts add up to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import ProgramError
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, Role
from autotune.targets.emulator.counters import PART_COUNTERS
from autotune.targets.emulator.profile import Profile
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.physical import PhysicalSpec
from tests.targets.machine_case import PLAIN, fill, load, loop, make, program, store, tensor

X, Y = tensor("x", 4096), tensor("y", 4096, role=Role.OUTPUT)
MACHINE = EmulatorTarget(replace(PLAIN, cores=2))
OVERLAPPING = ("cycles", "scratchpad_peak_bytes")


def mark(number: int) -> Instruction:
    return make(Opcode.MARK, id=number)


def case(low: int, high: int, *body: Instruction, level: int = 0) -> tuple[Instruction, ...]:
    begin = make(Opcode.CASE, parameter=3, low=low, high=high, level=level)
    return (begin, *body, make(Opcode.END, level=level))


def check_sums(profile: Profile) -> None:
    whole = profile.execution.counters
    for parts in (
        list(profile.marks.values()),
        [instruction.counters for instruction in profile.instructions],
    ):
        for name in PART_COUNTERS:
            merge = max if name in OVERLAPPING else sum
            found = merge([part[name] for part in parts])
            assert found <= whole[name] if name == "cycles" else found == whole[name], name
    ledger = profile.ledger
    for view in (ledger.by_component(), ledger.by_action(), ledger.by_instruction()):
        assert sum(view.values()) == profile.execution.energy_fj


COPY = program(
    load(0, 0, 64, signal0=1),
    mark(7),
    *loop(3, fill(64, size4=32), mark(9), load(0, 128, 16)),
    store(1, 0, 64, wait0=1),
    tensors=(X, Y),
)


def test_marks_and_instructions_and_postings_add_up() -> None:
    profile = MACHINE.profile(COPY)
    assert profile.execution == MACHINE.time(COPY)
    check_sums(profile)


def test_a_mark_counts_what_is_written_behind_it_in_every_trip() -> None:
    marks = MACHINE.profile(COPY).marks
    assert list(marks) == [None, 7, 9]
    assert [part["instructions"] for part in marks.values()] == [1, 3, 3 + 1]
    assert [part["dram_read_bursts"] for part in marks.values()] == [4, 0, 3]
    assert [part["loop_trips"] for part in marks.values()] == [0, 3, 0]
    assert marks[7]["vector_busy_cycles"] == 3 * (3 + 4)
    assert marks[7]["cycles"] == 3 * (3 + 4)


def test_one_mark_on_two_cores_counts_both() -> None:
    one = program(mark(1), fill(), fill(), mark(2), fill(), mark(1), fill())
    two = Program("two", (), one.streams * 2, one.credits * 2, one.scratchpad_elements)
    alone, both = MACHINE.profile(one).marks, MACHINE.profile(two).marks
    assert [part["executed_fill"] for part in alone.values()] == [0, 3, 1]
    assert [part["executed_fill"] for part in both.values()] == [0, 6, 2]
    assert both[1]["cycles"] == alone[1]["cycles"] == 4 * 4


def test_marks_take_no_time() -> None:
    plain = COPY.streams[0]
    bare = tuple(i for i in plain if i.opcode is not Opcode.MARK)
    assert MACHINE.time(COPY) == MACHINE.time(replace(COPY, streams=(bare,)))


def test_instructions_are_named_and_the_ledger_charges_them_by_position() -> None:
    profile = MACHINE.profile(COPY)
    found = [(i.index, i.text.split()[0]) for i in profile.instructions]
    assert found == [(0, "load"), (2, "loop"), (3, "fill"), (5, "load"), (7, "store")]
    energy, charged = MACHINE.spec.energy, profile.ledger.by_instruction()
    assert charged[2] == 3 * (energy.dispatch_fj + 32 * energy.vector_fj + 128 * energy.scratchpad_write_byte_fj)  # fmt: skip
    assert charged[None] == profile.execution.cycles * 2 * energy.static_cycle_fj


def test_words_that_wait_and_signal_cost_a_dispatch() -> None:
    body = (make(Opcode.SIGNAL, unit=int(Unit.VECTOR), semaphore=1),
            make(Opcode.WAIT, unit=int(Unit.STORE), semaphore=1))  # fmt: skip
    profile = MACHINE.profile(program(*body))
    energy = profile.execution.counters["energy_control_dispatch_fj"]
    assert energy == 2 * MACHINE.spec.energy.dispatch_fj
    check_sums(profile)


def test_what_a_case_leaves_out_has_no_profile() -> None:
    body = (fill(), *case(5, 9, fill(8), load(0, 64, 64)), fill(16))
    dispatched = program(*body, tensors=(X,))
    out, entered = (MACHINE.profile(dispatched, parameters={3: value}) for value in (4, 5))
    assert [i.index for i in out.instructions] == [0, 5]
    assert [i.index for i in entered.instructions] == [0, 1, 2, 3, 5]
    assert entered.execution.counters["cases_entered"] == 1
    for profile in (out, entered):
        check_sums(profile)


def test_parameters_reach_time_run_and_profile() -> None:
    dispatched = program(fill(0), *case(5, 9, fill(0, p0=2.0)), store(1, 0, 8), tensors=(X, Y))
    x = {"x": np.zeros(4096, np.float32)}
    for value, want in ((4, 1.0), (5, 2.0), (9, 2.0), (10, 1.0)):
        execution, got = MACHINE.run(dispatched, x, {3: value})
        assert (got["y"][:8] == want).all()
        assert execution == MACHINE.time(dispatched, {3: value})
        assert execution == MACHINE.profile(dispatched, x, {3: value}).execution
    with pytest.raises(ProgramError, match=r"parameter 3, which has no value.*parameters=\{3"):
        MACHINE.time(dispatched, {2: 5})


def test_a_profile_moves_a_physical_machine_on_like_one_execution() -> None:
    warm = PhysicalSpec(
        thermal_resistance_kelvin_per_watt=10.0, thermal_capacity_joule_per_kelvin=0.5, noise=0.1
    )
    one, two = (EmulatorTarget(replace(PLAIN, physical=warm)) for _ in range(2))
    assert one.profile(COPY).execution == two.time(COPY)
    assert one.time(COPY) == two.time(COPY)
    assert one.physical_state == two.physical_state
