"""``autotune serve``: predictions, best known schedules and plans over HTTP."""

from __future__ import annotations

import importlib.util
import os
import socket
from typing import Annotated

import typer

from autotune.cli.console import say
from autotune.cli.options import StoreOption
from autotune.errors import InputError

NEEDED = ("fastapi", "uvicorn", "prometheus_client")
TOKEN = "AUTOTUNE_TOKEN"

TargetsOption = Annotated[
    str | None,
    typer.Option("--targets", help="Machines with commas. Default: every emulated one that ships."),
]
HostOption = Annotated[
    str,
    typer.Option("--host", help=f"Address to listen on; others than this machine need {TOKEN}."),
]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")]
RateOption = Annotated[
    float, typer.Option("--rate", min=0.1, help="Requests per second of a client.")
]
SecondsOption = Annotated[
    float,
    typer.Option("--seconds", min=0.1, help="Time for an answer; a plan has 20 times as much."),
]


def serve(
    targets: TargetsOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8787,
    rate: RateOption = 20_000.0,
    seconds: SecondsOption = 30.0,
    store: StoreOption = None,
) -> None:
    """Answer predictions, best known schedules and plans over HTTP until Ctrl-C."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} is missing: pip install 'autotune[serve]'")
    from autotune.api import opened
    from autotune.serve.application import create_application
    from autotune.serve.limits import Limits
    from autotune.serve.oracle import Oracle
    from autotune.serve.server import check_open
    from autotune.serve.server import serve as run
    from autotune.targets.opening import spec_names

    token = os.environ.get(TOKEN) or None
    check_open(host, token)
    port = _free_port(host, port)
    names = spec_names() if targets is None else [one.strip() for one in targets.split(",")]
    limits = Limits(rate=rate, seconds=seconds, plan_seconds=20 * seconds)
    with opened(store) as records:
        oracle = Oracle.open(names, records, limits)
        say(f"http://{host}:{port}/docs answers for {', '.join(oracle.predictors)}; Ctrl-C ends it")
        served = run(create_application(oracle, token), host, port)
        say(served.text(f"{host}:{port}"))


def _free_port(host: str, port: int) -> int:
    """Return a port that is free. Raises ``InputError`` for one that is taken, and for a wrong address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"{host}:{port}: {error.strerror or error}; give another --port"
            ) from None
        bound: int = probe.getsockname()[1]
        return bound
