"""The emulator as a ``Target``: what it refuses, keeps, shares between threads, and how it drifts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import InputError, ProgramError, SpecError
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.targets.emulator import target as emulator
from autotune.targets.emulator.counters import COUNTERS
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from tests.targets.machine_case import PLAIN, fill, load, loop, make, program, store, tensor

X, Y = tensor("x", 64), tensor("y", 64, role=Role.OUTPUT)
COPY = program(load(0, 0, 64, signal0=1), store(1, 0, 64, wait0=1), tensors=(X, Y))


def test_it_is_a_target() -> None:
    machine: Target = target("edge")
    assert machine.name == machine.spec.name == "edge"
    assert EmulatorTarget(PLAIN, "mine").name == "mine"


def test_the_counter_table_is_complete() -> None:
    assert len(COUNTERS) >= 40
    assert all(row.unit and row.doc and row.name == name for name, row in COUNTERS.items())


def test_an_illegal_program_never_runs() -> None:
    outside = program(fill(4090), elements=4096)
    for attempt in (EmulatorTarget(PLAIN).time, lambda p: EmulatorTarget(PLAIN).run(p, {})):
        with pytest.raises(ProgramError, match="FILL"):
            attempt(outside)


def test_a_program_that_does_not_fit_the_machine_is_refused() -> None:
    with pytest.raises(ProgramError, match="made for 2 cores, plain has 1"):
        EmulatorTarget(PLAIN).time(program(fill(), cores=2))
    with pytest.raises(ProgramError, match="smaller tiles"):
        EmulatorTarget(PLAIN).time(program(fill(), elements=PLAIN.scratchpad_elements + 1))


def test_arrays_that_do_not_fit_are_refused() -> None:
    machine = EmulatorTarget(PLAIN)
    with pytest.raises(InputError, match="no array for input tensor 'x'"):
        machine.run(COPY, {})
    with pytest.raises(InputError, match=r"'x' is float64 \[64\]; it must be float32 \[64\]"):
        machine.run(COPY, {"x": np.zeros(64)})
    with pytest.raises(InputError, match=r"'x' is float32 \[63\]"):
        machine.run(COPY, {"x": np.zeros(63, np.float32)})


def test_inputs_may_be_read_only_and_strided_and_stay_as_they_are() -> None:
    x = np.arange(128, dtype=np.float32)[::2]
    x.flags.writeable = False
    _, got = EmulatorTarget(PLAIN).run(COPY, {"x": x})
    np.testing.assert_array_equal(got["y"], x)


def test_what_no_store_reaches_is_nan() -> None:
    part = program(fill(), store(0, 0, 8), tensors=(Y,))
    _, got = EmulatorTarget(PLAIN).run(part, {})
    assert np.isnan(got["y"][8:]).all()
    assert (got["y"][:8] == 1).all()


def test_drift_slows_dram_and_nothing_else() -> None:
    machine = EmulatorTarget(PLAIN)
    profile, before = machine.spec.profile_id, machine.time(COPY)
    machine.derate(0.5)
    after = machine.time(COPY)
    assert after.counters["dram_data_cycles"] == 2 * before.counters["dram_data_cycles"]
    assert after.cycles == before.cycles + before.counters["dram_data_cycles"]
    assert after.dram_bytes == before.dram_bytes
    assert machine.spec.profile_id == profile
    machine.derate(1.0)
    assert machine.time(COPY) == before


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e-18, float("nan"), 11.0])
def test_absurd_drift_is_refused(factor: float) -> None:
    with pytest.raises(SpecError, match=r"drift\.dram_bandwidth: .* is not in 0\.001\.\.10"):
        EmulatorTarget(PLAIN).derate(factor)


def test_loaded_programs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "LOADED_LIMIT", 2)
    machine = EmulatorTarget(PLAIN)
    kept = [program(fill(base)) for base in range(5)]
    assert {machine.time(case).cycles for case in kept * 2} == {5}
    assert len(machine._loaded) == 2


def test_threads_share_a_target() -> None:
    machine = EmulatorTarget(replace(PLAIN, cores=2))
    x = np.arange(64, dtype=np.float32)

    def work(trips: int) -> tuple[int, bool]:
        case: Program = program(
            *loop(trips, load(0, 0, 64, wait0=2, signal0=1), store(1, 0, 64, wait0=1, signal0=2)),
            tensors=(X, Y), credits=(0, 0, 1), cores=2,
        )  # fmt: skip
        execution, got = machine.run(case, {"x": x})
        return execution.cycles, bool((got["y"] == x).all()) and machine.time(case) == execution

    counts = [1 + i % 50 for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, counts))
    assert all(right for _, right in found)
    assert [cycles for cycles, _ in found] == [work(trips)[0] for trips in counts]


def test_one_loaded_program_runs_in_many_threads_at_once() -> None:
    machine = EmulatorTarget(PLAIN)
    body = loop(2000, *loop(20, make(Opcode.FILL, size4=8, dst_stride4=1), level=1))
    case = program(*body)
    with ThreadPoolExecutor(4) as pool:
        found = {
            machine_run.cycles for machine_run in pool.map(lambda _: machine.time(case), range(8))
        }
    assert found == {1 + 40000 * 4}
