"""What a plan file says of several devices: names, links and the figures of the placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.targets.link_spec import Links, parse_links
from autotune.targets.spec import LAYOUTS
from autotune.tuner.placement.objective import Serving


@dataclass(frozen=True)
class PlannedDevices:
    """Devices of a plan. Times are seconds of the model that placed the groups, transfers included.

    ``single_seconds`` is the makespan of every device that can run the network alone, by its best plan;
    No placement of these groups undercuts ``bound_seconds`` with one request, or ``stream_bound_seconds`` between requests.
    """

    names: tuple[str, ...]
    layout: str
    links: Links
    serving: Serving
    makespan_seconds: float
    period_seconds: float
    single_seconds: Mapping[str, float]
    single_period_seconds: Mapping[str, float]
    bound_seconds: float
    stream_bound_seconds: float

    @property
    def best_single(self) -> str:
        """The device that is fastest alone; empty if none can run the network."""
        return min(self.single_seconds, key=self.single_seconds.__getitem__, default="")

    @property
    def by_speed(self) -> tuple[str, ...]:
        """The devices, the fastest alone first; those that cannot run the network alone last."""
        last = float("inf")
        return tuple(sorted(self.names, key=lambda name: self.single_seconds.get(name, last)))

    def document(self) -> dict[str, Any]:
        """Return the JSON form; ``read_devices`` reads it back."""
        return {
            "names": list(self.names),
            "layout": self.layout,
            "links": self.links.document(),
            "for": self.serving.value,
            "makespan_seconds": self.makespan_seconds,
            "period_seconds": self.period_seconds,
            "single_seconds": dict(self.single_seconds),
            "single_period_seconds": dict(self.single_period_seconds),
            "bound_seconds": self.bound_seconds,
            "stream_bound_seconds": self.stream_bound_seconds,
        }


def read_devices(plain: Mapping[str, Any]) -> PlannedDevices:
    """Read what ``document`` gave. Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``SpecError``."""
    layout = str(plain["layout"])
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} is not one of: {', '.join(LAYOUTS)}")
    return PlannedDevices(
        tuple(map(str, plain["names"])),
        layout,
        parse_links(plain["links"]),
        Serving(plain["for"]),
        float(plain["makespan_seconds"]),
        float(plain["period_seconds"]),
        _seconds(plain["single_seconds"]),
        _seconds(plain["single_period_seconds"]),
        float(plain["bound_seconds"]),
        float(plain["stream_bound_seconds"]),
    )


def _seconds(plain: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in plain.items()}
