"""The reference: readings near the usual clock, on as many cores as asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from joblib import cpu_count

from autotune.kernels.native.executor import ThreadPool
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import aligned_floats
from autotune.targets.native.cpu.host import available
from autotune.targets.native.detection import usual_clock
from autotune.targets.native.detection.probe import (
    DEPTH,
    INTEGER_CHAINS,
    clock_kernel,
    integer_kernel,
    kernel_plan,
    nanoseconds,
)
from autotune.targets.native.running.baseline import Baseline
from autotune.targets.native.running.reference import (
    FIRST,
    INTEGERS,
    LATE,
    MULTIPLY_ADDS,
    Reference,
    reference,
)
from autotune.targets.native.running.sampling import CALM

needs_two_cores = pytest.mark.skipif(cpu_count() < 2, reason="one core")
pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    monkeypatch.setattr(usual_clock, "READINGS", 5)
    return Compiler(cache_dir=tmp_path / "objects")


@pytest.mark.parametrize("threads", [1, 2])
def test_readings_are_positive(compiler: Compiler, threads: int) -> None:
    found = Reference(ThreadPool(threads), compiler, threads)
    readings = [found.read() for _ in range(FIRST)]
    assert all(reading.clock > 0 and reading.crowding > 0 for reading in readings)
    assert all(reading.distance > 0 for reading in readings)
    assert threads > 1 or {reading.distance for reading in readings} == {1.0}


def test_far_cores_are_as_far_as_their_hops_take_longer(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Reference(ThreadPool(2), compiler, 2)
    found._near = Baseline(0.1, 0.0, [40.0])
    hops = iter([40.0, 180.0, 20.0])
    monkeypatch.setattr(found, "_hop", lambda: next(hops))
    assert [found.read().distance for _ in range(3)] == [1.0, 4.5, 0.5]


@needs_two_cores
@pytest.mark.parametrize("name", [MULTIPLY_ADDS, INTEGERS])
def test_the_next_process_knows_how_fast_a_calm_machine_is(
    compiler: Compiler, tmp_path: Path, name: str
) -> None:
    found = Reference(ThreadPool(2), compiler, 2)
    for _ in range(FIRST):
        found.read()
    (path,) = tmp_path.glob("hosts/*.calm.json")
    kept = json.loads(path.read_text())
    kept[name] /= 3
    path.write_text(json.dumps(kept))
    assert Reference(ThreadPool(2), compiler, 2).read().crowding > CALM


def test_a_thread_that_does_not_come_is_far(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Reference(ThreadPool(2), compiler, 2)
    found._near = Baseline(0.1, 0.0, [40.0])
    monkeypatch.setattr(found, "_hop", lambda: 0.0)
    assert found.read().distance == LATE


@pytest.mark.parametrize("crowded", [MULTIPLY_ADDS, INTEGERS])
def test_waiting_for_a_calm_machine_ends(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, crowded: str
) -> None:
    found = Reference(ThreadPool(1), compiler, 1)
    calm = {id(plan): found._calm[name].value for name, plan in found._crowds.items()}
    slow = found._crowds[crowded]
    factors = iter([9.0, 9.0, 1.0])
    monkeypatch.setattr(
        found, "_fastest", lambda plan: calm[id(plan)] * (next(factors) if plan is slow else 1.0)
    )
    assert 0.0 < found.await_calm(60.0) < 60.0
    assert next(factors, None) is None, "it waited for the calm reading"
    monkeypatch.setattr(found, "_fastest", lambda plan: 9 * calm[id(plan)])
    assert 0.005 <= found.await_calm(0.005) < 1.0


def test_integer_operations_fill_a_core(compiler: Compiler) -> None:
    pool = ThreadPool(1)
    chain, integers = compiler.compile([clock_kernel(), integer_kernel()])
    room = aligned_floats(64)
    here = np.array([room.ctypes.data], np.int64)

    def took(address: int) -> int:
        plan = kernel_plan(pool, address, [[(1, 0, 0, 0, 0, 0)]], 200, room)
        return min(nanoseconds(plan, here) for _ in range(100))

    operations = INTEGER_CHAINS * DEPTH // 4
    assert operations * took(chain) > 2 * DEPTH * took(integers), "fewer than two a cycle"


def test_a_process_has_one_reference_for_a_pool(compiler: Compiler) -> None:
    pool = ThreadPool(1)
    assert reference(pool, compiler, 1) is reference(pool, compiler, 1)


def test_the_usual_clock_is_kept_and_read_again(compiler: Compiler, tmp_path: Path) -> None:
    first = usual_clock.usual_clock_hz(compiler)
    (path,) = tmp_path.glob("hosts/*.clock.json")
    assert json.loads(path.read_text())["clock_hz"] == first
    path.write_text(json.dumps({"clock_hz": 2.5e9}))
    assert usual_clock.usual_clock_hz(Compiler(cache_dir=tmp_path / "objects")) == 2.5e9


@pytest.mark.parametrize("text", ["", "{", "[]", '{"clock_hz": "fast"}', '{"clock_hz": 1}', "{}"])
def test_a_damaged_file_is_measured_anew(compiler: Compiler, tmp_path: Path, text: str) -> None:
    usual_clock.usual_clock_hz(compiler)
    (path,) = tmp_path.glob("hosts/*.clock.json")
    path.write_text(text)
    found = usual_clock.usual_clock_hz(Compiler(cache_dir=tmp_path / "objects"))
    assert json.loads(path.read_text())["clock_hz"] == found
