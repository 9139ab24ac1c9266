"""``autotune search --devices``: one plan for several devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.search_options import SearchRequest
from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.progress import Report
from autotune.errors import InputError
from autotune.tuner.placement.objective import Serving

if TYPE_CHECKING:
    from autotune.runtime.device_search import DeviceSearch
    from autotune.tuner.placement.planned import PlannedDevices

DevicesOption = Annotated[
    str | None,
    typer.Option(
        "--devices",
        help="Several machines that run the network together, in place of --target: names with commas, such as "
        "edge,mobile,cpu.",
    ),
]
LinksOption = Annotated[
    Path | None,
    typer.Option(
        "--links",
        help="TOML file of the links between --devices, or measured: what this machine takes to hand a tensor over. "
        "Default: PCIe 3.0 ×4.",
    ),
]
ForOption = Annotated[
    Serving | None,
    typer.Option(
        "--for",
        help="What --devices serve: latency, one request at a time [default], or throughput, a stream.",
    ),
]


@dataclass(frozen=True, slots=True)
class DevicesRequest:
    """A search whose groups are placed on several machines."""

    search: SearchRequest
    devices: str
    links: Path | None
    serving: Serving


def check_device_options(
    devices: str | None, links: Path | None, serving: Serving | None, others: Sequence[str]
) -> None:
    """Raise ``InputError`` for options without ``--devices``, and for ``others`` that were given and do not go with it."""
    if devices is None:
        alone = "--links" if links is not None else "--for" if serving is not None else None
        if alone is not None:
            raise InputError(f"{alone} belongs to --devices; name several, such as edge,mobile,cpu")
        return
    if others:
        raise InputError(f"{others[0]} does not go with --devices; leave one of them out")


def run_device_search(request: DevicesRequest, heard: Report, json: bool) -> None:
    """Search, write plan and page, print what the devices do."""
    from autotune import api
    from autotune.report.devices_page import write_devices

    search = request.search
    result = api.search_devices(
        search.model,
        request.devices,
        request.links,
        request.serving,
        search.trials,
        search.measure,
        search.seed,
        search.dims,
        search.plan_file,
        search.store,
        progress=heard,
        accuracy=search.accuracy,
        ranges=search.ranges,
        time_limit_seconds=search.time_limit_seconds,
    )
    write_devices(result, search.command, search.report_file)
    if json:
        print_json(device_document(result))
    else:
        _print(result)
    say(f"plan: {search.plan_file}")
    say(f"report: {search.report_file}")


def device_document(result: DeviceSearch) -> dict[str, Any]:
    """Return the outcome as JSON has it."""
    planned = result.plan.devices
    assert planned is not None, "it is a plan for several devices"
    groups = [
        {"operators": one.operators, "device": one.device, "nanoseconds": one.measured_cycles}
        for one in result.plan.groups
    ]
    return {**planned.document(), "groups": groups}


def _print(result: DeviceSearch) -> None:
    planned = result.plan.devices
    assert planned is not None, "it is a plan for several devices"
    timeline = result.best.timeline()
    rows = []
    for number, device in enumerate(planned.names):
        count = sum(group.device == device for group in result.plan.groups)
        alone = planned.single_seconds.get(device)
        stream = planned.single_period_seconds.get(device)
        rows.append(
            (
                device,
                str(count),
                f"{1e3 * timeline.busy_seconds(number):,.3f}",
                "cannot" if alone is None else f"{1e3 * alone:,.3f}",
                "cannot" if stream is None else f"{1 / stream:,.1f}",
            )
        )
    columns = ("device", "groups", "busy ms", "alone ms", "alone requests/s")
    print_table(f"{result.plan.network} on {result.plan.target}", columns, rows)
    print_facts(_facts(planned, timeline.transferred_bytes))


def _facts(planned: PlannedDevices, transferred_bytes: int) -> dict[str, str]:
    best = planned.best_single
    facts = {
        "one request": f"{1e3 * planned.makespan_seconds:,.3f} ms",
        "stream": f"{1 / planned.period_seconds:,.1f} requests/s",
        "transferred": f"{transferred_bytes:,} bytes a request",
        "no placement beyond": f"{1e3 * planned.bound_seconds:,.3f} ms, "
        f"{1 / planned.stream_bound_seconds:,.1f} requests/s",
        "links": planned.links.description or "as given",
    }
    if best:
        gain = planned.single_seconds[best] / planned.makespan_seconds
        stream = min(planned.single_period_seconds.values()) / planned.period_seconds
        facts["of best single"] = (
            f"one request {gain:.3f} times as fast as on {best}, stream {stream:.3f} times the "
            "requests of the best device"
        )
    return facts
