"""``autotune run --profile`` on this machine: time of each fusion group, against its roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_facts, print_table
from autotune.report.view import kinds_text, shares_text

if TYPE_CHECKING:
    from autotune.runtime.session.host_profile import HostGroup, HostProfile

WORST = 3
"""Groups with the largest losses that are named."""

NOT_MEASURED = None
"""Energy and DRAM traffic: no instruction tells a process of them."""


def parts_document(profiles: Mapping[str, HostProfile]) -> dict[str, Any]:
    """Return the profiles of a network's parts as JSON has them; those of one part without its name."""
    by_part = {
        name: {"groups": documents(p), "roofline": summary(p)} for name, p in profiles.items()
    }
    return next(iter(by_part.values())) if len(by_part) == 1 else {"profiles": by_part}


def documents(profile: HostProfile) -> list[dict[str, Any]]:
    """Return the groups as JSON has them; ``energy_fj`` and ``dram_bytes`` are null."""
    return [
        {
            "operators": group.operators,
            "kinds": group.kinds,
            "seconds": group.seconds,
            "share": group.share,
            "flops": group.work.flops,
            "touched_bytes": group.work.touched_bytes,
            "memory_bytes": group.work.memory_bytes,
            "bound_seconds": group.bound_seconds,
            "fraction": group.fraction,
            "limit": group.limit.value,
            "steps": {kind.value: share for kind, share in group.steps.items()},
            "parts": group.parts,
            "reason": group.reason,
            "energy_fj": NOT_MEASURED,
            "dram_bytes": NOT_MEASURED,
        }
        for group in profile.groups
    ]


def summary(profile: HostProfile) -> dict[str, Any]:
    """Return the whole network's figures as JSON has them, per second and as fractions."""
    return {
        "runs": profile.runs,
        "peak_flops": profile.roofs.flops,
        "memory_bytes_per_second": profile.roofs.memory_bytes,
        "cache_bytes_per_second": profile.roofs.cache_bytes,
        "run_seconds": profile.run_seconds,
        "seconds": profile.seconds,
        "overhead_seconds": profile.overhead_seconds,
        "waiting_seconds": profile.waiting_seconds,
        "peak_fraction": profile.peak_fraction,
        "bound_fraction": profile.bound_fraction,
        "steps": {kind.value: share for kind, share in profile.steps.items()},
    }


def print_profile(profile: HostProfile, part: str | None = None) -> None:
    """Print the tables of a network, or of its ``part``."""
    print_table(
        f"{'' if part is None else f'{part}: '}groups, the least time of each in {profile.runs} runs",
        ("group", "ms", "share", "MFLOP", "kB", "kB far", "bound ms", "of bound", "limit", "why"),
        [_row(group) for group in profile.groups],
    )
    roofs = profile.roofs
    print_facts(
        {
            **_balance(profile),
            "peak": f"{roofs.flops / 1e9:,.0f} GFLOP/s, of which the network does "
            f"{profile.peak_fraction:.0%}",
            "memory": f"{roofs.memory_bytes / 1e9:,.1f} GB/s; {roofs.capacity_bytes / 2**20:,.0f} "
            "MiB stay in cache; 'kB far' come from memory or go there",
            "of bound": f"{profile.bound_fraction:.0%} in all: the least time by peak, memory and "
            "cache, over the time taken",
            "time by step": shares_text(profile.steps),
            "energy, DRAM bytes": "not measured: a CPU does not tell them",
        }
    )
    for group in profile.worst(WORST):
        print_facts(
            {
                "loses most": f"{1e3 * group.lost_seconds:.3f} ms in {group_title(group)}: {group.reason}"
            }
        )


def _balance(profile: HostProfile) -> dict[str, str]:
    """Return lines that add up: groups, overhead, waiting where it is known, and the run."""
    rest = "inputs and outputs, dispatch, variation between runs"
    lines = {"groups": f"{1e3 * profile.seconds:,.3f} ms in all"}
    if profile.waiting_seconds:
        waiting = f"{1e3 * profile.waiting_seconds:,.3f} ms, in which other programs held the core"
        lines |= {
            "overhead": f"{1e3 * profile.overhead_seconds:,.3f} ms: {rest}",
            "waiting": waiting,
        }
    else:  # several threads: nobody tells what each of them waited
        rest = f"{rest}, waiting for cores"
        lines |= {"overhead": f"{1e3 * profile.overhead_seconds:,.3f} ms: {rest}"}
    run = f"{1e3 * profile.run_seconds:,.3f} ms, the fastest profiled run: the sum of these"
    return lines | {"run": run}


def group_title(group: HostGroup) -> str:
    """Return the kinds of a group's operators, and the name of its last one."""
    return f"{kinds_text(group.kinds)} ({group.operators[-1]})"


def _row(group: HostGroup) -> tuple[str, ...]:
    work = group.work
    return (
        group_title(group),
        f"{1e3 * group.seconds:.3f}",
        f"{group.share:.1%}",
        f"{work.flops / 1e6:,.2f}",
        f"{work.touched_bytes / 1e3:,.0f}",
        f"{work.memory_bytes / 1e3:,.0f}",
        f"{1e3 * group.bound_seconds:.3f}",
        f"{group.fraction:.0%}" if group.bound_seconds else "–",
        group.limit.value,
        group.reason,
    )
