"""One process at a time holds a profile's lock, and a process that dies frees it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from autotune.store.profile_lock import profile_lock
from autotune.store.store import Store
from tests.store.store_case import record, run_python

HOLDER = """
import sys, time
from autotune.store.store import Store
with Store.open(sys.argv[1]) as store, store.hold("p", lambda: None):
    print("holds", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["file", "server"])
def test_a_lock_is_waited_for_and_freed_by_death(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "a.db") if kind == "file" else request.getfixturevalue("server_url")
    waited: list[bool] = []
    holder = run_python(HOLDER, place)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"

    def end() -> None:
        waited.append(True)
        holder.send_signal(signal.SIGKILL)

    with Store.open(place, busy_seconds=0.05) as store:  # locks wait for longer than writes
        with store.hold("other machine", lambda: waited.append(False)):
            pass
        with store.hold("p", end):
            holder.wait(10)
            store.add([record(1)])
    holder.stdout.close()
    assert waited == [True]


def test_a_store_in_memory_has_no_locks() -> None:
    with Store.memory() as store, store.hold("p", lambda: None), store.hold("p", lambda: None):
        pass
    assert not Path(":memory:.p.lock").exists()


def test_a_folder_that_cannot_be_written_has_no_locks(tmp_path: Path) -> None:
    with profile_lock(str(tmp_path / "none" / "a.db"), "p", lambda: None):
        pass
