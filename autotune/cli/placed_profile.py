"""``autotune run --profile`` on several devices: each group of the last run on the timeline, and what slowed it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_table
from autotune.cli.emulator_profile import Stall, stalls_of
from autotune.report.view import group_label

if TYPE_CHECKING:
    from autotune.runtime.execution.execution import GroupRun
    from autotune.runtime.session.network_session import NetworkSession
    from autotune.tuner.placement.timeline import Timeline


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """One group on its device, in seconds from the begin of the run.

    ``idle_seconds`` is the time that the device waited before it, ``waited_for`` for what: the last of its operands on a
    link, or a group of another device; empty without waiting. ``received_bytes`` came over links for it and groups
    behind it. ``array_utilisation`` and ``stalls`` are None and empty on a device without counters.
    """

    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    device: str
    begin_seconds: float
    seconds: float
    share: float
    idle_seconds: float
    waited_for: str
    received_bytes: int
    array_utilisation: float | None
    stalls: tuple[Stall, ...]


def placed_groups(session: NetworkSession) -> list[PlacedGroup]:
    """Return the groups of the last run of a session of several devices, in the order of their begin."""
    last = session.last_run
    assert last.timeline is not None, "a run on several devices has a timeline"
    runs = {id(run.step): run for run in last.groups}
    ends: dict[int, float] = defaultdict(float)
    found = []
    for slot in sorted(last.timeline.slots, key=lambda one: (one.begin_seconds, one.task)):
        idle = slot.begin_seconds - ends[slot.device]
        ends[slot.device] = max(ends[slot.device], slot.end_seconds)
        inside = 0 < slot.task <= len(session.table.steps)
        run = runs.get(id(session.table.steps[slot.task - 1])) if inside else None
        if run is not None:
            came, waited_for = _arrivals(last.timeline, run, slot.device, slot.begin_seconds)
            found.append(
                PlacedGroup(
                    run.step.operators,
                    tuple(op.kind.value for op in run.step.group.ops),
                    run.step.device,
                    slot.begin_seconds,
                    slot.end_seconds - slot.begin_seconds,
                    (slot.end_seconds - slot.begin_seconds) / last.timeline.makespan_seconds,
                    idle,
                    waited_for if idle > 0 else "",
                    came,
                    *_counted(run),
                )
            )
    return found


def _arrivals(timeline: Timeline, run: GroupRun, device: int, begin: float) -> tuple[int, str]:
    """Return the bytes that links brought for a group, and what the last of them to come was."""
    own = set(run.step.group.inputs)
    mine = [one for one in timeline.transfers if one.destination == device and one.tensor in own]
    ready = [one for one in mine if one.end_seconds <= begin]
    latest = max(ready, key=lambda one: one.end_seconds, default=None)
    waited = "another group" if latest is None else f"{latest.tensor} on a link"
    return sum(one.size_bytes for one in mine), waited


def _counted(run: GroupRun) -> tuple[float | None, tuple[Stall, ...]]:
    counters = run.execution.counters
    if "matrix_utilisation_ppm" not in counters:
        return None, ()
    return counters["matrix_utilisation_ppm"] / 1e6, stalls_of(counters)


def documents(groups: list[PlacedGroup]) -> list[dict[str, Any]]:
    """Return the groups as JSON has them."""
    return [asdict(group) for group in groups]


def print_groups(groups: list[PlacedGroup]) -> None:
    """Print the groups as a table."""
    rows = [
        (
            group_label(one.kinds, one.operators),
            one.device,
            f"{1e3 * one.begin_seconds:,.3f}",
            f"{1e3 * one.seconds:,.3f}",
            f"{one.share:.0%}",
            f"{1e3 * one.idle_seconds:,.3f} {one.waited_for}" if one.waited_for else "",
            f"{one.received_bytes:,}",
            "" if one.array_utilisation is None else f"{one.array_utilisation:.1%}",
            "\n".join(f"{s.unit} {s.cause} {s.share:.0%}" for s in one.stalls),
        )
        for one in groups
    ]
    columns = ("group", "device", "begin ms", "ms", "of the request", "idle before, ms")
    print_table(
        "groups of the last run on the timeline of all devices",
        (*columns, "bytes by links", "array use", "stalls most on"),
        rows,
        texts=2,
    )
