"""``--trace``: its options, and the trace file of the programs that a command times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.console import say
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.report.trace_file import TraceFile
    from autotune.runtime.session.network_session import NetworkSession
    from autotune.targets.emulator.target import EmulatorTarget
    from autotune.targets.protocol import Target

TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="File for what every unit did when, for Perfetto or chrome://tracing; .gz: packed.",
    ),
]
TraceLimitOption = Annotated[
    int | None,
    typer.Option("--trace-limit", min=1, help="Events that go to the trace [default: a million]."),
]


def require_emulated(target: Target, remedy: str = "") -> EmulatorTarget:
    """Return the target as an emulated one. Raises ``InputError`` with the ``remedy`` for any other."""
    from autotune.targets.emulator.target import EmulatorTarget

    if not isinstance(target, EmulatorTarget):
        raise InputError(
            f"{target.name} is not emulated; {remedy or 'only an emulated machine can be traced'}"
        )
    return target


@contextmanager
def open_trace_file(
    path: Path, title: str, target: Target, limit: int | None
) -> Iterator[TraceFile]:
    """Open the trace file at ``path`` for the block; say when events did not fit."""
    from autotune.report.trace_file import writing
    from autotune.targets.emulator.trace import EVENT_LIMIT

    with writing(path, title, target.spec, EVENT_LIMIT if limit is None else limit) as file:
        yield file
    if file.dropped:
        say(
            f"{path}: {file.dropped:,} events beyond the limit were dropped; raise --trace-limit to "
            f"{file.recorded + file.dropped} to see all of them"
        )


def record_trace(session: NetworkSession, path: Path, limit: int | None) -> None:
    """Execute every program of the session's plan once more, without numbers, into a trace file.

    Of a session of several devices, the timeline of the last run. Raises ``InputError`` for any other target that is not
    emulated.
    """
    from autotune.cli.device_profile import devices_of, record_device_trace

    devices = devices_of(session)
    if devices is not None:
        record_device_trace(session, devices, path, limit)
        return
    machine = require_emulated(session.target)
    parts = session.parts.values()
    title = next((part.graph.name for part in parts), "")
    with open_trace_file(path, title, machine, limit) as file:
        for step in (step for part in parts for step in part.table.group_steps):
            _, trace = machine.trace(step.program, limit=file.room)
            file.add(trace, " + ".join(step.operators))
