"""Status files show live processes only, appear whole, and go with their process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from autotune.runtime.profile import status_file, status_writer
from autotune.runtime.profile.status_file import read_statuses, remove_status, write_status
from autotune.runtime.profile.status_writer import StatusWriter

NOW = 1000.0


def written(folder: Path, **changes: Any) -> Path:
    """This process's file, with other fields."""
    assert write_status([{"network": "net"}], NOW, folder)
    path = folder / f"{os.getpid()}.status.json"
    document = json.loads(path.read_text()) | changes
    other = path.with_name(f"{document['pid']}.status.json")
    other.write_text(json.dumps(document))
    return other


def test_a_written_status_is_read_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "status"
    assert read_statuses(folder, NOW) == []
    path = written(folder)
    (found,) = read_statuses(folder, NOW + 1e6)
    assert (found["pid"], found["sessions"]) == (os.getpid(), [{"network": "net"}])
    assert path.stat().st_mode & 0o077 == 0
    remove_status(folder)
    assert read_statuses(folder, NOW) == []
    remove_status(folder)


def test_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    dead = written(tmp_path, pid=child.pid)
    reused = written(tmp_path, pid=os.getppid(), started="another process of this number")
    assert [one["pid"] for one in read_statuses(tmp_path, NOW)] == [os.getpid()]
    assert not dead.exists() and not reused.exists()


def test_files_of_another_host_count_while_they_are_fresh(tmp_path: Path) -> None:
    other = written(tmp_path, pid=1, host="elsewhere")
    assert len(read_statuses(tmp_path, NOW + 10)) == 2
    assert len(read_statuses(tmp_path, NOW + 1000)) == 1
    assert other.exists(), "its process may live"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"schema": 1}', '{"schema": 2, "pid": 1}', "\xff", "[" * 100_000],
)
def test_whatever_lies_in_a_file_is_passed_over(content: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "7.status.json").write_text(content, encoding="latin-1")
    assert len(read_statuses(tmp_path, NOW)) == 1


def test_pipes_and_files_that_others_can_write_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path)
    os.mkfifo(tmp_path / "8.status.json")
    assert len(read_statuses(tmp_path, NOW)) == 1
    path.chmod(0o666)
    assert read_statuses(tmp_path, NOW) == []


def test_a_folder_that_cannot_be_written_is_told_once_by_false(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert not write_status([], NOW, tmp_path / "file" / "status")


class Status:
    """Stands in for a session's."""

    def to_json(self, groups: int) -> dict[str, Any]:
        return {"network": "net"}


def test_the_writer_writes_until_nothing_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    monkeypatch.setattr(status_writer, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "LARGEST_SHARE", 1e9)
    here, seen = [Status()], threading.Event()

    def statuses() -> list[Status]:
        if read_statuses(tmp_path / "cache" / "status", NOW):
            seen.set()
        return list(here)

    writer = StatusWriter(statuses)
    writer.wake()
    writer.wake()
    thread = writer._thread
    assert thread is not None and seen.wait(30)
    here.clear()
    thread.join(30)
    assert not thread.is_alive()
    assert read_statuses(tmp_path / "cache" / "status", NOW) == []
    here.append(Status())
    writer.wake()
    again = writer._thread
    assert again is not None, "it begins anew"
    writer._stop()
    assert not again.is_alive()


RUNNING = """if True:
    import os, sys, time
    from autotune.runtime.profile import status_writer
    from autotune.runtime.profile.registry import registry
    from autotune.runtime.profile.session_profile import SessionProfile

    class Status:
        def to_json(self, groups):
            return {"network": "net"}

    status_writer.INTERVAL_SECONDS = 0.05
    registry().open(SessionProfile("machine"), Status)
    print("open", flush=True)
    if sys.argv[1] == "fork":
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
    sys.stdin.readline()
"""


def opened(home: Path, how: str) -> subprocess.Popen[str]:
    """A process with an open session, once its file is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNING, how],
        env=os.environ | {"AUTOTUNE_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    for _ in range(600):
        if read_statuses(home / "cache" / "status", NOW):
            return process
        threading.Event().wait(0.05)
    raise AssertionError("no status file came")


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_process_is_shown_to_others_while_it_lives(how: str, tmp_path: Path) -> None:
    process, folder = opened(tmp_path, how), tmp_path / "cache" / "status"
    (found,) = read_statuses(folder, NOW)
    assert found["pid"] == process.pid
    assert found["sessions"] == [{"network": "net"}]
    if how == "kill":
        process.send_signal(signal.SIGKILL)
    process.communicate("\n", timeout=60)
    assert list(folder.glob("*.json")) == [] or how == "kill"
    assert read_statuses(folder, NOW) == []
    assert list(folder.glob("*.json")) == []


def test_a_fork_does_not_tell_its_parents_sessions(tmp_path: Path) -> None:
    process, folder = opened(tmp_path, "fork"), tmp_path / "cache" / "status"
    assert [one["pid"] for one in read_statuses(folder, NOW)] == [process.pid]
    process.communicate("\n", timeout=60)
    assert read_statuses(folder, NOW) == []


def test_processes_are_told_apart_by_their_start(tmp_path: Path) -> None:
    assert status_file._started(os.getpid()) == status_file._started(os.getpid())
    assert status_file._started(2**22 + 1) is None
