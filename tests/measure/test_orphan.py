"""Workers of joblib and multiprocessing end with a parent that is killed, and free its pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.measure.test_interrupt import all_end

pytestmark = pytest.mark.slow  # starts worker processes

JOBLIB = """
import os, time
from joblib import Parallel, delayed
from autotune.measure.orphan import end_with_parent
pool = Parallel(2, backend="loky", initializer=end_with_parent, initargs=(os.getpid(),), batch_size=1)
def told(seconds):
    time.sleep(seconds)
    return os.getpid()
print(*set(pool(delayed(told)(0.5) for _ in range(4))), flush=True)
time.sleep(60)
"""
FORK = """
import multiprocessing, os, time
from autotune.measure.orphan import end_with_parent
with multiprocessing.get_context("fork").Pool(2, end_with_parent, (os.getpid(),)) as pool:
    print(*[worker.pid for worker in pool._pool], flush=True)
    pool.map(time.sleep, [60, 60])
"""


@pytest.mark.parametrize("script", [JOBLIB, FORK], ids=["joblib", "fork"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(script: str, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    workers = {int(word) for word in process.stdout.readline().split()}
    assert workers
    process.send_signal(number)
    process.communicate(timeout=30)  # returns when nobody holds the pipes any more
    assert all_end(workers)
