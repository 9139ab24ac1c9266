"""The host as a spec: what is measured is plausible, kept, and named by all that it depends on."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import SpecError
from autotune.isa.formats import CACHED_BF16_FORMATS, CACHED_FORMATS, Format
from autotune.targets.native.cpu import topology
from autotune.targets.native.cpu.host import NARROWER, available, host_isa
from autotune.targets.native.cpu.vector_isa import AVX512, AVX512_BF16, AVX512_VNNI, vector_isa
from autotune.targets.native.detection import detect
from autotune.targets.native.detection.detect import (
    HostFigures,
    default_threads,
    detected,
    host_spec,
    identity,
)
from autotune.targets.opening import host_name, load_spec, target
from autotune.targets.plausibility import warnings_of

CORES = topology.usable_cores()
FIGURES = HostFigures(3.2e9, 2, 8, 1 << 19, 7.1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of figures in an empty home."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    detect._figures.cache_clear()
    return tmp_path / "home" / "hosts"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads of every measurement that was made; each finds another clock."""
    made: list[int] = []

    def measure(isa: object, threads: int) -> HostFigures:
        made.append(threads)
        return replace(FIGURES, clock_hz=1e9 * len(made))

    monkeypatch.setattr(detect, "_measured", measure)
    return made


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
def test_what_is_measured_is_a_cpu(cache: Path) -> None:
    spec = detected(1)
    assert 5e8 < spec.clock_hz < 1e10
    assert 1 <= spec.matrix.rows <= 8, "pipes"
    assert 0.1 <= spec.dram.bytes_per_cycle <= 1000
    assert not spec.energy.known and warnings_of(spec) == ()


def test_a_profile_stays_until_the_machine_changes(
    cache: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = detected(1)
    detect._figures.cache_clear()
    assert detected(1).profile_id == first.profile_id and measured == [1]
    monkeypatch.setattr(topology, "model_name", lambda: "another CPU")
    detect._figures.cache_clear()
    assert detected(1).profile_id != first.profile_id and measured == [1, 1]
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("gone", ["cache/hosts", "hosts"])
def test_a_profile_outlives_its_figures(cache: Path, measured: list[int], gone: str) -> None:
    first = detected(1)
    shutil.rmtree(cache.parent / gone, ignore_errors=True)
    detect._figures.cache_clear()
    again = detected(1)
    assert again.profile_id == first.profile_id
    assert (again.clock_hz != first.clock_hz) == (gone == "hosts")


def test_drifting_figures_change_no_profile_and_what_the_machine_is_does() -> None:
    spec = host_spec(2, FIGURES, "a machine")
    drifted = replace(FIGURES, clock_hz=1.1e9, pipes=1, bytes_per_cycle=2.5)
    assert host_spec(2, drifted, "a machine").profile_id == spec.profile_id
    assert host_spec(2, FIGURES, "another").profile_id != spec.profile_id
    assert host_spec(2, drifted).profile_id != host_spec(2, FIGURES).profile_id
    for changed in (
        replace(spec, cores=1),
        replace(spec, tile_multiple=2 * spec.tile_multiple),
        host_spec(2, replace(FIGURES, near_bytes=1 << 20), "a machine"),
    ):
        assert changed.profile_id != spec.profile_id


def test_cores_that_this_process_may_use_are_no_part_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = identity(1)
    monkeypatch.setattr(topology, "usable_cores", lambda: CORES[:1])
    assert identity(1) == before != identity(2)


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"key": 1, "figures": {}}', "wrong key"])
def test_figures_that_cannot_be_read_are_measured_again(
    cache: Path, measured: list[int], damage: str
) -> None:
    detected(1)
    (path,) = cache.iterdir()
    if damage == "wrong key":
        damage = json.dumps(json.loads(path.read_text()) | {"key": "another"})
    path.write_text(damage)
    detect._figures.cache_clear()
    detected(1)
    assert measured == [1, 1]


def test_a_folder_that_cannot_be_written_costs_measuring_again(
    cache: Path, measured: list[int]
) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    detected(1)
    detect._figures.cache_clear()
    assert detected(1).clock_hz == 2e9


def test_a_thread_count_is_a_machine_of_its_own() -> None:
    one, two = host_spec(1, FIGURES), host_spec(2, FIGURES)
    assert one.profile_id != two.profile_id
    assert (one.name, one.cores, two.name, two.cores) == ("cpu:1", 1, "cpu:2", 2)
    assert one.peak_macs_per_cycle == 16


def test_threads_that_the_machine_has_not_are_refused() -> None:
    for threads in (0, default_threads() + 1):
        with pytest.raises(SpecError, match=f"{threads} threads; this process may use 1 to"):
            detected(threads)


def test_the_host_is_opened_by_name_with_threads(cache: Path, measured: list[int]) -> None:
    assert target("cpu", threads=1).name == target("cpu:1").name == load_spec("cpu:1").name
    assert target("cpu").spec.cores == default_threads()
    assert host_name("edge", None) == "edge"


@pytest.mark.parametrize(
    ("name", "threads", "message"),
    [
        ("edge", 2, "only cpu has threads"),
        ("cpu:1", 2, "say the number once"),
        ("cpu:two", None, "'two' is not a number of threads"),
        ("cpu:", None, "is not a number of threads"),
    ],
)
def test_threads_that_mean_nothing_are_refused(name: str, threads: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        target(name, threads)


@pytest.mark.parametrize(
    ("text", "size"), [("512K", 1 << 19), ("32M", 1 << 25), ("", None), ("K", None), ("512", None)]
)
def test_cache_sizes_are_read_as_the_system_writes_them(text: str, size: int | None) -> None:
    assert topology.size_of(text) == size


AVX512_FEATURES = frozenset(("avx512f", "avx512vl", "avx512bw", "avx512dq"))


def test_an_instruction_set_with_bf16_has_bytes_too() -> None:
    for more, wanted in (
        ((), AVX512),
        (("avx512bf16",), AVX512),
        (("avx512vnni",), AVX512_VNNI),
        (("avx512vnni", "avx512bf16"), AVX512_BF16),
    ):
        assert vector_isa("x86_64", AVX512_FEATURES | set(more)) is wanted
    assert NARROWER[AVX512_BF16] is AVX512_VNNI


@pytest.mark.skipif(not available() or host_isa().halves is None, reason="no bf16 on this CPU")
def test_a_cpu_less_bf16_is_another_machine_that_multiplies_float32(
    cache: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_bf16, with_tiles = detected(1), host_isa().tiles is not None
    monkeypatch.setenv("AUTOTUNE_CPU_FEATURES", "-avx512bf16")
    detect._figures.cache_clear()
    without = detected(1)
    assert with_bf16.profile_id != without.profile_id
    assert with_bf16.formats.multiplied == CACHED_BF16_FORMATS.multiplied
    assert without.formats.multiplied == CACHED_FORMATS.multiplied
    rate = 16 if with_tiles else 2
    assert with_bf16.peak_macs(Format.BF16) == rate * with_bf16.peak_macs_per_cycle
    assert with_bf16.formats.fast == (frozenset((Format.BF16,)) if with_tiles else frozenset())
    assert host_isa() is AVX512_VNNI
