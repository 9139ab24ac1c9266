"""Runs of scenarios for ``benchmarks.online``: a learning session, and what others would have paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from autotune.cost_model.shipped import shipped_model
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.physical import Drift
from autotune.targets.protocol import Execution, Parameters
from autotune.targets.spec import HardwareSpec
from autotune.tuner.fusion import search
from autotune.tuner.options import SearchOptions
from benchmarks.online_scenarios import RUNS, Scenario

ORACLE = SearchOptions(trials=60, measure=200, workers=1)


class CountingMachine(EmulatorTarget):
    """An emulated machine that counts what learning measures on it, and the cycles of that."""

    def __init__(self, spec: HardwareSpec, name: str) -> None:
        super().__init__(spec, name)
        self.measured = self.measured_cycles = 0

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Return the cost of a program, and count it."""
        execution = super().time(program, parameters)
        self.measured += 1
        self.measured_cycles += execution.cycles
        return execution


@dataclass(slots=True)
class Prices:
    """Cycles of program tables on machines without noise, each priced once."""

    spec: HardwareSpec
    _known: dict[tuple[int, Drift], int] = field(default_factory=dict)
    _tables: list[ProgramTable] = field(default_factory=list)

    def cycles(self, table: ProgramTable, drift: Drift) -> int:
        """Cycles of one run of a table on a machine that drifted so far."""
        quiet = replace(drift, noise=None)
        key = id(table), quiet
        if key not in self._known:
            self._tables.append(table)  # keeps its id
            machine = EmulatorTarget(self.spec)
            machine.drift(quiet)
            steps = table.group_steps
            self._known[key] = sum(machine.time(step.program).cycles for step in steps)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class Followed:
    """A scenario as a learning session lived it: the published table at each run and the one that ran, on trial now and
    then; the fresh measurements until then and their cycles; and what happened."""

    tables: tuple[ProgramTable, ...]
    ran: tuple[ProgramTable, ...]
    measured: tuple[int, ...]
    measured_cycles: tuple[int, ...]
    events: tuple[Event, ...]

    @property
    def refits(self) -> int:
        """Models that were fitted and adopted."""
        return sum(event.kind is EventKind.RETRAINED for event in self.events)

    def swaps_after(self, run: int) -> int:
        """Plans that replaced the one that ran, from a run of the scenario on."""
        last: dict[str, int] = {}
        swaps = 0
        for place, table in enumerate(self.tables):
            before = last.get(table.graph.name, table.plan_version)
            swaps += place >= run and before != table.plan_version
            last[table.graph.name] = table.plan_version
        return swaps

    @property
    def drifts(self) -> int:
        """Drifts that were found."""
        return sum(event.kind is EventKind.DRIFT for event in self.events)


def follow(graphs: Sequence[Graph], spec: HardwareSpec, scenario: Scenario) -> Followed:
    """Serve a scenario by online sessions, one a network, on one machine. Learning may finish after each run, so
    that the figures do not depend on the host."""
    machine = CountingMachine(spec, spec.name)
    rng = np.random.default_rng(0)
    tables, ran, measured, cycles = [], [], [], []
    with ExitStack() as stack:
        store = stack.enter_context(Store.memory())
        sessions = [stack.enter_context(Session(g, machine, store, online=True)) for g in graphs]
        feeds = [session.draw_inputs(rng) for session in sessions]
        for run in range(RUNS):
            machine.drift(scenario.drift(run))
            session = sessions[scenario.network(run)]
            tables.append(session.table)
            session.run(feeds[scenario.network(run)])
            layout = session.last_run.layout
            assert layout is not None, "one graph ran"
            is_trial = layout is not tables[-1].layout
            ran.append(ProgramTable(tables[-1].graph, layout.steps) if is_trial else tables[-1])
            session.wait_idle()
            measured.append(machine.measured)
            cycles.append(machine.measured_cycles)
        events = tuple(event for session in sessions for event in session.events)
    return Followed(tuple(tables), tuple(ran), tuple(measured), tuple(cycles), events)


def heuristic_table(graph: Graph, spec: HardwareSpec) -> ProgramTable:
    """The table that a session opens with."""
    with Session(graph, EmulatorTarget(spec)) as session:
        return session.table


def tuned_table(graph: Graph, spec: HardwareSpec, drift: Drift) -> ProgramTable:
    """The table of a full search on a machine that drifted so far."""
    machine = EmulatorTarget(spec)
    machine.drift(replace(drift, noise=None))
    model = shipped_model(spec)
    assert model is not None, spec.name
    found = search(graph, machine, model, ORACLE)
    return compile_table(graph, found.plan.choices(graph), spec, ProgramCache())


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles of each run of a scenario, for each policy."""

    never: tuple[int, ...]
    tuned_once: tuple[int, ...]
    ours: tuple[int, ...]
    oracle: tuple[int, ...]

    def share(self, name: str) -> float:
        """Share of the oracle's saving over never learning."""
        saving = sum(self.never) - sum(self.oracle)
        return (sum(self.never) - sum(getattr(self, name))) / saving if saving else 1.0


def costs(
    scenario: Scenario,
    graphs: Sequence[Graph],
    followed: Followed,
    tuned: Mapping[tuple[str, Drift], ProgramTable],
    prices: Prices,
) -> Costs:
    """Price every run by each policy. The oracle runs the cheapest plan that anybody found, on trial as well."""
    heuristic = [heuristic_table(graph, prices.spec) for graph in graphs]
    rows: list[tuple[int, int, int, int]] = []
    for run, table in enumerate(followed.ran):
        place, drift = scenario.network(run), scenario.drift(run)
        name = graphs[place].name
        known = [one for (network, _), one in tuned.items() if network == name]
        known += [one for one in followed.ran if one.graph.name == name]
        every = {id(one): prices.cycles(one, drift) for one in (*known, heuristic[place])}
        once = prices.cycles(tuned[name, Drift()], drift)
        rows.append((every[id(heuristic[place])], once, every[id(table)], min(every.values())))
    never, once_all, ours, oracle = zip(*rows, strict=True)
    return Costs(never, once_all, ours, oracle)
