"""Specialises a session's graph to a class of its inputs: pruned graph → plan → table → worth → variant."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.graph.accuracy import Accuracy
from autotune.graph.cost_edges import GroupCost, cost_edges, saved_cycles
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
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable
from autotune.runtime.execution.random_inputs import draw_graph_inputs
from autotune.runtime.guards.carrying import carried_choices
from autotune.runtime.guards.guard import Guard
from autotune.runtime.guards.sharing import count_programs, share_programs
from autotune.runtime.guards.specialiser import Build, Built
from autotune.runtime.guards.variant import Variant, Worth
from autotune.runtime.online.agreement import agree
from autotune.runtime.online.input_samples import Inputs
from autotune.runtime.session.cost_graph import rates_of, total
from autotune.runtime.session.initial_table import variant_table
from autotune.runtime.session.opening import OpenedGraph
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target

MOST_PAIRS, PAIR_SECONDS = 24, 0.5
"""Runs of each version that are compared at opening, and the time after which no more begin."""
GUARD_CALLS = 9
EVIDENT, FEW_PAIRS = 0.9, 3
"""Share of the operations below which a few runs are enough to see that a variant pays."""
CLEAR = 0.75
"""Share of the pairs in which a variant must be the faster one."""
LEAST_GAIN = {"ns": 0.01, "cycles": 0.0}
"""Share of a run that a variant saves at least, or it is left alone: a few runs on a busy machine do not tell equals apart."""


@dataclass(frozen=True, slots=True)
class Specialisation:
    """Builds variants of one network on one machine. It holds no session: background work goes on without."""

    network: OpenedGraph
    target: Target
    accuracy: Accuracy
    limits: BuildLimits = NO_LIMITS
    costs: Callable[[], Mapping[GroupName, float]] = dict
    """Mean cycles of the network's groups, as far as runs have told them."""

    def assumed(self, classes: Classes, general: ProgramTable) -> Built:
        """Build the variant for classes that a user states, and compare it with the general program at once.

        It is left alone where nothing can be left out, or where it saves less than its guard costs. Raises
        ``InputError`` for a class that no input of the network can be of.
        """
        self._check_indices(classes)
        return self._judged(self._made(classes, general), general)

    def shared(self, general: CurrentTable, variant: Variant) -> tuple[Event, ...]:
        """Let the network and its variant share programs on an emulated machine, by dispatch; tell of it."""
        if not isinstance(self.target, EmulatorTarget):
            return ()
        apart = general.current, variant.table
        table, own = share_programs(apart[0], apart[1:], self.target.spec)
        before, after = count_programs(apart), count_programs((table, own))
        if after >= before:
            return ()
        general.update(lambda _: table)
        variant.table = own
        text = f"{self.network.graph.name}: {after} programs in place of {before}: the machine dispatches on the class"
        figures = {"programs_before": float(before), "programs": float(after)}
        return (Event(EventKind.SPECIALISED, 0, time.time(), text, figures),)

    def learned(self, general: CurrentTable) -> Build:
        """Return the builder of variants for classes that samples show. On this machine live requests judge them."""

        def build(classes: Classes, recorded: list[Inputs]) -> Built:
            table = general.current
            made = self._made(classes, table)
            if made.variant is None or not isinstance(self.target, WholeNetworks):
                return self._judged(made, table)
            guard = made.variant.guard
            inside = [fed for fed in recorded if guard.passes(fed)]
            if not all(self._agrees(made.variant, table, fed) for fed in inside):
                return self._left_alone(guard, "computes other numbers")
            text = f"on trial: {made.event.text}"
            event = Event(EventKind.PROPOSED, 0, time.time(), text, made.event.figures)
            fed = inside[-1] if inside else drawn_inputs(self.network, guard, 0)
            return Built(made.variant, event, False, _guard_ns(guard, fed))

        return build

    def _check_indices(self, classes: Classes) -> None:
        graph = self.network.graph
        for limit in index_limits(graph):
            one = classes.get(limit.input)
            value = None if one is None else one.constant(graph.shape(limit.input))
            if value is not None:
                limit.check(graph.name, value)

    def _made(self, classes: Classes, general: ProgramTable) -> Built:
        """Prune, plan and compile; on this machine compare outputs on drawn inputs of the class."""
        graph, spec = self.network.graph, self.target.spec
        guard = Guard.of(graph, classes)
        pruned = specialise(graph, classes, self.accuracy, self.network.ranges).graph
        if not is_cheaper(graph, pruned):
            return self._left_alone(guard, "leaves nothing out")
        saving = self._expected_saving(guard, general, pruned)
        if saving is not None and saving.gain <= 0:
            return self._left_alone(
                guard, f"is expected to save less than its guard costs: {saving.text}"
            )
        is_planned = self.network.plan is not None or general.plan_version > 0
        choices = carried_choices(pruned, general.choices, spec) if is_planned else None
        share = _work(pruned) / max(1, _work(graph))
        is_kept = self.network.is_cached
        table = variant_table(pruned, self.target, choices, self.limits, is_kept)
        variant = Variant(guard, table, share)
        fed = drawn_inputs(self.network, guard, 0)
        is_here = isinstance(self.target, WholeNetworks)
        if is_here and not self._agrees(variant, general, fed):
            return self._left_alone(guard, "computes other numbers")
        text = f"{graph.name}: a variant for {guard.text} does {share:.1%} of the operations"
        return Built(
            variant, Event(EventKind.SPECIALISED, 0, time.time(), text, {"share": share}), True
        )

    def _expected_saving(self, guard: Guard, general: ProgramTable, pruned: Graph) -> Worth | None:
        """Return what the edges that go are worth beside the guard; None where a group's cost is not known."""
        graph, spec = self.network.graph, self.target.spec
        known = self._group_cycles(general)
        groups = [
            GroupCost(step.operators, step.predicted_cycles, known.get(step.operators), None)
            for step in general.group_steps
        ]
        edges = cost_edges(graph, groups, rates_of(spec))
        saved, whole = saved_cycles(edges, graph, pruned), total(edge.cycles for edge in edges)
        if saved is None or whole is None:
            return None
        checking = guard.checked_bytes / spec.dram.bytes_per_cycle
        if isinstance(self.target, WholeNetworks):
            fed = drawn_inputs(self.network, guard, 0)
            checking = _guard_ns(guard, fed) * 1e-9 * spec.clock_hz
        return Worth(whole, whole - saved, checking, "cycles", 0)

    def _group_cycles(self, general: ProgramTable) -> Mapping[GroupName, float]:
        """Return the cycles of the network's groups: counted on an emulated machine, else from runs."""
        if not self._is_counted:
            return self.costs()
        programs = {id(step.program): step.program for step in general.group_steps}
        cycles = {key: float(self.target.time(one).cycles) for key, one in programs.items()}
        return {step.operators: cycles[id(step.program)] for step in general.group_steps}

    @property
    def _is_counted(self) -> bool:
        """True on an emulated machine whose costs are no history of what it ran."""
        return isinstance(self.target, EmulatorTarget) and not self.target.spec.physical.active

    def _agrees(self, variant: Variant, general: ProgramTable, fed: Mapping[str, Array]) -> bool:
        """Return True if a variant's outputs are the network's, or numpy's."""
        tables = (variant.table, general)
        outputs, expected = (execute(one, self.target, fed)[0] for one in tables)
        return agree(outputs, expected) or agree(outputs, evaluate(self.network.graph, fed))

    def _judged(self, made: Built, general: ProgramTable) -> Built:
        """Keep a variant unless it is seen to save less than its guard costs."""
        if made.variant is None:
            return made
        worth = self._worth(made.variant, general)
        if worth is None:
            return made
        guard, share = made.variant.guard, made.variant.share
        if worth.gain < LEAST_GAIN[worth.unit]:
            return self._left_alone(guard, f"saves less than its guard costs: {worth.text}")
        sides = (("general", worth.general), ("variant", worth.variant), ("guard", worth.guard))
        figures = {f"{side}_{worth.unit}": value for side, value in sides}
        figures |= {"share": share, "gain": worth.gain}
        text = f"{made.event.text}; {worth.text}"
        event = Event(EventKind.SPECIALISED, 0, time.time(), text, figures)
        return Built(Variant(guard, made.variant.table, share, worth), event, True)

    def _worth(self, variant: Variant, general: ProgramTable) -> Worth | None:
        """Return what a variant saves; None on machines that tell it by running alone."""
        target, guard = self.target, variant.guard
        if isinstance(target, WholeNetworks):
            fed = drawn_inputs(self.network, guard, 0)
            pairs = FEW_PAIRS if variant.share < EVIDENT else MOST_PAIRS
            return measured(general, variant.table, target, guard, fed, pairs)
        return counted(general, variant.table, target, guard) if self._is_counted else None

    def _left_alone(self, guard: Guard, reason: str) -> Built:
        text = f"{self.network.graph.name}: no variant for {guard.text}: it {reason}"
        return Built(None, Event(EventKind.REFUSED, 0, time.time(), text, {}), True)


