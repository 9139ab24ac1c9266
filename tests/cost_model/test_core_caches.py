"""The caches that counts go by are those that the system tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.cost_model import core_caches as module
from autotune.targets.native.cpu import topology


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    for one in (module.core_caches, module.first_level):
        one.cache_clear()
    yield
    for one in (module.core_caches, module.first_level):
        one.cache_clear()


@pytest.mark.parametrize(
    ("told", "caches"),
    [
        ({1: 48 << 10, 2: 2 << 20}, (48 << 10, 2 << 20)),
        ({}, (module.DEFAULT_L1_BYTES, module.DEFAULT_L2_BYTES)),
    ],
)
def test_sizes_are_the_machines_own(
    told: dict[int, int], caches: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "cache_bytes", told.get)
    assert module.core_caches() == caches


@pytest.mark.parametrize(
    ("told", "way_bytes", "held"),
    [
        ((48 << 10, 12), 4096, (12, 24, 48)),
        ((32 << 10, 8), 4096, (8, 16, 32)),
        ((None, None), 4096, (8, 16, 32)),
    ],
)
def test_lines_that_collide_are_those_that_few_sets_do_not_hold(
    told: tuple[int | None, int | None],
    way_bytes: int,
    held: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size, ways = told
    monkeypatch.setattr(topology, "cache_bytes", {1: size}.get)
    monkeypatch.setattr(topology, "cache_ways", {1: ways}.get)
    first = module.first_level()
    assert first.way_bytes == way_bytes
    assert tuple(map(first.lines_apart, (4096, 2048, 1024))) == held
    assert first.collide(8192, held[0] + 1) and not first.collide(8192, held[0])
    assert not first.collide(1024, 1000), "many sets"


def test_ways_are_read_where_the_system_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (level, kind, ways) in enumerate(
        [("1", "Instruction", "8"), ("1", "Data", "12"), ("2", "Unified", "0")]
    ):
        index = tmp_path / "cpu0" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("ways_of_associativity", ways)):
            (index / name).write_text(f"{text}\n")
    monkeypatch.setattr(topology, "_CPUS", tmp_path)
    monkeypatch.setattr(topology, "usable_cores", lambda: (0,))
    assert [topology.cache_ways(level) for level in (1, 2, 3)] == [12, None, None]
