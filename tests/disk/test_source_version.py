"""The version of sources changes with every byte and name of theirs, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.disk.source_version import hash_sources, source_files


def package(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_changed_moved_or_added_source_is_another_version(tmp_path: Path) -> None:
    files = {"a.py": "1", "inner/b.py": "2", "inner/deep/c.py": "3"}
    base = hash_sources([package(tmp_path / "base", files)])
    assert hash_sources([package(tmp_path / "same", files)]) == base
    changed = [
        {**files, "inner/deep/c.py": "4"},
        {**files, "d.py": ""},
        {"a.py": "1", "inner/b.py": "23", "inner/deep/c.py": ""},
    ]
    versions = {hash_sources([package(tmp_path / str(i), each)]) for i, each in enumerate(changed)}
    assert len(versions) == 3
    assert base not in versions


def test_what_is_no_source_is_left_out(tmp_path: Path) -> None:
    made = package(tmp_path, {"a.py": "", "a.pyc": "x", "notes/read.me": "x"})
    assert source_files([made]) == [str(tmp_path / "a.py")]


def test_a_file_is_its_own_source(tmp_path: Path) -> None:
    alone, folder = tmp_path / "alone.py", package(tmp_path / "package", {"a.py": ""})
    alone.write_text("1")
    assert source_files([folder, alone]) == [str(alone), str(folder / "a.py")]
    before = hash_sources([folder, alone])
    alone.write_text("2")
    assert hash_sources([folder, alone]) != before


def test_a_source_that_is_missing_is_an_error_and_not_an_empty_hash() -> None:
    with pytest.raises(FileNotFoundError, match="no_such_folder"):
        hash_sources(["no_such_folder"])
    with pytest.raises(FileNotFoundError, match="no_such"):
        hash_sources(["graph/no_such.py"])
