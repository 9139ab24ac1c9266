"""A network as placement sees it: tasks with seconds on every device, and the tensors between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from autotune.targets.link_spec import LinkSpec

Placement = tuple[int, ...]
"""Number of the device of each task."""
Links = tuple[tuple[LinkSpec | None, ...], ...]
"""Links by the numbers of source and destination; None from a device to itself."""


class Memory(NamedTuple):
    """Devices that share a DRAM channel, and its bandwidth."""

    devices: frozenset[int]
    bandwidth_bytes_per_second: float


class Read(NamedTuple):
    """A tensor that a task reads, of ``size_bytes``, and the number of the task that makes it."""

    producer: int
    tensor: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Task:
    """A fusion group on the devices of a session.

    ``seconds`` are its cost on each device, None where it cannot run. ``request`` counts the requests that
    run side by side: a device takes the earliest one first.
    """

    name: str
    seconds: tuple[float | None, ...]
    reads: tuple[Read, ...]
    request: int = 0
    dram_bytes: tuple[int, ...] = ()
    """Bytes between each device and its DRAM; empty where no device shares memory."""

    @property
    def places(self) -> tuple[int, ...]:
        """Numbers of the devices that can run it."""
        return tuple(d for d, cost in enumerate(self.seconds) if cost is not None)

    def demand(self, device: int) -> float:
        """Bytes per second of the device's DRAM while the task runs alone."""
        seconds = self.seconds[device]
        return self.dram_bytes[device] / seconds if self.dram_bytes and seconds else 0.0

    def cost(self, device: int) -> float:
        """Seconds on a device that can run it."""
        seconds = self.seconds[device]
        assert seconds is not None, f"{self.name} cannot run on device {device}"
        return seconds


@dataclass(frozen=True)
class CostedGraph:
    """Tasks in an order in which they can run, on devices that links join.

    A link carries one transfer at a time in each direction. A device runs one task at a time; transfers
    go on beside it. A tensor goes to a device once, however many tasks read it there.
    """

    devices: tuple[str, ...]
    links: Links = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    memories: tuple[Memory, ...] = ()
    """Channels that devices share: groups that run at the same time slow each other there."""

    def __post_init__(self) -> None:
        for number, task in enumerate(self.tasks):
            assert len(task.seconds) == len(self.devices), task.name
            assert task.places, f"{task.name} runs nowhere"
            assert all(read.producer < number for read in task.reads), f"{task.name} reads ahead"

    def transfer_seconds(self, source: int, destination: int, size_bytes: int) -> float:
        """Seconds of a tensor's way from one device to another; 0 on the same device."""
        link = self.links[source][destination]
        return 0.0 if link is None else link.seconds(size_bytes)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[str, int, tuple[int, ...]], ...], ...]:
        """For each task its tensors that others read: name, bytes and readers."""
        found: list[dict[str, tuple[int, list[int]]]] = [{} for _ in self.tasks]
        for number, task in enumerate(self.tasks):
            for read in task.reads:
                entry = found[read.producer].setdefault(read.tensor, (read.size_bytes, []))
                entry[1].append(number)
        return tuple(
            tuple((x, size, tuple(users)) for x, (size, users) in made.items()) for made in found
        )

    @cached_property
    def free_tasks(self) -> tuple[int, ...]:
        """Tasks that more than one device can run."""
        return tuple(n for n, task in enumerate(self.tasks) if len(task.places) > 1)

    @cached_property
    def is_one_request(self) -> bool:
        """True if all tasks belong to the same request."""
        return len({task.request for task in self.tasks}) == 1

    def as_one_request(self) -> CostedGraph:
        """Return the tasks of all requests as one's: none is more urgent because its request came first."""
        tasks = tuple(replace(task, request=0) for task in self.tasks)
        return self if self.is_one_request else replace(self, tasks=tasks)

    def on_device(self, device: int) -> Placement | None:
        """Return the placement of all tasks that can choose on one device; None if some cannot run there."""
        if any(device not in self.tasks[n].places for n in self.free_tasks):
            return None
        return tuple(device if device in task.places else task.places[0] for task in self.tasks)


def joined(graphs: Sequence[CostedGraph]) -> CostedGraph:
    """Return one graph of several requests, which arrive together and are numbered in their order.

    All graphs have the same devices and links.
    """
    tasks: list[Task] = []
    request = 0
    for graph in graphs:
        base = len(tasks)
        for task in graph.tasks:
            reads = tuple(read._replace(producer=read.producer + base) for read in task.reads)
            tasks.append(replace(task, reads=reads, request=task.request + request))
        request += 1 + max(task.request for task in graph.tasks)
    return CostedGraph(graphs[0].devices, graphs[0].links, tuple(tasks), graphs[0].memories)


def repeated(graph: CostedGraph, count: int) -> CostedGraph:
    """Return ``count`` requests of one graph that arrive together."""
    return joined([graph] * count)
