"""Folders of the cache stay within their limit, whatever other processes do to them meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from autotune.disk.cache import DiskCache
from autotune.disk.eviction import ABANDONED_SECONDS, Pruned, bounded, folder_bytes, prune
from autotune.runtime.caches.weight_cache import WeightCache


def filled(folder: Path, name: str, size: int, age_seconds: float) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    used = time.time() - age_seconds
    os.utime(path, (used, used))
    return path


def entries(folder: Path, count: int) -> list[Path]:
    """Files of 100 bytes, the one longest unused first."""
    return [filled(folder, f"{i}.kept", 100, 60.0 * (count - i)) for i in range(count)]


def test_what_is_within_the_limit_stays(tmp_path: Path) -> None:
    entries(tmp_path, 4)
    assert bounded(tmp_path, ".kept", 400) == 400
    assert len(list(tmp_path.iterdir())) == 4


def test_those_longest_unused_go_down_to_three_quarters_of_the_limit(tmp_path: Path) -> None:
    made, other = entries(tmp_path, 6), filled(tmp_path, "of another kind", 1000, 1e6)
    assert bounded(tmp_path, ".kept", 400) == 300
    assert set(tmp_path.iterdir()) == {*made[3:], other}


def test_what_another_process_is_writing_stays_and_what_a_dead_one_left_goes(
    tmp_path: Path,
) -> None:
    entries(tmp_path, 2)
    written = filled(tmp_path, ".new.kept", 1000, 600.0)
    left = filled(tmp_path, ".old.kept", 1000, ABANDONED_SECONDS + 60.0)
    assert bounded(tmp_path, ".kept", 400) == 200
    assert written.exists()
    assert not left.exists()


def test_a_file_that_cannot_be_removed_is_counted_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, remove = entries(tmp_path, 6)[0], Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path == held:
            raise PermissionError(path)
        remove(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    assert bounded(tmp_path, ".kept", 400) == 300
    assert held.exists()


@pytest.fixture
def vanishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which another process removes a file between its listing and a look at it."""
    gone, look = filled(tmp_path, "gone.weights", 0, 0.0), Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == gone:
            raise FileNotFoundError(path)
        return look(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    return tmp_path


def test_weights_that_were_stored_are_said_to_be_though_another_file_goes(vanishing: Path) -> None:
    kept = WeightCache(vanishing)
    plain = kept.store("net", {"w": np.ones(4, np.float32)})
    assert plain is not None
    found = kept.load(plain)
    assert found is not None
    assert np.array_equal(found["w"], np.ones(4))


def test_weights_and_objects_being_written_elsewhere_are_not_removed(tmp_path: Path) -> None:
    others = [filled(tmp_path, f".other.{kind}", 9000, 600.0) for kind in ("weights", "object")]
    WeightCache(tmp_path, limit_bytes=8000).store("net", {"w": np.ones(100, np.float32)})
    DiskCache(tmp_path, limit_bytes=8000).store("one", bytes(100))
    assert all(path.exists() for path in others)


def test_a_prune_keeps_what_was_used_last_and_no_file_of_another_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    now = time.time()
    for number in range(6):
        path = (first, second)[number % 2] / f"{number}.object"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (now - number * 1000, now - number * 1000))
    (first / "folder").mkdir()
    (tmp_path / "other").write_bytes(bytes(100))
    assert prune([first, second, tmp_path / "none"], 350, None) == Pruned(3, 300, 3, 300)
    assert {path.name for path in tmp_path.rglob("*.object")} == {f"{n}.object" for n in range(3)}
    assert prune([first, second], 10**9, 1500.0) == Pruned(1, 100, 2, 200)
    assert folder_bytes(tmp_path) == 300
    assert prune([first, second], 0, None) == Pruned(2, 200, 0, 0)
