"""A neighbour's measurements correct predictions on a machine that was never measured, and bring its schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.cost_model.shipped import shipped_model
from autotune.fusion.group import Group, layer
from autotune.measure.measurement import Measured
from autotune.schedule.candidate import Candidate
from autotune.schedule.fit import check
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.protocol import Execution
from autotune.targets.spec import HardwareSpec
from autotune.tuner.legality import legal_nests
from autotune.tuner.records import to_record
from autotune.tuner.schedules import GroupCosts, ScoredSchedule
from autotune.tuner.transfer import LIMITS

EDGE = load_spec("edge")
GROUP = layer("matmul", a=(256, 256), b=(256, 256))
SLOW = replace(EDGE, dram=replace(EDGE.dram, bytes_per_cycle=EDGE.dram.bytes_per_cycle / 2))
SMALL = replace(EDGE, scratchpad=replace(EDGE.scratchpad, size_bytes=1 << 14))


def costs(spec: HardwareSpec) -> GroupCosts:
    model = shipped_model(spec)
    assert model is not None
    return GroupCosts(model, spec)


def measured(one: ScoredSchedule, factor: float) -> Record:
    """A record of ``factor`` times what the model says."""
    execution = Execution(max(1, round(factor * one.predicted_cycles)), 1, 0, {})
    candidate = Candidate(GROUP, one.schedule, "net")
    return to_record(Measured(candidate, execution), EmulatorTarget(EDGE), "search")


def carried(spec: HardwareSpec, *factors: float) -> tuple[GroupCosts, list[Schedule]]:
    """Costs on a machine after the neighbour took so many times what was predicted of its best schedules."""
    there = costs(EDGE).best(GROUP, len(factors))
    records = [measured(one, factor) for one, factor in zip(there, factors, strict=True)]
    here = costs(spec)
    here.carry(records, EDGE)
    return here, [one.schedule for one in there]


def find(here: GroupCosts, schedule: Schedule) -> ScoredSchedule:
    return next(one for one in here.best(GROUP, 1000) if one.schedule == schedule)


def test_a_schedule_is_corrected_by_what_it_took_there_and_others_by_the_median() -> None:
    here, (good, bad, usual) = carried(SLOW, 0.7, 1.3, 1.1)
    assert find(here, good).correction == pytest.approx(0.7, rel=0.01)
    assert find(here, bad).correction == pytest.approx(1.3, rel=0.01)
    rest = [one for one in here.best(GROUP, 1000) if one.schedule not in (good, bad, usual)]
    assert rest and {round(one.correction, 2) for one in rest} == {1.1}
    found = here.best(GROUP, 1000)
    assert [one.cost(here.objective) for one in found] == sorted(
        one.cost(here.objective) for one in found
    )


def test_corrections_are_limited() -> None:
    here, (good, bad) = carried(SLOW, 0.01, 50.0)
    assert (find(here, good).correction, find(here, bad).correction) == LIMITS


def test_what_does_not_fit_brings_legal_ones_near_it() -> None:
    here, schedules = carried(SMALL, 0.9)
    nests = legal_nests(GROUP, SMALL)
    assert nests is not None
    assert check(nests, schedules[0], SMALL.capacity, SMALL.cores) is not None
    found = here.best(GROUP, 1000)
    assert schedules[0] not in {one.schedule for one in found}
    before = {one.schedule for one in costs(SMALL).best(GROUP, 1000)}
    assert {one.schedule for one in found} > before
    for one in found:
        assert check(nests, one.schedule, SMALL.capacity, SMALL.cores) is None


def test_own_measurements_take_the_place_of_a_neighbours() -> None:
    here, (good, bad) = carried(SLOW, 0.7, 1.3)
    own = measured(find(here, bad), 1.0)
    here.observe([replace(own, profile_id=SLOW.profile_id)])
    assert find(here, bad).is_measured
    assert find(here, good).correction == pytest.approx(1.0, rel=0.01)


def test_other_groups_are_predicted_as_before() -> None:
    other: Group = layer("matmul", a=(64, 128), b=(128, 64))
    here, _ = carried(SLOW, 0.7)
    assert here.best(other, 5) == costs(SLOW).best(other, 5)


def test_a_neighbour_that_is_not_heeded_tells_nothing_until_it_is_again() -> None:
    here, plain = carried(SLOW, 0.7, 1.3)[0], costs(SLOW)
    heeded = here.best(GROUP, 1000)
    here.heed_neighbour(False)
    assert here.best(GROUP, 1000) == plain.best(GROUP, 1000) != heeded
    here.heed_neighbour(True)
    assert here.best(GROUP, 1000) == heeded


def test_costs_of_the_model_alone_know_no_measurement() -> None:
    here, plain = carried(SLOW, 0.7, 1.3)[0], costs(SLOW)
    own = measured(plain.best(GROUP, 3)[2], 1.2)
    here.observe([replace(own, profile_id=SLOW.profile_id)])
    assert any(one.is_measured for one in here.best(GROUP, 1000))
    assert here.unmeasured().best(GROUP, 1000) == plain.best(GROUP, 1000)
