"""One network in a process of its own for `search_cpu.py`: searches it in some ways, and runs all plans in turns.

Argument: JSON with network, threads, seconds (null: the default), arms, rounds and the plan file to write.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import autotune
from autotune.cost_model.model import CostModel
from autotune.errors import StoreError
from autotune.graph.graph import Graph
from autotune.isa.formats import Formats
from autotune.lowering.lower import lower
from autotune.operators.tensor import Array
from autotune.runtime.in_place.budget import Budget
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.in_place.search_setup import Allowance
from autotune.runtime.in_place.whole_runs import Timed, WholeRuns
from autotune.runtime.session.opening import open_model
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import estimate_of, propose_schedules
from autotune.runtime.variants.variants import names_of
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.store.store import Store
from autotune.targets.opening import target as open_target
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.contest import hold_contest
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.legality import legal_nests
from autotune.tuner.plan import Plan as SavedPlan
from autotune.tuner.progress import silent
from benchmarks.child import raise_priority

Plan = tuple[Choice, ...]


class AloneRuns(WholeRuns):
    """Steps take what their program takes alone, on hot operands, measured once: how searches measured before."""

    def __init__(self, graph: Graph, target: Target, inputs: Mapping[str, Array]) -> None:
        super().__init__(graph, target, inputs)
        self._machine = target
        self._seconds: dict[tuple[str, Schedule], float] = {}

    def run(self, plan: Sequence[Choice], runs: int) -> Timed:
        """Return one row: the steps' times alone."""
        steps = [choice for choice in plan if choice.schedule is not None]
        row = [[self._alone(choice) for choice in steps]]
        return Timed(tuple(map(names_of, steps)), np.array(row))

    def _alone(self, choice: Choice) -> float:
        assert choice.schedule is not None
        key = choice.group.key, choice.schedule
        if key not in self._seconds:
            program = lower(choice.group, choice.schedule, self._machine.spec)
            cycles = self._machine.time(program).cycles
            self._seconds[key] = cycles / self._machine.spec.clock_hz
        return self._seconds[key]


@dataclass(frozen=True, slots=True)
class Contender:
    """A plan, and whole runs of its network where that has other forms of convolutions than the usual one."""

    plan: Plan
    runs: WholeRuns | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """A network on a machine, its heuristic plan, and whole runs of it."""

    graph: Graph
    target: Target
    heuristic: Plan
    runs: WholeRuns
    inputs: Mapping[str, Array]
    model: CostModel | None

    def search(self, arm: str, seconds: float | None) -> InPlaceSearch:
        """Search in one way: ``in place``, ``alone`` (each program by itself) or ``random`` (schedules drawn)."""
        rng, spec = np.random.default_rng(0), self.target.spec
        estimate = estimate_of(self.model, spec)

        def propose(choice: Choice, count: int) -> tuple[Schedule, ...]:
            assert choice.schedule is not None
            if arm == "random":
                return drawn_schedules(choice, self.target, count, rng)
            return propose_schedules(choice.group, choice.schedule, spec, estimate, count, rng)

        runs = AloneRuns(self.graph, self.target, self.inputs) if arm == "alone" else self.runs
        run_seconds = sum(self.runs.run(self.heuristic, 2).least.values())
        begin = time.monotonic()
        budget = Allowance(begin, seconds).budget(run_seconds, begin)
        found = InPlaceSearch(
            self.graph,
            runs,
            self.heuristic,
            propose,
            HeuristicSchedules(spec),
            HeuristicSchedules(replace(spec, cores=1)),
            Budget(budget.seconds, begin, time.monotonic),
            rng,
            silent,
        )
        found.run()
        return found

    def timer(self, contender: Contender) -> Callable[[], float]:
        """Return what runs a plan once and returns its clock time: the run's own, without looking the plan up."""
        run = (contender.runs or self.runs).runner(contender.plan)

        def seconds() -> float:
            begin = time.perf_counter()
            run()
            return time.perf_counter() - begin

        return seconds


def drawn_schedules(
    choice: Choice, target: Target, count: int, rng: np.random.Generator
) -> tuple[Schedule, ...]:
    """Return legal schedules of a group, drawn at random."""
    nests = legal_nests(choice.group, target.spec) or ()
    tables = [enumerate_on(nest, target.spec, 512, rng) for nest in nests]
    return tuple(
        Schedule(tuple(table.row(int(rng.integers(len(table)))) for table in tables))
        for _ in range(count)
    )


