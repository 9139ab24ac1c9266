"""Timelines: when each device runs which task, and when each link carries which tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Slot(NamedTuple):
    """A task on a device, in seconds from the begin of the run."""

    task: int
    device: int
    begin_seconds: float
    end_seconds: float


class Transfer(NamedTuple):
    """A tensor on its way between two devices, in seconds from the begin of the run."""

    producer: int
    tensor: str
    size_bytes: int
    source: int
    destination: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Timeline:
    """Slots by the number of their task, and transfers in the order of their begin."""

    slots: tuple[Slot, ...]
    transfers: tuple[Transfer, ...]

    @cached_property
    def makespan_seconds(self) -> float:
        """End of the last task."""
        return max((slot.end_seconds for slot in self.slots), default=0.0)

    def busy_seconds(self, device: int) -> float:
        """Time that a device works."""
        mine = (slot for slot in self.slots if slot.device == device)
        return sum(slot.end_seconds - slot.begin_seconds for slot in mine)

    @property
    def transferred_bytes(self) -> int:
        """Bytes over all links."""
        return sum(one.size_bytes for one in self.transfers)
