"""One process at a time holds a profile's lock, and a process that dies frees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from autotune.store.profile_lock import profile_lock

HOLDER = """
import sys, time
from autotune.store.profile_lock import profile_lock
with profile_lock(sys.argv[1], "p", lambda: None):
    print("holds", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_waited_for_and_freed_by_death(tmp_path: Path) -> None:
    place, waited = str(tmp_path / "autotune.db"), []
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, place],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"

    def end() -> None:
        waited.append(True)
        holder.send_signal(signal.SIGKILL)

    with profile_lock(place, "other machine", lambda: waited.append(False)):
        pass
    with profile_lock(place, "p", end):
        holder.wait(10)
    holder.stdout.close()
    assert waited == [True]


def test_a_store_in_memory_has_no_locks() -> None:
    with profile_lock(":memory:", "p", lambda: None), profile_lock(":memory:", "p", lambda: None):
        pass
    assert not Path(":memory:.p.lock").exists()


def test_a_folder_that_cannot_be_written_has_no_locks(tmp_path: Path) -> None:
    with profile_lock(str(tmp_path / "none" / "a.db"), "p", lambda: None):
        pass
