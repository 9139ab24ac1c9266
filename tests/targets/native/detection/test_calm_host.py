"""What a host's cores take when they are calm is kept for the next process, and never believed blindly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.targets.native.detection.calm_host import CalmHost


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))


def test_the_least_is_kept_for_each_name_and_number_of_threads() -> None:
    host = CalmHost(2)
    assert host.nanoseconds("hop") == 0.0
    host.learn("hop", 180.0, False)
    host.learn("adds", 6000.0, False)
    host.learn("hop", 40.0, False)
    host.learn("hop", 180.0, False)
    again = CalmHost(2)
    assert (again.nanoseconds("hop"), again.nanoseconds("adds")) == (40.0, 6000.0)
    assert CalmHost(1).nanoseconds("hop") == 0.0


def test_who_is_sure_raises_it_and_who_differs_little_writes_nothing(tmp_path: Path) -> None:
    host = CalmHost(2)
    host.learn("hop", 40.0, False)
    (path,) = tmp_path.glob("hosts/*.calm.json")
    path.unlink()
    host.learn("hop", 37.0, True)
    host.learn("hop", 43.0, True)
    assert not path.exists()
    host.learn("hop", 180.0, True)
    assert CalmHost(2).nanoseconds("hop") == 180.0


def test_processes_keep_each_others_readings() -> None:
    first, second = CalmHost(2), CalmHost(2)
    first.learn("hop", 40.0, False)
    second.learn("adds", 6000.0, False)
    assert CalmHost(2).nanoseconds("hop") == 40.0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"hop": "far"}', '{"hop": null}', '{"hop": 0.0}', '{"hop": 1e9}']
)
def test_a_damaged_file_says_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    CalmHost(2).learn("hop", 40.0, False)
    (path,) = tmp_path.glob("hosts/*.calm.json")
    path.write_text(text)
    host = CalmHost(2)
    assert host.nanoseconds("hop") == 0.0
    host.learn("hop", 41.0, False)
    assert json.loads(path.read_text()) == {"hop": 41.0}


def test_a_folder_that_cannot_be_written_loses_nothing_but_the_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a file")
    host = CalmHost(2)
    host.learn("hop", 40.0, False)
    assert host.nanoseconds("hop") == 40.0
