"""Thread that writes this process's status file while sessions are open, and adds up their runs."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.disk.home import status_folder
from autotune.errors import InputError
from autotune.runtime.profile.status import SessionStatus

INTERVAL_SECONDS = 2.0
"""Time between two files. The first one comes after it, too: short commands write none."""
LARGEST_SHARE = 0.001
"""Share of one CPU's time that writing may take: files with many groups come less often."""
GROUPS_TOLD = 64
"""Groups of a session in its file, those that took most."""


class StatusWriter:
    """Writes what ``statuses`` returns until that is nothing. Safe to use from several threads."""

    def __init__(self, statuses: Callable[[], Sequence[SessionStatus]]) -> None:
        self._statuses = statuses
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._folder: Path | None = None

    def wake(self) -> None:
        """Write from now on, if that is not so already."""
        with self._lock:
            if self._thread is not None or self._stopping.is_set():
                return
            self._folder = _folder()
            self._thread = threading.Thread(
                target=self._write_until_idle, name="autotune-status", daemon=True
            )
            self._thread.start()
        atexit.register(self._stop)

    def _write_until_idle(self) -> None:
        wait = INTERVAL_SECONDS
        while not self._stopping.wait(wait):
            began = time.thread_time()
            if self._write():
                return
            wait = max(INTERVAL_SECONDS, (time.thread_time() - began) / LARGEST_SHARE)

    def _write(self) -> bool:
        """Write the file once; return True if there is nothing left to tell."""
        statuses = self._statuses()
        with self._lock:
            if not statuses:
                self._thread = None
                self._remove()
                return True
        from autotune.runtime.profile.status_file import write_status  # no session waits for it

        documents = [one.to_json(GROUPS_TOLD) for one in statuses]
        if self._folder is not None and not write_status(documents, time.time(), self._folder):
            self._folder = None
        return False

    def _stop(self) -> None:
        """Remove the file at the end of the process."""
        self._stopping.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(1.0)
        self._remove()

    def _remove(self) -> None:
        atexit.unregister(self._stop)
        if self._folder is not None and self._folder.exists():
            from autotune.runtime.profile.status_file import remove_status

            remove_status(self._folder)


def _folder() -> Path | None:
    try:
        return status_folder()
    except InputError:  # the home of a user who does not exist: opening has warned of it
        return None
