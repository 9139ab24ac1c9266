"""The host CPU as a ``Target``: what it computes, refuses, keeps, counts, and sends to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import InputError, ProgramError
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Role
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.cpu.topology import core_count
from autotune.targets.native.running import target as module
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.protocol import Target
from tests.lowering.lowering_case import block_program
from tests.targets.machine_case import PLAIN, fill, load, loop, make, program, store, tensor

X, Y = tensor("x", 64), tensor("y", 64, role=Role.OUTPUT)
COPY = program(load(0, 0, 64, signal0=1), store(1, 0, 64, wait0=1), tensors=(X, Y))
HOST = NativeTarget(PLAIN, "cpu:1")


def test_it_is_a_target() -> None:
    machine: Target = HOST
    assert machine.name == "cpu:1" and machine.spec is PLAIN
    assert NativeTarget(PLAIN).name == "plain"


def test_it_computes_what_the_emulator_computes() -> None:
    case = block_program()
    rng = np.random.default_rng(1)
    feeds = {
        t.name: rng.standard_normal(t.shape).astype(np.float32)
        for t in case.tensors
        if t.role is not Role.OUTPUT
    }
    spec = replace(PLAIN, scratchpad=replace(PLAIN.scratchpad, size_bytes=1 << 24), cores=8)
    _, wanted = EmulatorTarget(spec).run(case, feeds)
    _, got = NativeTarget(spec).run(case, feeds)
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4 * np.abs(value).max())


def test_an_illegal_program_never_runs() -> None:
    outside = program(fill(4090), elements=4096)
    for attempt in (HOST.time, lambda p: HOST.run(p, {})):
        with pytest.raises(ProgramError, match="FILL"):
            attempt(outside)


def test_a_program_that_does_not_fit_the_machine_is_refused() -> None:
    with pytest.raises(ProgramError, match="made for 2 cores, cpu:1 has 1"):
        HOST.time(program(fill(), cores=2))
    with pytest.raises(ProgramError, match="smaller tiles"):
        HOST.time(program(fill(), elements=PLAIN.scratchpad_elements + 1))


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="no array for input tensor 'x'"):
        HOST.run(COPY, {})
    with pytest.raises(InputError, match=r"'x' is float64 \[64\]; it must be float32 \[64\]"):
        HOST.run(COPY, {"x": np.zeros(64)})


def test_inputs_may_be_read_only_and_strided_and_stay_as_they_are() -> None:
    x = np.arange(128, dtype=np.float32)[::2]
    x.flags.writeable = False
    _, got = HOST.run(COPY, {"x": x})
    np.testing.assert_array_equal(got["y"], x)


def test_what_no_store_reaches_is_nan() -> None:
    part = program(fill(), store(0, 0, 8), tensors=(Y,))
    _, got = HOST.run(part, {})
    assert np.isnan(got["y"][8:]).all()
    assert (got["y"][:8] == 1).all()


def test_a_dispatch_takes_its_parameter_and_refuses_to_go_without() -> None:
    body = (
        make(Opcode.CASE, parameter=3, low=5, high=7, level=0),
        fill(), store(0, 0, 8), make(Opcode.END, level=0),
    )  # fmt: skip
    case = program(*body, tensors=(Y,))
    _, inside = HOST.run(case, {}, {3: 6})
    _, outside = HOST.run(case, {}, {3: 8})
    assert (inside["y"][:8] == 1).all() and np.isnan(outside["y"]).all()
    for attempt in (lambda: HOST.time(case), lambda: HOST.time(case, {4: 6})):
        with pytest.raises(ProgramError, match="parameter 3, which has no value"):
            attempt()


def test_a_time_says_how_it_was_found() -> None:
    found = HOST.time(COPY)
    counters = found.counters
    assert counters["repeats"] >= 5
    assert 1 <= counters["nanoseconds_min"] <= counters["nanoseconds"]
    assert found.cycles == max(1, round(counters["nanoseconds"] * PLAIN.clock_hz * 1e-9))
    assert counters["perf"] == ("perf_cycles" in counters)
    assert found.energy_fj == 0 and found.dram_bytes == 2 * 64 * 4


def test_a_long_program_of_one_thread_is_timed_by_the_threads_own_clock() -> None:
    """Other work adds nothing to that clock, so it never shows more than the wall's."""
    timing = HOST.prepared(COPY)
    for repeats in (timing._once, timing._once.repeated(3)):
        begin = time.perf_counter_ns()
        spent = repeats.run_on_own_time()
        assert 0 <= spent.sum() <= time.perf_counter_ns() - begin
        assert spent.size == repeats._count


