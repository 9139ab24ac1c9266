"""List scheduling: the timeline of a placement, on devices and links that do one thing at a time.

Devices that share a DRAM channel slow each other when their groups ask for more than it gives: max-min fair shares, as
in fluid models of networks (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2). A group that asks for little keeps
its speed; memory-bound groups divide the rest. So a compute-bound group beside a memory-bound one costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from autotune.tuner.placement.costed_graph import CostedGraph, Placement
from autotune.tuner.placement.shared_channels import SharedChannels
from autotune.tuner.placement.timeline import Slot, Timeline, Transfer


class Simulation:
    """Times of placements of one graph: a free device takes the ready task of the earliest request, and of
    these the one of the highest rank; a free link carries its most urgent tensor.

    ``ranks`` are seconds from the begin of each task to the end of its request, as ``upward_ranks`` tells.
    """

    def __init__(self, graph: CostedGraph, ranks: Sequence[float]) -> None:
        self.graph = graph
        order = sorted(
            range(len(graph.tasks)), key=lambda n: (graph.tasks[n].request, -ranks[n], n)
        )
        self._urgency = [0] * len(order)
        for place, number in enumerate(order):
            self._urgency[number] = place
        self._waits = [len({(r.producer, r.tensor) for r in t.reads}) for t in graph.tasks]

    def timeline(self, placement: Placement) -> Timeline:
        """Return when every task runs and every tensor is carried. Takes O(n log n) time."""
        return _Run(self.graph, placement, self._urgency, list(self._waits)).finished()

    def seconds(self, placement: Placement) -> float:
        """Return the time from the begin to the end of the last task."""
        return self.timeline(placement).makespan_seconds


class _Run:
    """One simulated run; events are ends of tasks and of transfers."""

    def __init__(
        self, graph: CostedGraph, placement: Placement, urgency: list[int], waits: list[int]
    ) -> None:
        self._graph, self._placement, self._urgency, self._waits = graph, placement, urgency, waits
        self._slots: list[Slot | None] = [None] * len(graph.tasks)
        self._transfers: list[Transfer] = []
        self._ready: list[list[tuple[int, int]]] = [[] for _ in graph.devices]
        self._is_busy = [False] * len(graph.devices)
        self._queued: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._carrying: set[tuple[int, int]] = set()
        self._events: list[tuple[float, int, int, int, int]] = []
        self._shared = SharedChannels(graph) if graph.memories else None

    def finished(self) -> Timeline:
        """Run to the end."""
        for number, count in enumerate(self._waits):
            if not count:
                self._make_ready(number)
        for device in range(len(self._graph.devices)):
            self._begin_task(device, 0.0)
        while self._events:
            now, _, number, tensor, destination = heappop(self._events)
            if tensor < 0:
                if self._shared is None or self._shared.has_ended(destination, number, now):
                    self._end_task(number, now)
                continue
            self._end_transfer(number, tensor, destination, now)
        assert None not in self._slots, "every task has run"
        return Timeline(tuple(s for s in self._slots if s is not None), tuple(self._transfers))

    def _make_ready(self, number: int) -> None:
        heappush(self._ready[self._placement[number]], (self._urgency[number], number))

    def _begin_task(self, device: int, now: float) -> None:
        if self._is_busy[device] or not self._ready[device]:
            return
        _, number = heappop(self._ready[device])
        end = now + self._graph.tasks[number].cost(device)
        self._slots[number] = Slot(number, device, now, end)
        self._is_busy[device] = True
        if self._shared is None or not self._shared.is_shared(device):
            heappush(self._events, (end, 0, number, -1, device))
        else:
            self._tell(self._shared.begin(device, number, now))

    def _tell(self, ends: Iterable[tuple[float, int, int]]) -> None:
        """Expect tasks to end at other times than before; what was expected goes stale."""
        for end, number, device in ends:
            heappush(self._events, (end, 0, number, -1, device))

    def _end_task(self, number: int, now: float) -> None:
        device = self._placement[number]
        self._is_busy[device] = False
        slot = self._slots[number]
        assert slot is not None, "it began"
        self._slots[number] = slot._replace(end_seconds=now)
        if self._shared is not None and self._shared.is_shared(device):
            self._tell(self._shared.end(device, now))
        for tensor, (_, _, users) in enumerate(self._graph.readers[number]):
            for destination in {self._placement[user] for user in users}:
                if destination == device:
                    self._arrive(number, tensor, destination)
                    continue
                way = device, destination
                urgent = min(self._urgency[u] for u in users if self._placement[u] == destination)
                heappush(self._queued.setdefault(way, []), (urgent, number, tensor))
                self._begin_transfer(way, now)
        self._begin_task(device, now)

    def _begin_transfer(self, way: tuple[int, int], now: float) -> None:
        if way in self._carrying or not self._queued.get(way):
            return
        _, number, tensor = heappop(self._queued[way])
        name, size, _ = self._graph.readers[number][tensor]
        end = now + self._graph.transfer_seconds(*way, size)
        self._carrying.add(way)
        self._transfers.append(Transfer(number, name, size, *way, now, end))
        heappush(self._events, (end, 1, number, tensor, way[1]))

    def _end_transfer(self, number: int, tensor: int, destination: int, now: float) -> None:
        way = self._placement[number], destination
        self._carrying.discard(way)
        self._arrive(number, tensor, destination)
        self._begin_transfer(way, now)
        self._begin_task(destination, now)

    def _arrive(self, number: int, tensor: int, destination: int) -> None:
        for user in self._graph.readers[number][tensor][2]:
            if self._placement[user] == destination:
                self._waits[user] -= 1
                if not self._waits[user]:
                    self._make_ready(user)