def _guard_ns(guard: Guard, fed: Mapping[str, Array]) -> float:
    """Return the nanoseconds of a check that passes, the median of some."""
    taken = []
    for _ in range(GUARD_CALLS):
        began = time.perf_counter_ns()
        guard.passes(fed)
        taken.append(time.perf_counter_ns() - began)
    return statistics.median(taken)


def is_cheaper(graph: Graph, pruned: Graph) -> bool:
    """Return True if a pruned graph computes less than the graph that it is of."""
    return _work(pruned) < _work(graph) or _marks(pruned) > _marks(graph)


def _work(graph: Graph) -> int:
    """Return the elements that all operators make, and their operations."""
    return sum(flops(op, graph) + graph.types[op.output].elements for op in graph.ops)


def _marks(graph: Graph) -> int:
    return sum(any(name == "zero_blocks" for name, _ in op.attrs) for op in graph.ops)


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
    pairs: int = MOST_PAIRS,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Worth:
    """Run both tables in turns on this machine; return the nanoseconds of the fastest run of each.

    Other work of the machine makes runs longer, never shorter.
    """
    runs: tuple[list[int], list[int]] = ([], [])
    checks: list[int] = []
    begin = clock()
    for number in range(pairs + 1):
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
    wins = sum(own < other for other, own in zip(*(times[1:] for times in runs), strict=True))
    if wins < CLEAR * (len(checks) - 1):  # a fast run or two may be chance
        variant_ns = max(variant_ns, general_ns)
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