def opened(network: str, threads: int) -> Bench:
    """Open a network on this CPU."""
    target = open_target(f"cpu:{threads}")
    graph = graph_of(network, target, target.spec.formats)
    inputs = draw_inputs(graph, {}, 0)
    try:
        with Store.open() as store:
            model = open_model(store, target).model
    except StoreError:
        model = None
    heuristic = heuristic_choices(graph, target.spec)
    runs = WholeRuns(graph, target, inputs)
    return Bench(graph, target, heuristic, runs, inputs, model)


def graph_of(network: str, target: Target, formats: Formats) -> Graph:
    """Open a network as users do."""
    return autotune.load_network(
        network, layout=target.spec.layout, accuracy="close", formats=formats
    )


def found_plan(bench: Bench, network: str, plan: SavedPlan) -> Contender:
    """Return the plan of a search, on the network with the forms that it chose."""
    formats = plan.formats_on(bench.target.spec)
    if formats == bench.target.spec.formats:
        return Contender(tuple(plan.graphs[0].choices(bench.graph)))
    graph = graph_of(network, bench.target, formats)
    runs = WholeRuns(graph, bench.target, bench.inputs)
    return Contender(tuple(plan.graphs[0].choices(graph)), runs)


def scheduled(plan: Plan) -> list[tuple[tuple[str, ...], Schedule | None]]:
    """Return what a plan runs, without predictions."""
    return [(names_of(choice), choice.schedule) for choice in plan]


def judged(bench: Bench, plans: Mapping[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Return the heuristic plan's time over each plan's, round by round: all run in turns, thrice each."""
    ratios: dict[str, list[float]] = {name: [] for name in plans}
    timers = [bench.timer(plan) for plan in (Contender(bench.heuristic), *plans.values())]
    for number in range(rounds):
        at = number % len(timers)
        times = {}
        for seconds in (*timers[at:], *timers[:at]):
            seconds()
            times[seconds] = statistics.median(seconds() for _ in range(3))
        for name, seconds in zip(plans, timers[1:], strict=True):
            ratios[name].append(times[timers[0]] / times[seconds])
    return ratios


def figures(search: InPlaceSearch) -> dict[str, Any]:
    """Return what a search did: variants, and the chosen changes' gain as measured, shrunk and run anew."""
    chosen = [one for generation in search.generations for one in generation]
    base = sum(one.seconds for one in chosen)
    return {
        "tried": search.tried,
        "chosen": len(chosen),
        "adopted": sum(one.is_adopted for one in chosen),
        "seconds": base,
        "measured": sum(-one.seconds * np.expm1(one.measured) for one in chosen),
        "shrunk": sum(-one.seconds * np.expm1(one.estimate) for one in chosen),
        "fresh": sum(-one.effect.seconds for one in chosen),
    }


def main() -> None:
    """Search by every arm, run all plans in turns, print one JSON object."""
    raise_priority()
    given = json.loads(sys.argv[1])
    arms = given["arms"]
    answer: dict[str, Any] = {"arms": {}}
    plans: dict[str, Contender] = {}
    bench = opened(given["network"], given["threads"])
    for arm in arms:
        begin = time.monotonic()
        if arm == "found":
            result = autotune.search(
                given["network"], bench.target, seconds=given["seconds"], out=given["plan"]
            )
            contender = found_plan(bench, given["network"], result.plan)
            row: dict[str, Any] = {"measurements": result.measurements}
        else:
            search = bench.search(arm, given["seconds"])
            contender, row = Contender(search.plan), figures(search)
        plans[arm] = contender
        answer["arms"][arm] = row | {"search_seconds": time.monotonic() - begin}
        differs = scheduled(contender.plan) != scheduled(bench.heuristic)
        answer["arms"][arm]["is_kept"] = differs or contender.runs is not None
    for arm, ratios in judged(bench, plans, given["rounds"]).items():
        answer["arms"][arm] |= {"gain": statistics.median(ratios), "rounds": ratios}
    for arm in arms:
        if arm != "found" and answer["arms"][arm]["is_kept"]:
            champion, challenger = (
                bench.timer(x) for x in (Contender(bench.heuristic), plans[arm])
            )
            answer["arms"][arm]["is_kept"] = hold_contest(champion, challenger).is_won
    seconds = bench.timer(Contender(bench.heuristic))
    answer["run_seconds"] = statistics.median(seconds() for _ in range(9))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
