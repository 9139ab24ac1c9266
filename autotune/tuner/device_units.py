"""Costs of a network's groups on several devices: units, their measured seconds, and the costed graph of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from autotune.errors import ScheduleError
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.measure.measurement import Failed
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import SEARCH
from autotune.store.store import Store
from autotune.targets.device_name import machine_of
from autotune.targets.device_set import DeviceSet
from autotune.targets.link_spec import HOST_MEMORY, place_of
from autotune.targets.opening import is_host
from autotune.targets.protocol import Execution, Target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import Schedules, group_choices, heuristic_choices
from autotune.tuner.placement.costed_graph import CostedGraph, Memory, Placement, Read, Task
from autotune.tuner.record_writer import RecordWriter
from autotune.tuner.records import to_record

ELEMENT_BYTES = 4
"""Tensors between groups are float32."""
Key = tuple[str, Schedule]
Row = tuple[Names, Sequence[float | None], Sequence[int]]
"""Operators that run together, their seconds and their bytes of DRAM traffic by device."""
_NOTHING = Execution(0, 0, 0, {})


@dataclass(frozen=True, slots=True)
class Unit:
    """Operators that stay on one device, and how each device runs them: ``choices`` and ``seconds`` by the number
    of the device, None where it cannot."""

    operators: Names
    choices: tuple[tuple[Choice, ...] | None, ...]
    seconds: tuple[float | None, ...]
    parts: tuple[tuple[float, ...] | None, ...]
    """Seconds of each of ``choices``, by device."""
    dram_bytes: tuple[int, ...]
    """Bytes between each device and its DRAM; 0 where the device cannot run it."""


@dataclass
class DeviceCosts:
    """Schedules and measured seconds of one device's groups; each candidate is measured once.

    ``name`` is that of the device. ``known`` are schedules by the key of their group, such as a search found; the rule
    gives the others.
    """

    name: str
    device: Target
    graph: Graph
    known: Schedules = field(default_factory=dict)
    _measured: dict[Key, Execution | None] = field(default_factory=dict)

    def twin(self, name: str, device: Target) -> DeviceCosts:
        """Return the costs of an equal machine: what one of the two learns, the other knows."""
        return DeviceCosts(name, device, self.graph, self.known, self._measured)

    def partition(self) -> Partition:
        """Return the device's own partition by rule. Raises ``ScheduleError`` if it cannot run some operator."""
        choices = heuristic_choices(self.graph, self.device.spec, self.known)
        return Partition.of(self.graph, [[op.name for op in c.group.ops] for c in choices])

    def choices(self, names: Names) -> tuple[Choice, ...] | None:
        """Return the groups by which the device runs some operators; None if it cannot."""
        try:
            found = group_choices(self.graph, self.device.spec, names, self.known)
        except ScheduleError:
            return None
        return tuple(replace(choice, device=self.name) for choice in found)

    def measure(
        self, choices: Iterable[Choice], store: Store | None, time_limit_seconds: float | None
    ) -> None:
        """Measure what was not measured before; the records enter the store."""
        work = {
            (c.group.key, c.schedule): Candidate(c.group, c.schedule, self.graph.name)
            for c in choices
            if c.schedule is not None and (c.group.key, c.schedule) not in self._measured
        }
        writer = RecordWriter(store)
        try:
            results = measure(self.device, work.values(), time_limit_seconds=time_limit_seconds)
            for key, result in zip(work, results, strict=True):
                writer.add(to_record(result, self.device, SEARCH))
                self._measured[key] = None if isinstance(result, Failed) else result.execution
        finally:
            writer.flush()

    def seconds(self, choices: Sequence[Choice]) -> tuple[float, ...] | None:
        """Return the measured seconds of each group; None if one failed."""
        found: list[float] = []
        for choice in choices:
            execution = self._execution(choice)
            if execution is None:
                return None
            found.append(execution.cycles / self.device.spec.clock_hz)
        return tuple(found)

    def dram_bytes(self, choices: Sequence[Choice]) -> int:
        """Return the bytes of DRAM traffic of groups together; those that failed have none."""
        found = (self._execution(choice) for choice in choices)
        return sum(one.dram_bytes for one in found if one is not None)

    def _execution(self, choice: Choice) -> Execution | None:
        if choice.schedule is None:
            return _NOTHING
        return self._measured[choice.group.key, choice.schedule]


def device_costs(devices: DeviceSet, graph: Graph) -> list[DeviceCosts]:
    """Return the costs of every device over a graph; those of equal machines are one."""
    found: list[DeviceCosts] = []
    first: dict[str, DeviceCosts] = {}
    for name, device in devices.by_name.items():
        equal = first.get(machine_of(name))
        one = DeviceCosts(name, device, graph) if equal is None else equal.twin(name, device)
        first.setdefault(machine_of(name), one)
        found.append(one)
    return found


