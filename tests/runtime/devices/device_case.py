"""Sessions of several devices over drawn graphs: plans of any placement, and stand-ins for devices that fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.operators.tensor import Array
from autotune.targets.device_set import DeviceSet
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.link_spec import read_links
from autotune.targets.opening import load_spec
from autotune.targets.protocol import Execution, Target
from autotune.tuner.choice import Choice
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.heuristic_plan import group_choices
from autotune.tuner.objective import Objective
from autotune.tuner.placement.objective import Serving
from autotune.tuner.placement.planned import PlannedDevices
from autotune.tuner.plan import Plan


class Failing(EmulatorTarget):
    """An emulated device that fails from its ``at``-th group on: it raises, or it hangs until ``released``."""

    def __init__(self, name: str, at: int = 0, hangs: bool = False) -> None:
        super().__init__(load_spec("edge"), name)
        self.left, self.hangs = at, hangs
        self.is_hanging, self.released = threading.Event(), threading.Event()

    def run(
        self, program: Program, tensors: Mapping[str, Array], parameters: Any = None
    ) -> tuple[Execution, dict[str, Array]]:
        """Runs some groups, then fails."""
        self.left -= 1
        if self.left >= 0:
            return super().run(program, tensors, parameters)
        if self.hangs:
            self.is_hanging.set()
            self.released.wait()
        raise OSError("the bus is gone")


class Meeting:
    """Counts groups under way on all devices and on each."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.has_met = wanted, threading.Event()
        self.running: Counter[str] = Counter()
        self.most_on_one = 0
        self._lock = threading.Lock()

    def come(self, name: str) -> None:
        """A group begins; it waits until as many as wanted are under way, once."""
        with self._lock:
            self.running[name] += 1
            self.most_on_one = max(self.most_on_one, *self.running.values())
            if self.running.total() == self.wanted:
                self.has_met.set()
        self.has_met.wait(20)

    def go(self, name: str) -> None:
        """A group has ended."""
        with self._lock:
            self.running[name] -= 1


class Meets(EmulatorTarget):
    """An emulated device whose groups wait for those of another one."""

    def __init__(self, name: str, meeting: Meeting) -> None:
        super().__init__(load_spec(name), name)
        self._meeting = meeting

    def run(
        self, program: Program, tensors: Mapping[str, Array], parameters: Any = None
    ) -> tuple[Execution, dict[str, Array]]:
        """Runs a group when others are under way."""
        self._meeting.come(self.name)
        try:
            return super().run(program, tensors, parameters)
        finally:
            self._meeting.go(self.name)


def emulated(name: str) -> EmulatorTarget:
    """A shipped machine without remembered drift."""
    return EmulatorTarget(load_spec(name), name)


def device_set(*devices: Target) -> DeviceSet:
    """Devices with the shipped links."""
    return DeviceSet.of(devices)


def choices_on(
    graph: Graph, partition: Partition, devices: DeviceSet, place: Sequence[int]
) -> list[Choice]:
    """The groups of a partition on the devices with these numbers."""
    found = []
    for names, number in zip(partition.groups, place, strict=True):
        device = devices.devices[number]
        made = group_choices(graph, device.spec, names, {})
        found += [replace(choice, device=device.name) for choice in made]
    return found


def plan_of(graph: Graph, devices: DeviceSet, choices: Sequence[Choice]) -> Plan:
    """A plan of groups on devices; the first device is the fastest alone."""
    names = tuple(device.name for device in devices.devices)
    groups = tuple(
        PlannedGroup(
            tuple(op.name for op in c.group.ops),
            c.group.outputs,
            c.schedule,
            1.0,
            None,
            None,
            None,
            c.device,
        )
        for c in choices
    )
    seconds = {name: 1.0 + number for number, name in enumerate(names)}
    return Plan(
        (GraphPlan(graph.name, graph.fingerprint, groups),),
        None,
        devices.name,
        devices.spec.profile_id,
        Objective.LATENCY,
        devices=PlannedDevices(
            names,
            devices.layout,
            read_links(),
            Serving.LATENCY,
            1.0,
            1.0,
            seconds,
            seconds,
            0.5,
            0.5,
        ),
    )
