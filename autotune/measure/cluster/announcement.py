"""What a worker can measure, as resources of Dask: its autotune, and the hardware profiles of its CPU.

A job asks for the resources that its target needs, so the scheduler sends it only where it fits. The code
stands in every name: a worker with other sources has other resources.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from autotune.disk.source_version import hash_sources
from autotune.measure.cluster.lease import Seat
from autotune.targets.protocol import ExclusiveTarget, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "autotune"
"""First letters of every resource that is ours."""

MISSING = f"{PREFIX} is missing"
"""Resource of a worker whose interpreter cannot import autotune."""

DECIDING = (
    *("isa", "operators", "graph", "fusion", "schedule", "lowering", "targets", "measure"),
    "errors.py",
)
"""Sources that decide what a measurement gives: whole folders, lest a module is missed."""

SEAT_SECONDS = 5.0
"""Time between two tries of a worker to take the seat of one that has ended."""

SEAT = Seat()


@cache
def this_code() -> str:
    """Name the code of this process: version, and eight digits over the sources that decide."""
    from importlib.metadata import version  # takes 20 ms

    return f"{PREFIX} {version(PREFIX)}-{hash_sources(DECIDING)[:8]}"


def needs(target: Target) -> dict[str, float]:
    """Return the resources that measuring a target takes: one worker's code, and for a target that is
    timed this machine's or an equal CPU."""
    if not isinstance(target, ExclusiveTarget):
        return {this_code(): 1.0}
    return {this_code(): 1.0, timed(_profile_of(target)): 1.0}


def timed(profile_id: str) -> str:
    """Name the resource of a worker that may time measurements on a hardware profile."""
    return f"{this_code()} times {profile_id}"


def _profile_of(target: ExclusiveTarget) -> str:
    """Return the profile of the CPU that times a target; one without a spec is timed by all cores."""
    if target.spec is not None:
        return target.spec.profile_id
    from autotune.targets.native.detection.detect import default_threads, profile_of

    return profile_of(default_threads())


def resources() -> dict[str, float]:
    """Return what this process announces. One process of a machine holds the seat and times; its CPU has
    a hardware profile for each number of threads."""
    announced = {this_code(): 1.0}
    if SEAT.take():
        from autotune.targets.native.detection.detect import default_threads, profile_of

        for threads in range(1, default_threads() + 1):
            announced[timed(profile_of(threads))] = 1.0
    return announced


async def announce(worker: Any) -> None:
    """Tell the scheduler of a Dask worker what it measures, and try for the seat from time to time."""
    from tornado.ioloop import PeriodicCallback

    await worker.set_resources(**resources())
    if SEAT.take():
        return

    async def try_again() -> None:
        if SEAT.take():
            retry.stop()
            await worker.set_resources(**resources())

    retry = PeriodicCallback(try_again, SEAT_SECONDS * 1000)
    worker.periodic_callbacks["autotune-seat"] = retry
    retry.start()


def shortfall(workers: Mapping[str, Mapping[str, float]], wanted: Mapping[str, float]) -> str:
    """Say in a few words why no worker fits; ``workers`` are resources by address."""
    missing = sum(MISSING in has for has in workers.values())
    ours = sum(this_code() in has for has in workers.values())
    others = sorted(
        {
            name.split(" times ")[0]
            for has in workers.values()
            for name in has
            if name.startswith(f"{PREFIX} ") and name != MISSING
        }
        - {this_code()}
    )
    reasons = []
    if missing:
        reasons.append(f"{missing} cannot import autotune")
    if others:
        reasons.append(
            f"{len(workers) - missing - ours} run {', '.join(others)}, this is {this_code()}: install the "
            "same autotune everywhere, and start the workers again"
        )
    if ours:
        profiles = [name.split(" times ")[1] for name in wanted if " times " in name]
        reasons.append(
            f"{ours} have no CPU of hardware profile {', '.join(profiles)}, or another worker of their "
            "machine times"
        )
    return "; ".join(reasons)
