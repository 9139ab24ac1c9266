"""Confirmation of a plan: the emulator runs every group of it, and the counts become figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.fusion.partition import Names
from autotune.graph.graph import Graph
from autotune.measure.measurement import Failed, Measurement
from autotune.measure.runner import Workers, measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Execution
from autotune.targets.spec import HardwareSpec
from autotune.tuner.machines.figures import COUNTED, MACS, PARTS, NetworkFigures


def confirm(
    graph: Graph,
    groups: Sequence[tuple[Group, Sequence[Schedule]]],
    spec: HardwareSpec,
    predicted_cycles: float,
    workers: Workers = None,
) -> NetworkFigures:
    """Run the groups of a plan on the emulated machine, each by its fastest schedule of those given; return
    what they take together.

    Groups of views have no schedule. Equal candidates run once. Raises ``ScheduleError`` for a group of
    which no candidate runs.
    """
    wanted = [
        [Candidate(group, schedule, graph.name) for schedule in schedules]
        for group, schedules in groups
        if schedules
    ]
    distinct = {candidate.key: candidate for group in wanted for candidate in group}
    results = {
        result.candidate.key: result
        for result in measure(EmulatorTarget(spec), distinct.values(), workers)
    }
    fastest = [
        _fastest([results[candidate.key] for candidate in group], graph, spec) for group in wanted
    ]
    texts = iter([candidate.schedule.to_json() for candidate, _ in fastest])
    plan = tuple(
        (tuple(op.name for op in group.ops), next(texts) if schedules else "")
        for group, schedules in groups
    )
    return _figures(graph, plan, [run for _, run in fastest], spec, predicted_cycles)


def _fastest(
    results: Sequence[Measurement], graph: Graph, spec: HardwareSpec
) -> tuple[Candidate, Execution]:
    runs = [
        (result.candidate, result.execution) for result in results if not isinstance(result, Failed)
    ]
    if not runs:
        failed = next(result for result in results if isinstance(result, Failed))
        raise ScheduleError(f"{graph.name} on {spec.name}: {failed.reason}")
    return min(runs, key=lambda pair: pair[1].cycles)


def _figures(
    graph: Graph,
    plan: tuple[tuple[Names, str], ...],
    runs: Iterable[Execution],
    spec: HardwareSpec,
    predicted_cycles: float,
) -> NetworkFigures:
    cycles = energy_fj = dram_bytes = 0
    total = dict.fromkeys(COUNTED, 0)
    for run in runs:
        cycles += run.cycles
        energy_fj += run.energy_fj
        dram_bytes += run.dram_bytes
        for name in COUNTED:
            total[name] += run.counters[name]
    use = {
        part: sum(total[name] for name in busy) / max(1, total[has])
        for part, (busy, has) in PARTS.items()
    }
    taken = sum(total[name] / max(1, spec.matrix.macs_per_cell(one)) for name, one in MACS.items())
    return NetworkFigures(
        network=graph.name,
        cycles=cycles,
        clock_hz=spec.clock_hz,
        energy_fj=energy_fj,
        dram_bytes=dram_bytes,
        operators=len(graph.ops),
        groups=len(plan),
        predicted_cycles=predicted_cycles,
        array_use=taken / max(1, cycles * spec.peak_macs_per_cycle),
        use=use,
        plan=plan,
    )
