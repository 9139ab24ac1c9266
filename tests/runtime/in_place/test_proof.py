"""Certificates of plans that whole runs chose, against all partitions into the groups that ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from autotune.errors import PlanError
from autotune.fusion.partition import Partition
from autotune.measure.measurement import Measured
from autotune.runtime.in_place.proof import RESTRICTION, certify
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.variants import Groups, Names, names_of
from autotune.schedule.candidate import Candidate
from autotune.store.records import Record
from autotune.targets.opening import target
from autotune.targets.protocol import Execution
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.records import to_record
from tests.fusion.narrow_product import product_graph
from tests.tuner.search_case import residual

CPU = target("cpu:1")
GRAPH = residual(blocks=1, size=28)
PLAN = heuristic_choices(GRAPH, CPU.spec)


def ran_groups() -> dict[Names, Choice]:
    """Return the plan's groups, every operator alone, and the neighbours in order that fit as one."""
    groups, scheduled = Groups(GRAPH), HeuristicSchedules(CPU.spec)
    names = [op.name for op in GRAPH.ops]
    found = {names_of(one): one for one in PLAN}
    for size in (1, 2, 3):
        for first in range(len(names) - size + 1):
            some = tuple(names[first : first + size])
            if some in found:
                continue
            try:
                group = groups.of(some)
                Partition.of(GRAPH, [some, *((x,) for x in names if x not in some)])
            except (PlanError, ValueError):
                continue
            schedule = None if group.is_view else scheduled(group)
            if schedule is not None or group.is_view:
                found[some] = Choice(group, schedule)
    return found


def recorded(choice: Choice, cycles: int) -> Record:
    assert choice.schedule is not None
    candidate = Candidate(choice.group, choice.schedule, GRAPH.name)
    return to_record(Measured(candidate, Execution(cycles, 0, 0, {})), CPU, "search")


def covers(left: Sequence[str], groups: Sequence[Names]) -> Iterator[tuple[Names, ...]]:
    """Yield every way to cover the operators by groups that share none."""
    if not left:
        yield ()
        return
    for group in groups:
        if left[0] in group and set(group) <= set(left):
            rest = [x for x in left if x not in group]
            for others in covers(rest, groups):
                yield (group, *others)


def is_partition(groups: Sequence[Names]) -> bool:
    try:
        Partition.of(GRAPH, groups)
    except (PlanError, ValueError):
        return False
    return True


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_the_cheapest_partition_of_the_groups_that_ran(seed: int) -> None:
    rng, found = np.random.default_rng(seed), ran_groups()
    cycles: dict[str, int] = {}
    for choice in found.values():
        share = rng.uniform(0.7, 1.3) * len(choice.group.ops)
        cycles.setdefault(choice.group.key, round(1000 * share))
    records = [recorded(c, cycles[c.group.key]) for c in found.values() if c.schedule is not None]

    def cost(names: Names) -> int:
        choice = found[names]
        return 0 if choice.schedule is None else cycles[choice.group.key]

    every = [op.name for op in GRAPH.ops]
    sums = [sum(map(cost, one)) for one in covers(every, tuple(found)) if is_partition(one)]
    assert len(sums) > 10
    proof = certify(GRAPH, PLAN, found, records)
    assert proof is not None
    assert proof.bound == pytest.approx(min(sums))
    assert proof.cost == pytest.approx(sum(cost(names_of(one)) for one in PLAN))
    assert proof.groups == len(found) and proof.kinds <= proof.groups
    assert proof.restriction == RESTRICTION


def test_the_plan_counts_by_its_own_schedules_and_not_by_faster_ones() -> None:
    found = ran_groups()
    records = [recorded(c, 1000) for c in found.values() if c.schedule is not None]
    first = next(one for one in PLAN if one.schedule is not None)
    assert first.schedule is not None
    base = certify(GRAPH, PLAN, (), records)
    other = HeuristicSchedules(target("cpu:2").spec)(first.group)
    assert other is not None and other != first.schedule
    proof = certify(GRAPH, PLAN, (), [*records, recorded(Choice(first.group, other), 100)])
    assert base is not None and proof is not None
    assert base.gap == 0.0 and proof.gap > 0.0 and proof.cost == base.cost


def test_a_plan_with_a_group_that_never_ran_has_no_certificate() -> None:
    assert certify(GRAPH, PLAN, (), ()) is None


def test_times_of_an_int8_layer_hold_for_an_equal_one_with_another_zero_point() -> None:
    first, second = product_graph(5), product_graph(-9)
    ran, plan = (heuristic_choices(one, CPU.spec) for one in (first, second))
    records = [recorded(one, 1000) for one in ran if one.schedule is not None]
    assert [one.group.key for one in ran] != [one.group.key for one in plan]
    proof = certify(second, plan, (), records)
    assert proof is not None and proof.cost == 1000.0 * len(records)
