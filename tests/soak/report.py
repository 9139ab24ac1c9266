"""The report of a soak: what was served, what struck, what grew, what was slow, what was wrong."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.soak import Soak


def lines(soak: Soak) -> Iterator[str]:
    """Say what came of a soak, in lines."""
    tally, watch = soak.tally, soak.watch
    yield (
        f"{sum(tally.requests.values())} requests in {soak.seconds:.0f} s of seed {soak.options.seed}: "
        f"{tally.wrong} wrong, {tally.failed} failed, {tally.turned_away} turned away by a session just closed"
    )
    yield "requests: " + ", ".join(f"{name} {n}" for name, n in sorted(tally.requests.items()))
    yield "faults: " + ", ".join(f"{name} {n}" for name, n in sorted(soak.struck.items()))
    yield "events: " + ", ".join(f"{name} {n}" for name, n in sorted(soak.events.items()))
    if watch.samples:
        first, last = watch.samples[0], watch.samples[-1]
        yield (
            f"memory: {first.rss_bytes / 2**20:.0f} MiB, then {last.rss_bytes / 2**20:.0f}; from the second "
            f"quarter to the last {watch.growth('rss_bytes') / 2**20:+.1f} MiB"
        )
        yield "; ".join(
            f"{name} at most {watch.most(name)} ({watch.growth(name):+g})"
            for name in ("threads", "files", "children", "events")
        )
    yield from soak.latencies.lines()
    complaints = soak.complaints()
    yield from (f"WRONG: {text}" for text in complaints)
    yield (
        "all was well"
        if not complaints
        else f"{len(complaints)} things were not well; repeat it: {again(soak)}"
    )


def again(soak: Soak) -> str:
    """Return the command that draws the same faults, requests and plans; threads interleave anew."""
    asked = soak.options
    return (
        f"python -m tests.soak --seed {asked.seed} --minutes {asked.seconds / 60:g} "
        f"--fault-seconds {asked.fault_seconds:g}"
    )
