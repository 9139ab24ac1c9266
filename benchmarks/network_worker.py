"""Times the emulator on lowered programs of a network and on one program of growing trips.

Runs in a process of its own for `systolic.py`, prints one JSON object. The plans need no cost
model: fusion groups as unfused and greedy, schedules by rule.
"""

from __future__ import annotations

import json
from dataclasses import replace

from autotune import api
from autotune.fusion.analysis import analyse
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from benchmarks.child import best_cpu_seconds, spent
from benchmarks.emulator import loop_program

NETWORK = "light_resnet50"
DECADES = (1, 10, 100, 1000)
TURNS = 15
TRIPS = 100
"""Trips of the outer loop that the decades multiply: 4000 instructions."""


def schedule_of(group: Group, spec: HardwareSpec) -> Schedule | None:
    """The schedule by rule, None where the group has no program or nothing fits."""
    nests = analyse(group)
    if isinstance(nests, Rejection):
        return None
    return default_schedule(nests, spec.capacity, spec.cores)


def programs_of(partition: Partition, spec: HardwareSpec) -> list[Program]:
    """The lowered programs of a partition; groups of views have none."""
    programs = []
    for index in range(len(partition.groups)):
        group = partition.group(index)
        schedule = schedule_of(group, spec)
        if schedule is not None:
            programs.append(lower(group, schedule, spec))
    return programs


def time_plan(programs: list[Program], spec: HardwareSpec) -> dict[str, float]:
    """Executed instructions of all programs, cycles, and CPU seconds of the programs once loaded."""
    machine = EmulatorTarget(spec)
    costs = [machine.time(program) for program in programs]  # verifies and loads
    seconds = best_cpu_seconds(lambda: [machine.time(program) for program in programs])
    return {
        "programs": len(programs),
        "instructions": sum(cost.counters["instructions"] for cost in costs),
        "cycles": sum(cost.cycles for cost in costs),
        "cpu_seconds": seconds,
    }


def time_plans(graph: Graph, spec: HardwareSpec) -> dict[str, dict[str, float]]:
    """The unfused and the greedy plan."""

    def fits(names: tuple[str, ...]) -> bool:
        return schedule_of(Group.from_graph(graph, names), spec) is not None

    partitions = {"unfused": unfused(graph), "greedy": greedy(graph, fits)}
    return {
        name: time_plan(programs_of(partition, spec), spec)
        for name, partition in partitions.items()
    }


def time_decades(spec: HardwareSpec) -> list[dict[str, float]]:
    """The same loop with its trips times every decade."""
    machine = EmulatorTarget(spec)
    programs = [loop_program(TRIPS * decade) for decade in DECADES]
    instructions = [machine.time(program).counters["instructions"] for program in programs]
    # in turns, so that a busy spell of the machine meets every decade
    turns = [
        [best_cpu_seconds(lambda: machine.time(program), repeats=1) for program in programs]  # noqa: B023
        for _ in range(TURNS)
    ]
    return [
        {"trips": decade, "instructions": count, "cpu_seconds": min(seconds)}
        for decade, count, *seconds in zip(DECADES, instructions, *turns, strict=True)
    ]


def main() -> None:
    """Measure and print."""
    mobile = load_spec("mobile")
    spec = replace(mobile, matrix=replace(mobile.matrix, rows=32, cols=32))
    plans = time_plans(api.load_network(NETWORK), spec)
    print(json.dumps({"plans": plans, "decades": time_decades(spec), **spent()}))


if __name__ == "__main__":
    main()