def test_outputs_are_new_arrays_on_cache_lines() -> None:
    x = np.ones(64, np.float32)
    first, second = HOST.run(COPY, {"x": x})[1]["y"], HOST.run(COPY, {"x": 2 * x})[1]["y"]
    assert (first == 1).all() and (second == 2).all()
    assert first.ctypes.data % 64 == 0


def weighted(weights: np.ndarray, machine: NativeTarget) -> np.ndarray:
    """What a program makes of a constant tensor."""
    return machine.run(WEIGHTED, {"w": weights})[1]["y"]


WEIGHTED = program(
    load(0, 0, 64, signal0=1), store(1, 0, 64, wait0=1),
    tensors=(tensor("w", 64, role=Role.CONSTANT), Y),
)  # fmt: skip


def test_constants_are_kept_when_they_cannot_change_and_followed_when_they_can() -> None:
    machine, weights = NativeTarget(PLAIN), np.ones(64, np.float32)
    assert (weighted(weights, machine) == 1).all()
    weights[:] = 2
    assert (weighted(weights, machine) == 2).all() and not machine._linked
    weights.flags.writeable = False
    other = 3 * weights
    other.flags.writeable = False
    for _ in range(2):
        assert (weighted(weights, machine) == 2).all() and (weighted(other, machine) == 6).all()
    assert len(machine._linked) == 2


def test_programs_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOADED_LIMIT", 2)
    machine = NativeTarget(PLAIN)
    kept = [program(fill(base)) for base in range(5)]
    for case in kept * 2:
        machine.run(case, {})
    assert len(machine._bound) == 2 and len(machine._linked) == 2


def test_it_pickles_as_spec_and_name() -> None:
    HOST.run(COPY, {"x": np.zeros(64, np.float32)})
    data = pickle.dumps(HOST)
    again = pickle.loads(data)
    assert (again.name, again.spec) == (HOST.name, HOST.spec) and len(data) < 2000
    assert again.time(COPY).counters["repeats"] >= 5


TIMED = """
import os
from dataclasses import replace
from pathlib import Path
from autotune.targets.native.running.target import NativeTarget
from tests.targets.machine_case import PLAIN, fill, program

NativeTarget(replace(PLAIN, cores=2)).time(program(fill(), cores=2))
threads = [int(task.name) for task in Path("/proc/self/task").iterdir()]
cores = os.sched_getaffinity(0)
print(len(threads) > 1, {len(cores - os.sched_getaffinity(one)) for one in threads if one != os.getpid()} <= {0, 1})
"""


@pytest.mark.skipif(
    not Path("/proc/self/task").exists() or core_count() < 2, reason="threads tell no cores"
)
def test_threads_of_a_program_that_was_timed_have_all_cores_but_its_callers() -> None:
    """In a fresh process, whose pool begins while the caller keeps to one core."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True True\n"


def test_threads_share_a_target() -> None:
    machine = NativeTarget(replace(PLAIN, cores=2))

    def work(trips: int) -> bool:
        case = program(
            *loop(trips, load(0, 0, 64, wait0=2, signal0=1), store(1, 0, 64, wait0=1, signal0=2)),
            tensors=(X, Y), credits=(0, 0, 1), cores=2,
        )  # fmt: skip
        x = np.full(64, trips, np.float32)
        return bool((machine.run(case, {"x": x})[1]["y"] == x).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, [1 + i % 50 for i in range(200)]))
