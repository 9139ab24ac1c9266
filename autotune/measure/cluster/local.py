"""A cluster of this machine: a scheduler in this process, and workers that end with it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
from typing import Any

from distributed import Scheduler
from distributed.deploy.spec import SpecCluster
from distributed.deploy.subprocess import SubprocessWorker

HOST = "127.0.0.1"
QUIET = {
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}
"""Settings of Dask for local workers: no log, no sampling of the measuring thread."""


class _Workers(SubprocessWorker):  # type: ignore[misc]  # Dask has no types here
    """``count`` workers and one process of nannies that starts them again, apart from the terminal: Ctrl-C is
    this process's to handle.

    All end when the scheduler in this process is gone, however that ended.
    """

    def __init__(self, scheduler: str, name: object, count: int, options: dict[str, Any]) -> None:
        super().__init__(scheduler, name=name, worker_kwargs=options)
        self._count = count

    async def _start(self) -> None:
        one = {"cls": self.worker_class, "opts": self.worker_kwargs}
        spec = json.dumps({str(number): one for number in range(self._count)})
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dask", "spec", self.scheduler, "--spec", spec),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | QUIET,
            start_new_session=True,
        )


def start(count: int) -> Any:
    """Start a scheduler and ``count`` workers of one thread each; return the cluster, which ``close`` ends."""
    options = {
        "host": HOST,
        "nthreads": 1,
        "memory_limit": 0,  # measurements hold little, and a pause would be a straggler
        "dashboard": False,
        "local_directory": tempfile.gettempdir(),
    }
    workers = {"cls": _Workers, "options": {"count": count, "options": options}}
    scheduler = {
        "cls": Scheduler,
        "options": {"host": HOST, "port": 0, "dashboard": False, "dashboard_address": None},
    }
    return SpecCluster(
        workers={0: workers},
        scheduler=scheduler,
        worker=workers,
        silence_logs=logging.CRITICAL,
        name="autotune",
    )
