"""Links of ``make bench-placement`` that are measured here, and how well they tell what a plan's transfers take."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from autotune.runtime.device_search import DeviceSearch
from autotune.runtime.devices.hand_over import hand_over_seconds, measure_link
from autotune.targets.link_memory import with_measured
from autotune.targets.link_spec import Links, read_links
from autotune.targets.opening import HOST, is_host, load_spec
from benchmarks.table import Table


def link_table(title: str, placed: Mapping[str, DeviceSearch], measured: Links) -> Table:
    """Return what hand-overs of the plans' tensors take on this machine, beside what the measured link says."""
    rows = []
    for name, search in placed.items():
        found = search.best
        mine = {number for number, device in enumerate(found.costed.devices) if is_host(device)}
        carried = [
            one
            for one in found.timeline().transfers
            if one.source in mine or one.destination in mine
        ]
        sizes = sorted({max(4, one.size_bytes) for one in carried})
        took = dict(zip(sizes, hand_over_seconds(sizes), strict=True))
        said = {size: measured.between("cpu", "edge").seconds(size) for size in sizes}
        errors = [said[size] / took[size] - 1 for size in sizes]
        total = [sum(by[max(4, one.size_bytes)] for one in carried) for by in (said, took)]
        rows.append(
            (
                name,
                str(len(carried)),
                f"{sizes[0]:,} to {sizes[-1]:,}",
                f"{1e6 * total[0]:,.1f}",
                f"{1e6 * total[1]:,.1f}",
                f"{total[0] / total[1]:.3f}",
                f"{min(errors):+.0%} to {max(errors):+.0%}",
            )
        )
        print(rows[-1], file=sys.stderr)
    columns = ("network", "transfers", "bytes each", "µs by the link", "µs measured", "ratio", "of one size")  # fmt: skip
    said_of = f"{title}; links: {measured.description}. Transfers of one request to and from this CPU's memory."
    return Table(said_of, columns, tuple(rows))


def measured_links(devices: Sequence[str]) -> Links:
    """Measure this machine's hand-overs, and join this CPU with the emulated devices by them."""
    return with_measured(read_links(), measure_link(load_spec(HOST).profile_id), devices)
