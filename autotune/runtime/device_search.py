"""Search for several devices: a search on each, costs of all groups on all of them, then the placement."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune.errors import InputError, ScheduleError
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
from autotune.operators.axes import Layout
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.in_place.budget import NO_LIMITS, Limits
from autotune.runtime.in_place.search_setup import Allowance
from autotune.runtime.in_place.timed_search import timed_search
from autotune.runtime.session.opening import open_model, open_network
from autotune.store.store import Store
from autotune.targets.device_name import machine_of
from autotune.targets.device_set import DeviceSet
from autotune.targets.protocol import Target
from autotune.tuner.device_units import (
    DeviceCosts,
    Unit,
    chosen,
    cost_units,
    costed,
    device_costs,
)
from autotune.tuner.fusion import search as run_search
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions
from autotune.tuner.placement.costed_graph import CostedGraph
from autotune.tuner.placement.heft import upward_ranks
from autotune.tuner.placement.objective import Serving
from autotune.tuner.placement.placing import Placed, place
from autotune.tuner.placement.planned import PlannedDevices
from autotune.tuner.placement.simulation import Simulation
from autotune.tuner.placement.timeline import Timeline
from autotune.tuner.plan import NetworkFile, Plan
from autotune.tuner.progress import Progress, silent


@dataclass(frozen=True)
class PlacedPartition:
    """One partition, costed and placed. ``origin`` is the device whose partition it is."""

    origin: str
    layout: str
    graph: Graph
    units: tuple[Unit, ...]
    costed: CostedGraph
    placed: Placed

    def timeline(self) -> Timeline:
        """Return when each device and link works during one request."""
        return Simulation(self.costed, upward_ranks(self.costed)).timeline(self.placed.placement)

    def seconds(self, serving: Serving) -> float:
        """Makespan of one request, or seconds between requests of a stream."""
        placed = self.placed
        return placed.makespan_seconds if serving is Serving.LATENCY else placed.period_seconds


@dataclass(frozen=True)
class DeviceSearch:
    """Outcome of a search for several devices: the plan, and every partition that was placed, the best first."""

    plan: Plan
    devices: DeviceSet = field(repr=False)
    partitions: tuple[PlacedPartition, ...] = field(repr=False)

    @property
    def best(self) -> PlacedPartition:
        """The partition that the plan has."""
        return self.partitions[0]


@dataclass(frozen=True)
class DeviceRequest:
    """A network and the devices that shall run it; ``options`` bound the search on each of them.

    With ``options.measure`` 0 no device is searched: groups and schedules are heuristic.
    """

    path: Path
    devices: DeviceSet
    serving: Serving
    options: SearchOptions
    dims: Mapping[str, int]
    accuracy: Accuracy
    ranges: Ranges
    limits: Limits = NO_LIMITS
    """Of the search on this CPU, where it is one of the devices."""


def search_on_devices(
    request: DeviceRequest, store: Store, progress: Progress = silent
) -> DeviceSearch:
    """Place a network on devices, in each of their layouts, by each of their partitions; return the best plan.

    Never worse than the best single device under the model of costs and links. Raises ``ScheduleError`` for an
    operator that no device can run.
    """
    found: list[PlacedPartition] = []
    seen: set[str] = set()
    for layout in dict.fromkeys(device.spec.layout for device in request.devices.devices):
        graph = open_network(
            request.path,
            request.dims,
            Layout(layout),
            request.accuracy,
            request.ranges,
            request.devices.spec.formats,
        )
        if graph.fingerprint not in seen:
            seen.add(graph.fingerprint)
            found += _placed_partitions(request, graph, layout, store, progress)
    if not found:
        raise InputError(
            f"{request.path}: none of {request.devices.name} can run the network alone, so none gives "
            "a partition; add a device"
        )
    ordered = tuple(sorted(found, key=lambda one: one.seconds(request.serving)))
    devices = replace(request.devices, layout=ordered[0].layout)
    return DeviceSearch(_plan(request, devices, ordered), devices, ordered)


def _placed_partitions(
    request: DeviceRequest, graph: Graph, layout: str, store: Store, progress: Progress
) -> list[PlacedPartition]:
    """Cost and place the partition of every device on all devices."""
    costs = device_costs(request.devices, graph)
    partitions: dict[Partition, str] = {}
    for one in costs:
        if one.name != machine_of(one.name):
            continue  # an equal machine before it gave its partition
        is_own = one.device.spec.layout == layout and request.options.measure > 0
        partition = _searched(one, request, store, progress) if is_own else _by_rule(one)
        if partition is not None:
            partitions.setdefault(partition, one.name)
    found = []
    limit = request.options.time_limit_seconds
    for number, (partition, origin) in enumerate(partitions.items()):
        progress("place", number, len(partitions))
        units = cost_units(partition, costs, store, limit)
        tasks = costed(graph, request.devices, units)
        placed = place(tasks, request.serving, request.options.seed)
        found.append(PlacedPartition(origin, layout, graph, units, tasks, placed))
    return found


def _by_rule(costs: DeviceCosts) -> Partition | None:
    """Return a device's partition by rule; None if it cannot run the network alone."""
    try:
        return costs.partition()
    except ScheduleError:
        return None


