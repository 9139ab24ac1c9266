"""Shared DRAM channels of a simulated run: how fast each running task is while others run beside it."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.tuner.placement.costed_graph import CostedGraph, Memory


class _Running:
    """A task under way: seconds of work left at full speed, and its present speed."""

    def __init__(self, number: int, left_seconds: float, demand: float) -> None:
        self.number, self.left_seconds, self.demand = number, left_seconds, demand
        self.speed, self.end_seconds = 1.0, 0.0


class SharedChannels:
    """Running tasks by device. Whenever one begins or ends, the others on its channel change their speed."""

    def __init__(self, graph: CostedGraph) -> None:
        self._graph = graph
        self._memory = {d: memory for memory in graph.memories for d in memory.devices}
        self._running: dict[int, _Running] = {}
        self._since: dict[Memory, float] = dict.fromkeys(graph.memories, 0.0)

    def is_shared(self, device: int) -> bool:
        """Return True if the device shares its DRAM."""
        return device in self._memory

    def begin(self, device: int, number: int, now: float) -> Iterator[tuple[float, int, int]]:
        """Begin a task; yield the new ends (seconds, task, device) on its channel."""
        memory = self._memory[device]
        self._advance(memory, now)
        task = self._graph.tasks[number]
        self._running[device] = _Running(number, task.cost(device), task.demand(device))
        return self._ends(memory, now)

    def end(self, device: int, now: float) -> Iterator[tuple[float, int, int]]:
        """Take a task off that has ended; yield the new ends on its channel."""
        memory = self._memory[device]
        self._advance(memory, now)
        del self._running[device]
        return self._ends(memory, now)

    def has_ended(self, device: int, number: int, now: float) -> bool:
        """Return False for an end that was expected before the speed changed."""
        if not self.is_shared(device):
            return True
        found = self._running.get(device)
        return found is not None and found.number == number and found.end_seconds == now

    def _advance(self, memory: Memory, now: float) -> None:
        """Take off what was done since the last change."""
        passed = now - self._since[memory]
        self._since[memory] = now
        for device in memory.devices & self._running.keys():
            one = self._running[device]
            one.left_seconds = max(0.0, one.left_seconds - passed * one.speed)

    def _ends(self, memory: Memory, now: float) -> Iterator[tuple[float, int, int]]:
        devices = sorted(
            memory.devices & self._running.keys(), key=lambda d: self._running[d].demand
        )
        left = memory.bandwidth_bytes_per_second
        for place, device in enumerate(devices):
            one = self._running[device]
            share = left / (len(devices) - place)
            given = min(one.demand, share)
            left -= given
            one.speed = given / one.demand if one.demand else 1.0
            one.end_seconds = now + one.left_seconds / one.speed
            yield one.end_seconds, one.number, device