def cost_units(
    partition: Partition,
    costs: Sequence[DeviceCosts],
    store: Store | None = None,
    time_limit_seconds: float | None = None,
) -> tuple[Unit, ...]:
    """Measure every group of a partition on every device.

    Raises ``ScheduleError`` for a group that no device can run.
    """
    table = [[one.choices(names) for one in costs] for names in partition.groups]
    for number, one in enumerate(costs):
        one.measure(
            (choice for row in table for choice in row[number] or ()), store, time_limit_seconds
        )
    units = []
    for names, row in zip(partition.groups, table, strict=True):
        parts = tuple(
            None if choices is None else one.seconds(choices)
            for one, choices in zip(costs, row, strict=True)
        )
        seconds = tuple(None if one is None else sum(one) for one in parts)
        if all(one is None for one in seconds):
            devices = ", ".join(one.name for one in costs)
            raise ScheduleError(
                f"{partition.graph.name}: operators {', '.join(names)} run on none of {devices}; add a device"
            )
        moved = (one.dram_bytes(choices or ()) for one, choices in zip(costs, row, strict=True))
        units.append(Unit(names, tuple(row), seconds, parts, tuple(moved)))
    return tuple(units)


def host_of(names: Sequence[str]) -> int:
    """Return the number of this CPU among devices; the next free number if it is none of them."""
    return next((n for n, name in enumerate(names) if is_host(name)), len(names))


def costed(graph: Graph, devices: DeviceSet, units: Sequence[Unit]) -> CostedGraph:
    """Return units as tasks. The first task is the inputs and the last one the outputs, both in this CPU's memory.

    Constants lie where they are read before a run begins.
    """
    names = list(devices.names)
    rows = [(unit.operators, unit.seconds, unit.dram_bytes) for unit in units]
    return costed_tasks(graph, devices, rows, host_of(names))


def costed_tasks(
    graph: Graph,
    devices: DeviceSet,
    rows: Sequence[Row],
    host: int,
) -> CostedGraph:
    """Return groups of operators with their costs by device as tasks, in their order."""
    names = list(devices.names)
    ends = names if host < len(names) else [*names, HOST_MEMORY]
    padding: tuple[float | None, ...] = (None,) * (len(ends) - len(names))
    here = tuple(0.0 if n == host else None for n in range(len(ends)))
    home = dict.fromkeys(graph.inputs, 0)
    tasks = [Task("inputs", here, ())]
    by_name = {op.name: op for op in graph.ops}
    memories = _memories(devices, names)
    for operators, seconds, dram_bytes in rows:
        made = {by_name[name].output for name in operators}
        read = dict.fromkeys(x for name in operators for x in by_name[name].inputs)
        reads = _reads(graph, home, (x for x in read if x not in made))
        moved = (*dram_bytes, *(0 for _ in padding)) if memories else ()
        name = " + ".join(operators)
        tasks.append(Task(name, (*seconds, *padding), reads, dram_bytes=moved))
        home.update(dict.fromkeys(made, len(tasks) - 1))
    tasks.append(Task("outputs", here, _reads(graph, home, graph.outputs)))
    links = tuple(
        tuple(None if a == b else devices.links.between(a, b) for b in ends) for a in ends
    )
    return CostedGraph(tuple(ends), links, tuple(tasks), memories)


def _memories(devices: DeviceSet, names: Sequence[str]) -> tuple[Memory, ...]:
    """Return the channels that two or more devices of the session share."""
    found = []
    for one in devices.links.memories:
        members = frozenset(n for n, name in enumerate(names) if place_of(name) in one.devices)
        if len(members) > 1:
            found.append(Memory(members, one.bandwidth_bytes_per_second))
    return tuple(found)


def _reads(graph: Graph, home: Mapping[str, int], tensors: Iterable[str]) -> tuple[Read, ...]:
    return tuple(
        Read(home[x], x, ELEMENT_BYTES * prod(graph.shape(x))) for x in tensors if x in home
    )


def chosen(units: Sequence[Unit], placement: Placement) -> tuple[tuple[Choice, float], ...]:
    """Return the groups of a placement of ``costed`` units, and their seconds."""
    found: list[tuple[Choice, float]] = []
    for unit, device in zip(units, placement[1:-1], strict=True):
        choices, parts = unit.choices[device], unit.parts[device]
        assert choices is not None and parts is not None, "the unit runs there"
        found += zip(choices, parts, strict=True)
    return tuple(found)
