"""The version of sources changes with every byte and name of theirs, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from autotune.disk.source_version import hash_sources, source_files


def package(folder: Path, files: dict[str, str]) -> ModuleType:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = ModuleType("package")
    found.__path__ = [str(folder)]
    return found


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


def test_a_module_of_no_package_is_its_own_source(tmp_path: Path) -> None:
    alone, made = ModuleType("alone"), package(tmp_path / "package", {"a.py": ""})
    alone.__file__ = str(tmp_path / "alone.py")
    Path(alone.__file__).write_text("1")
    assert source_files([made, alone]) == [alone.__file__, str(tmp_path / "package" / "a.py")]
    before = hash_sources([made, alone])
    Path(alone.__file__).write_text("2")
    assert hash_sources([made, alone]) != before
