"""``autotune targets links``: measure hand-overs between this CPU and other devices of a session, and keep the link."""

from __future__ import annotations

from dataclasses import asdict

from autotune.cli.console import print_facts, print_json, print_table
from autotune.cli.options import JsonOption


def links(json: JsonOption = False) -> None:
    """Measure how long this machine takes to hand tensors to a device of a session; ``search --links measured`` uses it."""
    from autotune.disk.home import home
    from autotune.runtime.devices.hand_over import measure_link
    from autotune.targets.link_memory import FILE_NAME
    from autotune.targets.opening import HOST, load_spec

    spec = load_spec(HOST)
    found = measure_link(spec.profile_id)
    if json:
        rows = [
            {"size_bytes": size, "seconds": seconds, "link_seconds": found.link.seconds(size)}
            for size, seconds in found.samples
        ]
        print_json(
            {
                "profile_id": spec.profile_id,
                **asdict(found.link),
                "worst_error": found.worst_error,
                "samples": rows,
            }
        )
        return
    cells = [
        (
            f"{size:,}",
            f"{1e6 * seconds:,.1f}",
            f"{1e6 * found.link.seconds(size):,.1f}",
            f"{found.link.seconds(size) / seconds - 1:+.0%}",
        )
        for size, seconds in found.samples
    ]
    columns = ("bytes", "measured µs", "by the link µs", "error")
    print_table("hand-overs of a tensor on this machine", columns, cells, texts=0)
    print_facts(
        {
            "link": found.text,
            "hardware profile": spec.profile_id,
            "kept in": str(home() / FILE_NAME),
        }
    )
