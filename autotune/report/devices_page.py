"""The page of a search for several devices: one request as lanes, single devices beside it, links and groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.disk.atomic_file import replace_file
from autotune.report.device_lanes import Lane, Piece, device_lanes
from autotune.report.document import KIND
from autotune.report.machine_bars import Bar, machine_bars
from autotune.report.machines_page import render

if TYPE_CHECKING:
    from autotune.runtime.device_search import DeviceSearch
    from autotune.tuner.placement.planned import PlannedDevices
    from autotune.tuner.placement.timeline import Timeline


def write_devices(result: DeviceSearch, command: str, path: Path) -> None:
    """Write the page of a search that ``command`` repeats. Raises ``OSError`` naming ``path``."""
    replace_file(path, devices_page(result, command).encode(), KIND)


def devices_page(result: DeviceSearch, command: str) -> str:
    """Return the page of a search for several devices as HTML text; nothing is loaded from elsewhere."""
    planned = result.plan.devices
    assert planned is not None, "it is a plan for several devices"
    timeline = result.best.timeline()
    return render(
        "devices.html",
        title=f"{result.plan.network} on {', '.join(planned.names)}",
        lead=_lead(planned, timeline),
        lanes=device_lanes(_lanes(result, timeline), 1e3 * timeline.makespan_seconds),
        charts=_charts(planned),
        links_note=planned.links.description or "As the file of links says.",
        link_columns=("between", "GB/s", "µs before the first byte"),
        link_rows=[
            (f"{first} and {second}", f"{link.bandwidth_bytes_per_second / 1e9:,.2f}", f"{1e6 * link.latency_seconds:,.2f}")
            for first, second, link in planned.links.joining(planned.names)
        ],
        group_columns=("group", "device", "begin ms", *(f"ms on {name}" for name in planned.names)),
        group_rows=_group_rows(result, planned, timeline),
        command=command,
    )  # fmt: skip


def _lead(planned: PlannedDevices, timeline: Timeline) -> str:
    best = planned.best_single
    gain = (
        f", {planned.single_seconds[best] / planned.makespan_seconds:.3f} times as fast as on {best} alone"
        if best
        else ""
    )
    return (
        f"One request takes {1e3 * planned.makespan_seconds:,.3f} ms{gain}; no placement of these groups takes less than "
        f"{1e3 * planned.bound_seconds:,.3f} ms. A stream has {1 / planned.period_seconds:,.1f} requests a second; none has more "
        f"than {1 / planned.stream_bound_seconds:,.1f}. Placed for {planned.serving.value}. Links carry "
        f"{timeline.transferred_bytes:,} bytes a request."
    )


def _lanes(result: DeviceSearch, timeline: Timeline) -> list[Lane]:
    costed = result.best.costed
    devices = [
        Lane(
            name,
            False,
            tuple(
                Piece(costed.tasks[one.task].name, 1e3 * one.begin_seconds, 1e3 * one.end_seconds)
                for one in timeline.slots
                if one.device == number and one.end_seconds > one.begin_seconds
            ),
        )
        for number, name in enumerate(costed.devices)
    ]
    ways = sorted({(one.source, one.destination) for one in timeline.transfers})
    links = [
        Lane(
            f"{costed.devices[source]} to {costed.devices[destination]}",
            True,
            tuple(
                Piece(
                    f"{one.tensor}, {one.size_bytes:,} bytes",
                    1e3 * one.begin_seconds,
                    1e3 * one.end_seconds,
                )
                for one in timeline.transfers
                if (one.source, one.destination) == (source, destination)
            ),
        )
        for source, destination in ways
    ]
    return [lane for lane in devices if lane.pieces or lane.name in result.devices.names] + links


def _charts(planned: PlannedDevices) -> list[tuple[str, str]]:
    """Return the bars of one request and of a stream: single devices, the plan, and what nothing undercuts."""
    one = (planned.makespan_seconds, planned.single_seconds, planned.bound_seconds)
    stream = (planned.period_seconds, planned.single_period_seconds, planned.stream_bound_seconds)
    return [
        ("Milliseconds of one request", machine_bars("One request", _bars(planned, *one))),
        (
            "Milliseconds between requests of a stream",
            machine_bars("A stream", _bars(planned, *stream)),
        ),
    ]


def _bars(
    planned: PlannedDevices, own: float, singles: Mapping[str, float], least: float
) -> list[Bar]:
    rows = [(f"{name} alone", singles.get(name)) for name in planned.names]
    return [
        Bar(label, None, "cannot run it", label)
        if seconds is None
        else Bar(label, 1e3 * seconds, f"{1e3 * seconds:,.3f} ms", label)
        for label, seconds in (*rows, ("this plan", own), ("no placement below", least))
    ]


def _group_rows(
    result: DeviceSearch, planned: PlannedDevices, timeline: Timeline
) -> list[tuple[str, ...]]:
    rows = []
    tasks = result.best.costed.tasks
    for slot in sorted(timeline.slots, key=lambda one: (one.begin_seconds, one.task)):
        if 0 < slot.task < len(tasks) - 1:
            task = tasks[slot.task]
            costs = task.seconds[: len(planned.names)]
            cells = ("–" if cost is None else f"{1e3 * cost:,.4f}" for cost in costs)
            name = result.best.costed.devices[slot.device]
            rows.append((task.name, name, f"{1e3 * slot.begin_seconds:,.4f}", *cells))
    return rows
