"""Program tables of several devices: compiled for their machines, and as tasks of a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import PlanError, ScheduleError, TargetError
from autotune.graph.graph import Graph
from autotune.runtime.execution.execution import GroupRun
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import GroupStep, ProgramTable, compile_table
from autotune.targets.device_set import DeviceSet
from autotune.tuner.choice import Choice
from autotune.tuner.device_units import costed_tasks, host_of
from autotune.tuner.heuristic_plan import Schedules, group_choices
from autotune.tuner.placement.costed_graph import CostedGraph, Placement, repeated
from autotune.tuner.placement.heft import upward_ranks
from autotune.tuner.placement.simulation import Simulation
from autotune.tuner.placement.timeline import Timeline


def placed_table(
    graph: Graph, choices: Sequence[Choice], devices: DeviceSet, cache: ProgramCache
) -> ProgramTable:
    """Compile every group for its device. Raises ``PlanError`` for a device that is not of the session."""
    for choice in choices:
        if choice.device not in devices.by_name:
            name = choice.group.ops[0].name
            raise PlanError(
                f"{graph.name}: the group of {name} runs on {choice.device!r}; devices: {devices.name}"
            )
    return compile_table(graph, choices, devices.spec, cache, specs=devices.specs)


def moved(
    graph: Graph, choices: Sequence[Choice], devices: DeviceSet, lost: str, heirs: Sequence[str]
) -> tuple[Choice, ...]:
    """Return the groups with those of a lost device on the first of ``heirs`` that can run them.

    Their schedules are heuristic; a group that fits no heir whole runs operator by operator. Raises ``TargetError`` for
    a group that no heir can run.
    """
    known: Mapping[str, Schedules] = {name: {} for name in heirs}
    found: list[Choice] = []
    for choice in choices:
        if choice.device != lost:
            found.append(choice)
            continue
        found += _inherited(graph, choice, devices, heirs, known, lost)
    return tuple(found)


def _inherited(
    graph: Graph,
    choice: Choice,
    devices: DeviceSet,
    heirs: Sequence[str],
    known: Mapping[str, Schedules],
    lost: str,
) -> list[Choice]:
    names = tuple(op.name for op in choice.group.ops)
    for heir in heirs:
        try:
            made = group_choices(graph, devices.specs[heir], names, known[heir])
        except ScheduleError:
            continue
        return [Choice(one.group, one.schedule, device=heir) for one in made]
    raise TargetError(
        f"{graph.name}: device {lost} failed, and no other device can run {', '.join(names)}"
    )


def timeline_of(table: ProgramTable, devices: DeviceSet, runs: Sequence[GroupRun]) -> Timeline:
    """Return when each device and link worked in a run: groups as long as they took, transfers by their links."""
    graph, placement = _costed_run(table, devices, runs)
    return Simulation(graph, upward_ranks(graph)).timeline(placement)


def stream_seconds(
    table: ProgramTable, devices: DeviceSet, runs: Sequence[GroupRun], count: int
) -> float:
    """Return the makespan of ``count`` requests like a run that arrive together."""
    graph, placement = _costed_run(table, devices, runs)
    run = Simulation(repeated(graph, count), upward_ranks(graph) * count)
    return run.seconds(placement * count)


def _costed_run(
    table: ProgramTable, devices: DeviceSet, runs: Sequence[GroupRun]
) -> tuple[CostedGraph, Placement]:
    """Return a run as tasks that can go nowhere else: inputs, steps in their order, outputs."""
    names = list(devices.names)
    host = host_of(names)
    ran = {id(run.step): run.execution for run in runs}
    place = [names.index(step.device) for step in table.steps]
    rows = []
    for step, here in zip(table.steps, place, strict=True):
        cost = ran[id(step)] if isinstance(step, GroupStep) else None
        seconds = 0.0 if cost is None else cost.cycles / devices.spec.clock_hz
        operators = tuple(op.name for op in step.group.ops)
        by_device = [seconds if n == here else None for n in range(len(names))]
        rows.append((operators, by_device, [0 if cost is None else cost.dram_bytes] * len(names)))
    return costed_tasks(table.graph, devices, rows, host), (host, *place, host)