def _searched(
    costs: DeviceCosts, request: DeviceRequest, store: Store, progress: Progress
) -> Partition | None:
    """Search a network on one device; return the partition and let ``costs`` know the schedules."""
    machine: Target = costs.device
    try:
        if isinstance(machine, WholeNetworks):
            allowance = Allowance(time.monotonic(), None, limits=request.limits)
            timed = timed_search(
                costs.graph, machine, store, request.ranges, request.options, allowance, progress
            )
            result = timed.search
            if timed.is_interrupted:
                raise KeyboardInterrupt
        else:
            answer = open_model(store, machine)
            result = run_search(
                costs.graph, machine, answer.model, request.options, progress=progress, store=store
            )
    except ScheduleError:
        return None
    groups = result.found.groups
    costs.known.update({one.group.key: one.schedule for one in groups if one.schedule is not None})
    return Partition.of(costs.graph, [[op.name for op in one.group.ops] for one in groups])


def _plan(request: DeviceRequest, devices: DeviceSet, ordered: Sequence[PlacedPartition]) -> Plan:
    best = ordered[0]
    groups = tuple(_planned(best, devices))
    return Plan(
        (GraphPlan(best.graph.name, best.graph.fingerprint, groups),),
        NetworkFile.of(request.path),
        devices.name,
        devices.spec.profile_id,
        Objective.LATENCY,
        request.accuracy,
        tuple(request.dims.items()),
        tuple(request.ranges.items()),
        PlannedDevices(
            devices.names,
            best.layout,
            devices.links,
            request.serving,
            best.placed.makespan_seconds,
            best.placed.period_seconds,
            _least(ordered, 0),
            _least(ordered, 1),
            min(one.placed.bounds.seconds for one in ordered),
            min(one.placed.stream_bound_seconds for one in ordered),
        ),
        devices.spec.formats.macs_per_byte,
    )


def _least(ordered: Sequence[PlacedPartition], which: int) -> dict[str, float]:
    """Return the best makespan (0) or period (1) of every device alone, over all partitions."""
    least: dict[str, float] = {}
    for one in ordered:
        for name, figures in one.placed.singles.items():
            least[name] = min(least.get(name, figures[which]), figures[which])
    return least


def _planned(best: PlacedPartition, devices: DeviceSet) -> list[PlannedGroup]:
    found = []
    for choice, seconds in chosen(best.units, best.placed.placement):
        nanoseconds = seconds * devices.spec.clock_hz
        is_view = choice.schedule is None
        found.append(
            PlannedGroup(
                tuple(op.name for op in choice.group.ops),
                choice.group.outputs,
                choice.schedule,
                nanoseconds,
                0 if is_view else max(1, round(nanoseconds)),
                None,
                None,
                choice.device,
            )
        )
    return found
