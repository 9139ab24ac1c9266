"""Runs the service by uvicorn until SIGTERM or Ctrl-C; requests in flight are answered."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from types import FrameType

import uvicorn

from autotune.errors import InputError
from autotune.serve.gate import Gate

LOOPBACK = ("127.0.0.1", "::1", "localhost")
GRACE_SECONDS = 30
"""Time that requests in flight have when the service ends."""
WAITING = 2048
"""Connections that wait to be accepted."""


def check_open(host: str, token: str | None) -> None:
    """Raise ``InputError`` for a service that others could reach without a token."""
    if host not in LOOPBACK and not token:
        raise InputError(
            f"{host} is reachable from elsewhere: set AUTOTUNE_TOKEN, or leave --host out for this machine alone"
        )


@dataclass(frozen=True, slots=True)
class Served:
    """What a service did until ``signal_name`` ended it.

    It answered ``requests``, of which ``finished`` were under way then. ``cut`` others were not answered within the grace.
    """

    signal_name: str
    requests: int
    finished: int
    cut: int

    def text(self, place: str) -> str:
        """Return one line about the end of the service at ``place``."""
        requests = f"{self.requests:,} request{'' if self.requests == 1 else 's'}"
        under_way = f", {self.finished:,} of them after the signal" if self.finished else ""
        cut = f"; {self.cut:,} were cut off after {GRACE_SECONDS} s" if self.cut else ""
        return f"{self.signal_name}: answered {requests}{under_way}{cut}; {place} is free again"


class _Server(uvicorn.Server):
    """uvicorn's server, which keeps its first signal and the requests that were under way then."""

    def __init__(self, config: uvicorn.Config, application: Gate) -> None:
        super().__init__(config)
        self._traffic = application.traffic
        self.signal_name = ""
        self.before = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if not self.signal_name:
            self.signal_name = signal.Signals(sig).name
            self.before = self._traffic.answered
        super().handle_exit(sig, frame)


def serve(application: Gate, host: str, port: int) -> Served:
    """Serve until a signal; return what was done. Raises ``SystemExit`` where the port is taken, as uvicorn does."""
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        log_level="error",  # warnings are one for every broken request: clients would fill the log
        access_log=False,
        server_header=False,
        backlog=WAITING,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
    )
    server = _Server(config, application)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises its signals again at its end
        server.run()
    traffic = application.traffic
    return Served(
        server.signal_name,
        traffic.answered,
        traffic.answered - server.before,
        traffic.cut,
    )
