"""The roofline of every group as the report of this machine shows it, between profile and page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.report.axis import short
from autotune.report.view import RooflineRow

if TYPE_CHECKING:
    from autotune.runtime.session.host_profile import HostGroup, HostProfile


def roofline_rows(profile: HostProfile) -> tuple[RooflineRow, ...]:
    """A row per group, in order of execution."""
    return tuple(_row(index, group) for index, group in enumerate(profile.groups))


def roofline_note(profile: HostProfile) -> str:
    """What the machine gives and how much of it the network takes, in a sentence or two."""
    roofs = profile.roofs
    return (
        f"Measured peak {short(roofs.flops)}FLOP/s, of which the network does "
        f"{profile.peak_fraction:.0%}; memory {short(roofs.memory_bytes)}B/s. The bound is the least time "
        "that peak, memory (for bytes that caches cannot hold from one use to the next) and second-level "
        f"cache allow; all bounds together are {profile.bound_fraction:.0%} of the time. Times are those of "
        f"the fastest of {profile.runs} runs. Reasons are guesses from where the time goes within a group; "
        "a CPU tells neither energy nor traffic."
    )


def _row(index: int, group: HostGroup) -> RooflineRow:
    steps = sorted(group.steps.items(), key=lambda item: -item[1])
    return RooflineRow(
        index,
        group.kinds,
        group.operators,
        group.seconds,
        group.share,
        group.work.flops,
        group.work.touched_bytes,
        group.work.memory_bytes,
        group.bound_seconds,
        group.limit.value,
        ", ".join(f"{kind} {share:.0%}" for kind, share in steps if share >= 0.005),
        group.reason,
    )
