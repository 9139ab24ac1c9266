"""Measured child processes: what one run costs in CPU seconds and memory, apart from its parent.

A worker prints one JSON object: its measurements and ``spent()``. ``run_child`` starts the worker
and reads the object. This module imports only the standard library, so that small workers stay small.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""Unit of ``ru_maxrss`` (getrusage(2))."""


def spent() -> dict[str, float]:
    """CPU seconds (user and system) and peak resident bytes of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": _peak_bytes() or usage.ru_maxrss * RSS_UNIT_BYTES,
    }


def _peak_bytes() -> int:
    """Linux: the high-water mark since exec (``ru_maxrss`` starts from the parent's); else 0."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(marks[0].split()[1]) * 1024 if marks else 0


_AUTOGROUP = Path("/proc/self/autogroup")
"""The group of this process's session, where Linux shares its cores by sessions (sched(7))."""


def raise_priority() -> None:
    """Before other work of the machine, where that is allowed: it only adds to what is timed.

    Where Linux shares cores by sessions, a priority counts within one alone: the process takes a session of its own.
    """
    tasks = Path("/proc/self/task")  # numpy's threads are there already
    threads = [int(task.name) for task in tasks.iterdir()] if tasks.exists() else [0]
    with contextlib.suppress(PermissionError):
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, -15)
    if not _AUTOGROUP.exists():
        return
    with contextlib.suppress(OSError):  # the leader of a group: it keeps its session
        os.setsid()
        _AUTOGROUP.write_text("-15")


def best_cpu_seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """Least CPU seconds of a few calls: the machine is shared, other work only adds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def command(python: Path, worker: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a worker module; its working directory must be ``ROOT``."""
    return [str(python), "-m", worker, *arguments]


def run_child(python: Path, worker: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a worker module with an interpreter and return the object that it printed.

    Raises ``RuntimeError`` with the end of its error output if it fails.
    """
    done = subprocess.run(
        command(python, worker, arguments), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{worker} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer
