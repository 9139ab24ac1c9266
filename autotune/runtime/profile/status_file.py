"""Status files: every process that runs sessions tells the user's other processes about them.

One file a process, in a private folder beside the caches. It appears whole, and it is read only while
its process lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.private_folder import is_own, is_trusted, make_private
from autotune.disk.regular_file import open_regular
from autotune.errors import InputError

SCHEMA = 1
_SUFFIX = ".status.json"
_LIMIT_BYTES = 16 << 20
"""Largest file that is read."""
_FRESH_SECONDS = 60.0
"""A file of another host, whose processes cannot be asked for, counts as live while it is as new."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its number, when it started by its host's clock, and where."""

    pid: int
    started: str
    host: str

    @property
    def is_alive(self) -> bool:
        """True if the process runs on this host."""
        return self.host == _host() and self.started == _started(self.pid)


@cache
def _process(pid: int) -> Process:
    """Return a process of this host; kept, as the one that writes asks again and again."""
    return Process(pid, _started(pid) or "", _host())


def write_status(sessions: list[dict[str, Any]], at_seconds: float, folder: Path) -> bool:
    """Write this process's status; return False where the disk or its owner forbids it."""
    process = _process(os.getpid())
    document = {
        "schema": SCHEMA,
        "pid": process.pid,
        "started": process.started,
        "host": process.host,
        "at": at_seconds,
        "sessions": sessions,
    }
    try:
        make_private(folder)
        if not is_trusted(folder):
            return False
        content = json.dumps(document, separators=(",", ":"))
        replace_file(_path(folder, process.pid), content, mode=PRIVATE_MODE, synced=False)
    except (OSError, InputError):  # a home that cannot be written; opening has warned of it
        return False
    return True


def remove_status(folder: Path) -> None:
    """Remove this process's file."""
    with contextlib.suppress(OSError):
        _path(folder, os.getpid()).unlink(missing_ok=True)


def read_statuses(folder: Path, now_seconds: float) -> list[dict[str, Any]]:
    """Return the documents of all live processes by their number; remove those of dead ones."""
    try:
        if not is_trusted(folder):
            return []
    except OSError:  # no session ever ran
        return []
    found = [_live(path, now_seconds) for path in sorted(folder.glob(f"*{_SUFFIX}"))]
    return sorted((one for one in found if one is not None), key=lambda one: int(one["pid"]))


def _live(path: Path, now_seconds: float) -> dict[str, Any] | None:
    document = _read(path)
    if document is None:
        return None
    process = Process(document["pid"], document["started"], document["host"])
    if process.host != _host():
        return document if now_seconds - document["at"] < _FRESH_SECONDS else None
    if process.is_alive:
        return document
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    return None


def _read(path: Path) -> dict[str, Any] | None:
    """Return a document of this schema; None for anything else."""
    try:
        with open_regular(path) as file:
            if not is_own(os.fstat(file.fileno())):
                return None
            document: dict[str, Any] = json.loads(file.read(_LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return document if _is_status(document) else None


def _is_status(document: object) -> bool:
    """Return True for a document of this schema with the fields that readers take for granted."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return False
    texts, numbers = ("started", "host"), ("pid", "at")
    return (
        all(isinstance(document.get(x), str) for x in texts)
        and all(isinstance(document.get(x), int | float) for x in numbers)
        and isinstance(document.get("sessions"), list)
    )


def _path(folder: Path, pid: int) -> Path:
    return folder / f"{pid}{_SUFFIX}"


@cache
def _host() -> str:
    """Return what tells apart the places where process numbers mean different processes."""
    space = ""
    with contextlib.suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()} {space}".strip()


def _started(pid: int) -> str | None:
    """Return when a process started, in its host's ticks; None for no process, "" where unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
