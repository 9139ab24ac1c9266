"""The reference: readings near the usual clock, on as many cores as asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.kernels.native.executor import ThreadPool
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from autotune.targets.native.detection import usual_clock
from autotune.targets.native.running.reference import HISTORY, Reference, reference

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    monkeypatch.setattr(usual_clock, "READINGS", 5)
    return Compiler(cache_dir=tmp_path / "objects")


@pytest.mark.parametrize("threads", [1, 2])
def test_readings_are_positive_and_their_history_is_bounded(
    compiler: Compiler, threads: int
) -> None:
    found = Reference(ThreadPool(threads), compiler, threads)
    readings = [found.read() for _ in range(HISTORY + 5)]
    assert all(reading.clock > 0 and reading.crowding > 0 for reading in readings)
    assert len(found._history) == HISTORY


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
