"""Programs on disk are those that were lowered, for every machine and process, and nobody else's."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.disk import source_version
from autotune.disk.source_version import PACKAGE_FOLDER, hash_sources, source_files
from autotune.fusion.group import Group
from autotune.lowering.lower import lower
from autotune.runtime.caches import program_files
from autotune.runtime.caches.program_files import DECIDING, ProgramFiles
from autotune.runtime.execution.compilation import ProgramSource
from autotune.runtime.execution.program_cache import KeptProgram, ProgramCache, ProgramKey
from autotune.targets.opening import load_spec, target
from autotune.tuner.choice import Choice
from tests.runtime import runtime_case as case
from tests.runtime.caches.import_closure import closure

CHOICE = next(c for c in case.choices(case.network()) if c.schedule is not None)

OPEN = """
import json, sys
import numpy as np
from autotune.runtime.session.session import Session
with Session("mlp", sys.argv[1], online=False) as session:
    outputs = session.run(session.draw_inputs(np.random.default_rng(0)))
    sources = [step.compiled.source.value for table in session.tables for step in table.group_steps]
    sums = {name: float(np.abs(value).sum()) for name, value in outputs.items()}
    print(json.dumps([sources, sums, "autotune.lowering.lower" in sys.modules]))
"""


def key_of(choice: Choice, spec: case.HardwareSpec = case.SPEC) -> ProgramKey:
    assert choice.schedule is not None
    return choice.group.key, choice.schedule, spec.profile_id


def kept(choice: Choice = CHOICE) -> KeptProgram:
    assert choice.schedule is not None
    return KeptProgram(choice.group.tensors, lower(choice.group, choice.schedule, case.SPEC))


@pytest.mark.parametrize("machine", ["edge", "mobile", "cpu"])
def test_a_program_comes_back_equal_on_every_machine(machine: str, tmp_path: Path) -> None:
    spec = target(machine).spec
    first = ProgramCache(files=ProgramFiles(tmp_path)).lowered(CHOICE, spec)
    later = ProgramCache(files=ProgramFiles(tmp_path))
    again = later.lowered(CHOICE, spec)
    assert first.compilation.source is ProgramSource.LOWERED
    assert again.compilation.source is ProgramSource.DISK
    assert again.program == first.program and again.bindings == first.bindings
    assert (later.figures.misses, later.figures.loads) == (1, 1)


def test_another_group_of_equal_key_gets_its_own_names(tmp_path: Path) -> None:
    ProgramCache(files=ProgramFiles(tmp_path)).lowered(CHOICE, case.SPEC)
    renamed = Choice(CHOICE.group.canonical, CHOICE.schedule)
    found = ProgramCache(files=ProgramFiles(tmp_path)).lowered(renamed, case.SPEC)
    assert found.compilation.source is ProgramSource.DISK
    assert set(found.bindings.values()) == set(renamed.group.tensors)


def test_groups_schedules_and_machines_have_programs_of_their_own(tmp_path: Path) -> None:
    files = ProgramFiles(tmp_path)
    group, schedule, profile = key_of(CHOICE)
    files.store((group, schedule, profile), kept())
    other = replace(schedule, nests=tuple(replace(n, buffers=1) for n in schedule.nests))
    assert files.load((group, schedule, profile)) == kept()
    assert files.load(("another", schedule, profile)) is None
    assert files.load((group, other, profile)) is None
    assert files.load((group, schedule, load_spec("mobile").profile_id)) is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_file_is_made_anew_and_mended(damage: str, tmp_path: Path) -> None:
    ProgramCache(files=ProgramFiles(tmp_path)).lowered(CHOICE, case.SPEC)
    (file,) = tmp_path.glob("*.object")
    content = file.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes((content[middle] ^ 1,)) + content[middle + 1 :]
    file.write_bytes(
        {"cut": content[:-9], "flipped": flipped, "empty": b"", "foreign": b"#!/bin/sh\n"}[damage]
    )
    mended = ProgramCache(files=ProgramFiles(tmp_path)).lowered(CHOICE, case.SPEC)
    assert mended.compilation.source is ProgramSource.LOWERED
    assert file.read_bytes() == content, "the same bytes whoever makes it"


class Foreign:
    """What somebody might put into a file instead of a program."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.getpid, ()


def test_nothing_but_programs_is_made_of_a_file(tmp_path: Path) -> None:
    files = ProgramFiles(tmp_path)
    for one in (Foreign(), CHOICE.group, 5):
        files._disk().store(program_files._text(key_of(CHOICE)), pickle.dumps(one))
        assert files.load(key_of(CHOICE)) is None


def test_only_this_user_reads_and_writes_programs(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "cache" / "programs"
        ProgramFiles(folder).store(key_of(CHOICE), kept())
    finally:
        os.umask(before)
    (file,) = folder.glob("*.object")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="another user"):
        program_files._cache.cache_clear()
        assert ProgramFiles(folder).load(key_of(CHOICE)) is None


@pytest.mark.parametrize("machine", ["edge", "cpu:1"])
def test_a_second_process_lowers_nothing(machine: str, tmp_path: Path) -> None:
    environment = {**os.environ, "AUTOTUNE_HOME": str(tmp_path)}

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", OPEN, machine]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def result(process: subprocess.Popen[str]) -> tuple[list[str], dict[str, float], bool]:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        sources, sums, has_lowered = json.loads(out)
        return sources, sums, has_lowered

    both = [start(), start()]  # at once: each finds an entry whole, or none
    first, second = map(result, both)
    third = result(start())
    assert first[1] == second[1] == third[1]
    assert first[2] or second[2]
    assert set(third[0]) == {"disk"} and not third[2]
    assert not list((tmp_path / "cache" / "programs").glob(".*")), "no part is left"


def test_programs_are_kept_under_the_sources_of_every_module_that_lowering_imports() -> None:
    apart = ("errors.py", "display.py", "kernels/__init__.py", "kernels/emit/__init__.py")
    imported = {str(path) for path in closure(["autotune.lowering.lower"])}
    missing = {path for path in imported if not path.endswith(apart)} - {*source_files(DECIDING)}
    assert not missing and len(imported) > 40


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ("graph/passes/pipeline.py", True),
        ("isa/verifier/proof.py", True),
        ("targets/emulator/target.py", True),
        ("lowering/tiles.py", False),
        ("operators/reduction.py", False),
    ],
)
def test_a_change_drops_programs_only_where_it_decides_them(
    change: str, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "autotune"
    shutil.copytree(PACKAGE_FOLDER, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    monkeypatch.setattr(source_version, "PACKAGE_FOLDER", package)
    before = hash_sources(DECIDING)
    path = package / change
    path.write_text(f"{path.read_text()}\nCHANGED = 1\n")
    assert (hash_sources(DECIDING) == before) == is_kept


def test_groups_of_a_network_read_their_names_in_the_order_of_their_types() -> None:
    again = Group.from_json(CHOICE.group.to_json())
    assert again.tensors == tuple(name for name, _ in again.types) == CHOICE.group.tensors
