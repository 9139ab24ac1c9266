"""Ctrl-C and a killed parent leave no process behind, and no result that was yielded is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.measure.measure_case import CTRL_C
from tests.measure.test_runner import is_gone

pytestmark = pytest.mark.slow  # starts worker processes


GUARD_SECONDS = 60
"""Against a hang; a busy machine may take its time."""


def start(folder: Path) -> tuple[subprocess.Popen[str], set[int]]:
    """The script in a session of its own, once it has measured 20; and its workers."""
    script = folder / "script.py"
    script.write_text(CTRL_C)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    rows = [process.stdout.readline().split() for _ in range(20)]
    assert [int(index) for index, _ in rows] == list(range(20))
    return process, {int(pid) for _, pid in rows}


def all_end(pids: set[int], within_seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        if all(map(is_gone, pids)):
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_ends_the_workers_quietly(tmp_path: Path) -> None:
    process, workers = start(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=GUARD_SECONDS)
    assert (out, err, process.returncode) == ("interrupted\n", "", 0)
    assert all_end(workers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    process, workers = start(tmp_path)
    process.send_signal(number)
    _, err = process.communicate(timeout=GUARD_SECONDS)
    assert err == ""
    assert all_end(workers)
