"""Connections to Dask: opens a scheduler's, or starts one here with local workers. Only this module and
``local`` import Dask, and both are imported when a user asks for workers."""

from __future__ import annotations

import re
import sys
from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin

from autotune.errors import TargetError
from autotune.measure.cluster.announcement import MISSING, PREFIX

CONNECT_SECONDS = 10.0
"""Longest time until a scheduler answers."""


def connect(address: str, paths: tuple[str, ...] = ()) -> Any:
    """Return a client of the scheduler at ``address`` whose workers announce what they measure.

    ``paths`` are folders that workers import from besides their own. Raises ``TargetError`` if no scheduler
    answers there.
    """
    try:
        client = Client(
            address,
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            name=PREFIX,
            direct_to_workers=False,
        )
    except (OSError, ValueError) as error:
        cause = " ".join(str(error.__cause__ or error).split()) or type(error).__name__
        cause = re.sub(r"in <.*? object at 0x\w+>: ", "", cause)  # what of Dask said it
        raise TargetError(
            f"{address}: no Dask scheduler answers ({cause:.120}); start one there with 'dask scheduler', "
            "and give the address that it prints"
        ) from None
    client.register_plugin(announcer(paths), name=PREFIX)
    return client


def announcer(paths: tuple[str, ...]) -> WorkerPlugin:
    """Return the plug-in that lets present and later workers announce what they measure.

    Its class is local: so it travels as code, and a worker without autotune can load it as well.
    """
    missing = MISSING

    class Announcer(WorkerPlugin):  # type: ignore[misc]  # Dask has no types here
        idempotent = True

        async def setup(self, worker: Any) -> None:
            sys.path.extend(path for path in paths if path not in sys.path)
            try:
                from autotune.measure.cluster.announcement import announce
            except ImportError:
                await worker.set_resources(**{missing: 1.0})
                return
            await announce(worker)

    return Announcer()
