"""Whole runs on this machine: plans share what they can, and compute what they compute alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.fusion.group import Group
from autotune.graph.evaluation import evaluate
from autotune.runtime.execution.native_table import WholeNetworks, network_of
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.runtime.variants.fusions import cuts, merges
from autotune.runtime.variants.schedules import estimate_of, propose_schedules
from autotune.runtime.variants.variants import Change, Groups, Place, names_of, rescheduled
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices, heuristic_schedule
from tests.tuner.search_case import residual

CPU = target("cpu:1")
GRAPH = residual(blocks=1)
PLAN = heuristic_choices(GRAPH, CPU.spec)
INPUTS = draw_inputs(GRAPH, {}, 0)


def variants(plan: Sequence[Choice]) -> list[tuple[Choice, ...]]:
    """Return plans of the graph: each differs from the given one at one place."""
    groups, rng = Groups(GRAPH), np.random.default_rng(0)
    estimate = estimate_of(None, CPU.spec)

    def scheduled(group: Group) -> Schedule | None:
        return heuristic_schedule(group, CPU.spec)

    found = []
    for i, choice in enumerate(plan):
        if choice.schedule is None:
            continue
        schedules = propose_schedules(choice.group, choice.schedule, CPU.spec, estimate, 3, rng)
        ways = (
            *cuts(groups, choice, scheduled),
            *(rescheduled(choice.group, s) for s in schedules),
        )
        place = Place(((i,),), (names_of(choice),), ways)
        found += [groups.changed(plan, [Change(place, 0, way)]) for way in ways]
    for place in merges(groups, plan, scheduled, 8, [1.0] * len(plan)):
        found += [groups.changed(plan, [Change(place, 0, way)]) for way in place.variants]
    return found


def test_plans_that_share_programs_and_memory_compute_what_the_network_does() -> None:
    runs = WholeRuns(GRAPH, CPU, INPUTS)
    assert runs.is_right(PLAN)
    plans = variants(PLAN)
    assert len(plans) > 5
    assert {len(plan) for plan in plans} > {len(PLAN)}  # some cut or merge groups
    for plan in plans:
        assert runs.is_right(plan)
        timed = runs.run(plan, 2)
        assert timed.steps == tuple(names_of(c) for c in plan if c.schedule is not None)
        assert timed.seconds.shape == (2, len(timed.steps))
        assert (timed.seconds > 0).all()


def test_executables_of_a_workshop_give_the_outputs_of_the_reference() -> None:
    assert isinstance(CPU, WholeNetworks)
    shop, cache = CPU.workshop(), ProgramCache()
    expected = evaluate(GRAPH, INPUTS)
    for plan in (PLAN, *variants(PLAN)[:4], PLAN):
        network = network_of(compile_table(GRAPH, plan, CPU.spec, cache))
        outputs = CPU.executable(network, workshop=shop).run(INPUTS)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)


def test_a_program_is_linked_once_for_equal_constants() -> None:
    assert isinstance(CPU, WholeNetworks)
    shop = CPU.workshop()
    network = network_of(compile_table(GRAPH, PLAN, CPU.spec, ProgramCache()))
    programs = CPU.linkables(network)
    constants = [
        {
            t.name: GRAPH.constants[p.names[t.name]]
            for t in p.program.tensors
            if p.names[t.name] in GRAPH.constants
        }
        for p in network.parts
    ]
    first = shop.linker.linked(programs, constants)
    again = shop.linker.linked(programs, constants)
    assert all(one is two for one, two in zip(first, again, strict=True))


def test_wrong_outputs_are_noticed() -> None:
    runs = WholeRuns(GRAPH, CPU, INPUTS)
    assert runs.is_right(PLAN)
    runs._expected = {x: y + 1.0 for x, y in (runs._expected or {}).items()}
    assert not runs.is_right(PLAN)


def test_every_variant_covers_the_network() -> None:
    for plan in variants(PLAN):
        names = sorted(name for choice in plan for name in names_of(choice))
        assert names == sorted(op.name for op in GRAPH.ops)
