"""Confirmation of a plan: the emulator runs every group of it once, and the counts become figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.errors import ScheduleError
from autotune.graph.graph import Graph
from autotune.measure.measurement import Failed
from autotune.measure.runner import Workers, measure
from autotune.schedule.candidate import Candidate
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Execution
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.machines.figures import COUNTED, PARTS, NetworkFigures


def confirm(
    graph: Graph,
    choices: Sequence[Choice],
    spec: HardwareSpec,
    predicted_cycles: float,
    workers: Workers = None,
) -> NetworkFigures:
    """Run the groups of a plan on the emulated machine; return what they take together.

    Equal candidates run once. Raises ``ScheduleError`` for a group that cannot run.
    """
    candidates = [
        Candidate(choice.group, choice.schedule, graph.name)
        for choice in choices
        if choice.schedule is not None
    ]
    distinct = {candidate.key: candidate for candidate in candidates}
    executions: dict[tuple[str, str], Execution] = {}
    for result in measure(EmulatorTarget(spec), distinct.values(), workers):
        if isinstance(result, Failed):
            raise ScheduleError(f"{graph.name} on {spec.name}: {result.reason}")
        executions[result.candidate.key] = result.execution
    runs = [executions[candidate.key] for candidate in candidates]
    return _figures(graph, len(choices), runs, spec, predicted_cycles)


def _figures(
    graph: Graph,
    groups: int,
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
    return NetworkFigures(
        network=graph.name,
        cycles=cycles,
        clock_hz=spec.clock_hz,
        energy_fj=energy_fj,
        dram_bytes=dram_bytes,
        operators=len(graph.ops),
        groups=groups,
        predicted_cycles=predicted_cycles,
        array_use=total["macs_useful"] / max(1, cycles * spec.peak_macs_per_cycle),
        use=use,
    )
