"""``autotune run`` on several devices: what each did in a run, and the trace of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_facts, print_table, say
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.runtime.session.network_session import NetworkSession
    from autotune.targets.device_set import DeviceSet
    from autotune.tuner.placement.timeline import Timeline

STREAM = 64
"""Requests of the stream whose rate is told."""


def devices_of(session: NetworkSession) -> DeviceSet | None:
    """Return the devices of a session of several; None for any other session."""
    from autotune.targets.device_set import DeviceSet

    return session.target if isinstance(session.target, DeviceSet) else None


def devices_document(session: NetworkSession) -> dict[str, Any]:
    """Return what each device did in the last run, as JSON has it; nothing for a session of one."""
    devices, timeline = devices_of(session), session.last_run.timeline
    if devices is None or timeline is None:
        return {}
    return {
        "devices": {
            name: {"groups": groups, "busy_seconds": busy_seconds}
            for name, groups, busy_seconds in _rows(session, devices, timeline)
        },
        "makespan_seconds": timeline.makespan_seconds,
        "stream_seconds": _stream_seconds(session, devices),
        "stream_requests": STREAM,
        "transferred_bytes": timeline.transferred_bytes,
    }


def print_devices(session: NetworkSession) -> None:
    """Print what each device did in the last run; nothing for a session of one."""
    devices, timeline = devices_of(session), session.last_run.timeline
    if devices is None or timeline is None:
        return
    clock = {name: "wall" if _is_here(devices, name) else "emulated" for name in devices.by_name}
    rows = [
        (name, clock[name], str(groups), f"{1e3 * seconds:,.3f}")
        for name, groups, seconds in _rows(session, devices, timeline)
    ]
    print_table("devices", ("device", "time", "groups", "busy ms"), rows, texts=2)
    rate = STREAM / _stream_seconds(session, devices)
    print_facts(
        {
            "one request": f"{1e3 * timeline.makespan_seconds:,.3f} ms on the timeline of devices and links",
            "stream": f"{rate:,.1f} requests/s, {STREAM} that arrive together",
            "transferred": f"{timeline.transferred_bytes:,} bytes in {len(timeline.transfers)} transfers",
        }
    )


def record_device_trace(
    session: NetworkSession, devices: DeviceSet, path: Path, limit: int | None
) -> None:
    """Write the timeline of the last run. Raises ``InputError`` where another session served it."""
    from autotune.report.device_trace import DeviceTrace
    from autotune.runtime.execution.program_table import GroupStep
    from autotune.targets.emulator.trace import EVENT_LIMIT

    timeline = session.last_run.timeline
    if timeline is None:
        raise InputError(f"{session.name}: the last run was not one of several devices")
    groups = [
        (" + ".join(step.operators), step.program) if isinstance(step, GroupStep) else None
        for step in session.table.steps
    ]
    most = EVENT_LIMIT if limit is None else limit
    trace = DeviceTrace(session.name, devices, [None, *groups, None], timeline, most)
    trace.write(path)
    if trace.dropped:
        say(
            f"{path}: {trace.dropped:,} events beyond the limit were dropped; raise --trace-limit to "
            f"{trace.recorded + trace.dropped} to see all of them"
        )


def _is_here(devices: DeviceSet, name: str) -> bool:
    from autotune.targets.emulator.target import EmulatorTarget

    return not isinstance(devices.by_name[name], EmulatorTarget)


def _rows(
    session: NetworkSession, devices: DeviceSet, timeline: Timeline
) -> list[tuple[str, int, float]]:
    """Return the groups of each device and the seconds that it worked."""
    steps = session.table.steps
    return [
        (name, sum(step.device == name for step in steps), timeline.busy_seconds(number))
        for number, name in enumerate(devices.by_name)
    ]


def _stream_seconds(session: NetworkSession, devices: DeviceSet) -> float:
    from autotune.runtime.devices.placed_table import stream_seconds

    return stream_seconds(session.table, devices, session.last_run.groups, STREAM)
