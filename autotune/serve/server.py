"""Runs the service by uvicorn until SIGTERM or Ctrl-C; requests in flight are answered."""

from __future__ import annotations

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


def serve(application: Gate, host: str, port: int) -> None:
    """Serve until a signal. Raises ``SystemExit`` where the port is taken, as uvicorn does."""
    uvicorn.run(
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
