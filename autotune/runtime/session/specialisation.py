"""Specialises a session's graph to a class of its inputs: pruned graph → plan → table → worth → variant."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.graph.accuracy import Accuracy
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.index_limits import index_limits
from autotune.graph.input_class import Classes
from autotune.graph.passes import specialise
from autotune.graph.work import flops
from autotune.operators.tensor import Array
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.random_inputs import draw_graph_inputs
from autotune.runtime.guards.carrying import carried_choices
from autotune.runtime.guards.guard import Guard
from autotune.runtime.guards.variant import Variant, Worth
from autotune.runtime.online.trial import agree
from autotune.runtime.session.initial_table import variant_table
from autotune.runtime.session.opening import OpenedGraph
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target

MOST_PAIRS, PAIR_SECONDS = 24, 0.5
"""Runs of each version that are compared at opening, and the time after which no more begin."""
LEAST_GAIN = {"ns": -0.02, "cycles": 0.0}
"""Share of a run that a variant saves at least, or it is left alone: a few runs on a busy machine do not tell equals apart."""


@dataclass(frozen=True, slots=True)
class Specialised:
    """The outcome: a variant, or None where it was not worth its guard; ``event`` says which and why."""

    variant: Variant | None
    event: Event


def specialised(
    network: OpenedGraph,
    classes: Classes,
    general: ProgramTable,
    target: Target,
    accuracy: Accuracy,
    limits: BuildLimits = NO_LIMITS,
) -> Specialised:
    """Build the variant of a network for ``classes`` of its inputs, beside its ``general`` table.

    It is left alone where nothing can be removed, or where it saves less than its guard costs. Raises ``InputError``
    for a class that no input of the network can be of.
    """
    graph = network.graph
    for limit in index_limits(graph):
        if limit.input in classes:
            value = classes[limit.input].constant(graph.shape(limit.input))
            if value is not None:
                limit.check(graph.name, value)
    pruned = specialise(graph, classes, accuracy, network.ranges).graph
    guard = Guard.of(graph, classes)
    share = _work(pruned) / max(1, _work(graph))
    if not is_cheaper(graph, pruned):
        return _left_alone(graph, guard, "leaves nothing out")
    is_planned = network.plan is not None or general.plan_version > 0
    choices = carried_choices(pruned, general.choices, target.spec) if is_planned else None
    table = variant_table(pruned, target, choices, limits)
    if isinstance(target, WholeNetworks) and not _agrees(network, guard, general, table, target):
        return _left_alone(graph, guard, "computes other numbers")
    worth = _worth(network, guard, general, table, target)
    if worth is not None and worth.gain < LEAST_GAIN[worth.unit]:
        return _left_alone(graph, guard, f"saves less than its guard costs: {worth.text}")
    text = f"{graph.name}: a variant for {guard.text} does {share:.1%} of the operations"
    text += f"; {worth.text}" if worth is not None else ""
    event = Event(EventKind.SPECIALISED, 0, time.time(), text, _figures(worth, share))
    return Specialised(Variant(guard, table, share, worth), event)


def is_cheaper(graph: Graph, pruned: Graph) -> bool:
    """Return True if a pruned graph computes less than the graph that it is of."""
    return _work(pruned) < _work(graph) or _marks(pruned) > _marks(graph)


def _work(graph: Graph) -> int:
    """Return the elements that all operators make, and their operations."""
    return sum(flops(op, graph) + graph.types[op.output].elements for op in graph.ops)


def _marks(graph: Graph) -> int:
    return sum(any(name == "zero_blocks" for name, _ in op.attrs) for op in graph.ops)


def _left_alone(graph: Graph, guard: Guard, reason: str) -> Specialised:
    text = f"{graph.name}: no variant for {guard.text}: it {reason}"
    return Specialised(None, Event(EventKind.REFUSED, 0, time.time(), text, {}))


def _figures(worth: Worth | None, share: float) -> dict[str, float]:
    figures = {"share": share}
    if worth is not None:
        figures |= {"gain": worth.gain}
        sides = (("general", worth.general), ("variant", worth.variant), ("guard", worth.guard))
        figures |= {f"{side}_{worth.unit}": value for side, value in sides}
    return figures


def _agrees(
    network: OpenedGraph, guard: Guard, general: ProgramTable, table: ProgramTable, target: Target
) -> bool:
    """Return True if a variant's outputs are the network's, or numpy's, on drawn inputs of the class."""
    fed = drawn_inputs(network, guard, 0)
    outputs, expected = (execute(one, target, fed)[0] for one in (table, general))
    return agree(outputs, expected) or agree(outputs, evaluate(network.graph, fed))


def _worth(
    network: OpenedGraph, guard: Guard, general: ProgramTable, table: ProgramTable, target: Target
) -> Worth | None:
    """Return what a variant saves; None on machines that tell it by running alone."""
    if isinstance(target, WholeNetworks):
        return measured(general, table, target, guard, drawn_inputs(network, guard, 0))
    is_counted = isinstance(target, EmulatorTarget) and not target.spec.physical.active
    return counted(general, table, target, guard) if is_counted else None


def drawn_inputs(network: OpenedGraph, guard: Guard, seed: int) -> dict[str, Array]:
    """Return inputs of a network within its ranges that pass a guard, drawn by ``seed``."""
    drawn = draw_graph_inputs(network.graph, np.random.default_rng(seed))
    arrays = {x: np.asarray(value, np.float32) for x, value in drawn.items()}
    arrays |= {x: np.clip(arrays[x], r.low, r.high) for x, r in network.ranges.items()}
    arrays |= {x: one.draw(arrays[x]) for x, one in guard.classes.items()}
    return {x: np.ascontiguousarray(value) for x, value in arrays.items()}


def measured(
    general: ProgramTable,
    table: ProgramTable,
    target: Target,
    guard: Guard,
    fed: Mapping[str, Array],
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Worth:
    """Run both tables in turns on this machine; return the nanoseconds of the fastest run of each.

    Other work of the machine makes runs longer, never shorter.
    """
    runs: tuple[list[int], list[int]] = ([], [])
    checks: list[int] = []
    begin = clock()
    for number in range(MOST_PAIRS + 1):
        for index in (number % 2, 1 - number % 2):
            started = clock()
            execute((general, table)[index], target, fed)
            runs[index].append(clock() - started)
        started = clock()
        guard.passes(fed)
        checks.append(clock() - started)
        if clock() - begin > PAIR_SECONDS * 1e9 and number >= 2:
            break
    general_ns, variant_ns = (float(min(times[1:])) for times in runs)  # the first fills caches
    return Worth(general_ns, variant_ns, statistics.median(checks), "ns", len(checks) - 1)


def counted(general: ProgramTable, table: ProgramTable, target: Target, guard: Guard) -> Worth:
    """Count cycles of both tables on an emulated machine; a guard reads its bytes once from DRAM."""
    known: dict[int, int] = {}

    def cycles(one: ProgramTable) -> float:
        for step in one.group_steps:
            if id(step.program) not in known:
                known[id(step.program)] = target.time(step.program).cycles
        return float(sum(known[id(step.program)] for step in one.group_steps))

    reading = guard.checked_bytes / target.spec.dram.bytes_per_cycle
    return Worth(cycles(general), cycles(table), reading, "cycles", 0)
