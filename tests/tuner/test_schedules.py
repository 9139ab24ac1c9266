"""Group costs: the best schedules first, measurements over predictions, nothing illegal."""

from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace

import pytest

from autotune.cost_model.fitting import fit
from autotune.fusion.analysis import analyse
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.lowering.lower import lower
from autotune.measure.runner import measure
from autotune.operators.op import OpKind
from autotune.schedule.candidate import Candidate
from autotune.schedule.fit import check
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec
from autotune.tuner import bulk, schedules
from autotune.tuner.bulk import MANY, Job, rank_all
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import DEEP, QUICK, Ranked, Ranking
from autotune.tuner.records import to_record
from autotune.tuner.schedules import GroupCosts
from tests.tuner.search_case import EDGE, calibrated, residual, weights

GRAPH = residual(1)


def groups() -> list[Group]:
    partitions = (unfused(GRAPH), greedy(GRAPH, lambda names: True))
    found = [p.group(i) for p in partitions for i in range(len(p.groups))]
    return list({group.key: group for group in found}.values())


def block() -> Group:
    """Convolution, activation, convolution, addition, activation."""
    return Group.from_graph(GRAPH, [op.name for op in GRAPH.ops[:5]])


def costs(objective: Objective = Objective.LATENCY) -> GroupCosts:
    return GroupCosts(calibrated()[0], EDGE.spec, objective)


def measured(group: Group, schedule: Schedule) -> Record:
    (result,) = measure(EDGE, [Candidate(group, schedule, "residual")], 1)
    return to_record(result, EDGE, "search")


def failure(record: Record) -> Record:
    """The same candidate, had it failed."""
    return replace(record, outcome=Outcome.FAILED, reason="no", cycles=0, energy_fj=0, dram_bytes=0)


def cells() -> list[Group]:
    """Products of a sequence's six steps, each cut out of one input."""
    b = GraphBuilder("steps")
    x = b.input("x", (6, 1, 64))
    w = b.constant(weights(64, 64))
    ends = []
    for step in range(6):
        piece = b.add(OpKind.SLICE, x, starts=(step, 0, 0), steps=(1, 1, 1), sizes=(1, 1, 64))
        ends.append(b.add(OpKind.MATMUL, piece, w))
    graph = b.build(ends)
    names = [op.name for op in graph.ops]
    return [Group.from_graph(graph, names[at : at + 2]) for at in range(0, 12, 2)]


def observed(record: Record, steps: Sequence[Group], when: str) -> GroupCosts:
    """Costs that knew the record ``before`` they were asked, or hear of it ``while`` they are."""
    if when == "before":
        return GroupCosts(calibrated()[0], EDGE.spec, known=[record])
    known = costs()
    for cell in steps:
        known.best(cell)
    known.observe([record])
    return known


@pytest.mark.parametrize(
    "objective", [Objective.LATENCY, Objective.ENERGY, Objective.weighted(4e-7)], ids=str
)
def test_schedules_are_legal_and_ascend(objective: Objective) -> None:
    known = costs(objective)
    for group in groups():
        best = known.best(group)
        if group.is_view:
            assert not best and known.cost(group) == 0.0
            continue
        nests = analyse(group)
        assert best and isinstance(nests, tuple)
        spec = EDGE.spec
        for scored in best:
            assert check(nests, scored.schedule, spec.capacity, spec.cores) is None
            assert scored.low_cycles <= scored.predicted_cycles <= scored.high_cycles
        ascending = [scored.cost(objective) for scored in best]
        assert ascending == sorted(ascending) and ascending[0] == known.cost(group)


def test_what_is_found_does_not_depend_on_what_was_asked_before() -> None:
    first, second = costs(), costs()
    for group in groups():
        first.best(group)
    second.prepare(reversed(groups()))
    assert all(first.best(group) == second.best(group) for group in groups())


def test_workers_find_the_same() -> None:
    ranking = Ranking(calibrated()[0], EDGE.spec, Objective.LATENCY, 0)
    jobs = [(group, QUICK, None) for group in groups() if not group.is_view] * 3
    assert len(jobs) >= MANY
    here, there = rank_all(ranking, jobs, 1), rank_all(ranking, jobs, 2)
    assert [r.schedules for r in here] == [r.schedules for r in there]


def test_a_dead_worker_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def dead() -> None:
        raise BrokenExecutor("processes are gone")

    monkeypatch.setattr(bulk, "Parallel", dead)
    ranking = Ranking(calibrated()[0], EDGE.spec, Objective.LATENCY, 0)
    jobs = [(groups()[0], QUICK, None)] * MANY
    assert len(rank_all(ranking, jobs, 2)) == MANY


def test_deepening_never_loses_what_was_found() -> None:
    known = costs()
    before = known.cost(block())
    known.deepen([block()])
    after = known.cost(block())
    assert before is not None and after is not None and after <= before
    ranking = Ranking(calibrated()[0], EDGE.spec, Objective.LATENCY, 0)
    assert after <= ranking.rank(block(), DEEP).values[0, 0]


def test_a_measurement_overrides_its_prediction_and_corrects_the_others() -> None:
    known = costs()
    first, second = known.best(block(), 2)
    record = measured(block(), first.schedule)
    dear = replace(record, cycles=round(first.predicted_cycles * 1.5))
    known.observe([dear])
    by_schedule = {scored.schedule: scored for scored in known.best(block())}
    assert by_schedule[first.schedule].cost(Objective.LATENCY) == dear.cycles
    other = by_schedule[second.schedule]
    assert other.correction == pytest.approx(1.5, rel=1e-3)
    assert other.cost(Objective.LATENCY) == pytest.approx(1.5 * second.predicted_cycles, rel=1e-3)


def test_a_schedule_that_failed_is_not_proposed_again() -> None:
    known = costs()
    first = known.best(block(), 1)[0]
    known.observe([failure(measured(block(), first.schedule))])
    assert first.schedule not in {scored.schedule for scored in known.best(block())}


def test_a_measured_schedule_outside_the_ranking_stays_in_the_running() -> None:
    known = costs()
    group = groups()[0]
    worst = Ranking(calibrated()[0], EDGE.spec, Objective.LATENCY, 9).rank(group, QUICK)
    unknown = [s for s in worst.schedules if s not in {b.schedule for b in known.best(group)}] or [
        Schedule((replace(known.best(group)[0].schedule.nests[0], buffers=1),))
    ]
    record = replace(measured(group, unknown[-1]), cycles=1)
    known.observe([record])
    assert known.best(group, 1)[0].schedule == unknown[-1]
    assert known.cost(group) == 1.0


def test_a_measured_schedule_of_a_nest_that_had_other_dimensions_is_passed_over() -> None:
    known = costs()
    group = groups()[0]
    (first,) = known.best(group, 1)
    (part,) = first.schedule.nests
    old = replace(part, tile=part.tile[:-1], order=tuple(range(len(part.tile) - 1)))
    record = replace(measured(group, first.schedule), schedule_json=Schedule((old,)).to_json())
    known.observe([replace(record, cycles=1)])
    assert known.best(group, 1)[0].schedule == first.schedule


def test_a_group_that_does_not_fit_has_no_schedule() -> None:
    spec = EDGE.spec
    tiny = HardwareSpec(
        "tiny",
        "",
        (),
        1,
        spec.clock_hz,
        spec.matrix,
        spec.vector,
        replace(spec.scratchpad, size_bytes=1024),
        spec.dram,
        spec.control,
        spec.energy,
    )
    known = GroupCosts(calibrated()[0], tiny)
    assert not known.legal(block()) and known.cost(block()) is None and not known.best(block())


def test_another_model_predicts_anew() -> None:
    known = costs()
    before = known.cost(block())
    model, records = calibrated()
    doubled = [replace(r, cycles=2 * r.cycles) for r in records]
    known.retrain(fit(doubled, EDGE.spec, seed=0))
    after = known.cost(block())
    assert before is not None and after is not None and after > 1.5 * before
    assert known.model is not model


def test_equal_cells_of_a_sequence_are_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[Job] = []

    def counting(ranking: Ranking, jobs: Sequence[Job], workers: int | None) -> list[Ranked]:
        ranked.extend(jobs)
        return rank_all(ranking, jobs, workers)

    monkeypatch.setattr(schedules, "rank_all", counting)
    known, steps = costs(), cells()
    known.prepare(steps)
    assert len({cell.key for cell in steps}) == 6 and len(ranked) == 1
    assert len({known.best(cell) for cell in steps}) == 1
    assert all(lower(cell, known.best(cell)[0].schedule, EDGE.spec) for cell in steps)


@pytest.mark.parametrize("when", ["before", "while"])
def test_what_was_measured_of_one_cell_holds_for_all(when: str) -> None:
    steps = cells()
    schedule = costs().best(steps[0])[-1].schedule
    record = replace(measured(steps[3], schedule), cycles=1)
    known = observed(record, steps, when)
    assert record.group_key == steps[3].key != known.representative(steps[3]).key
    for cell in steps:
        assert known.best(cell, 1)[0].schedule == schedule and known.cost(cell) == 1.0


@pytest.mark.parametrize("when", ["before", "while"])
def test_what_was_measured_of_a_cell_itself_counts_more_than_its_twin(when: str) -> None:
    steps = cells()
    schedule = costs().best(steps[0])[-1].schedule
    own = replace(measured(steps[3], schedule), cycles=1)
    known = observed(own, steps, when)
    known.observe([replace(measured(steps[1], schedule), cycles=2)])
    assert [known.cost(cell) for cell in steps] == [2, 2, 2, 1, 2, 2]


def test_a_cell_that_ran_is_not_left_out_because_its_twin_failed() -> None:
    steps = cells()
    first = costs().best(steps[0], 1)[0]
    known = costs()
    known.observe([replace(measured(steps[3], first.schedule), cycles=1)])
    known.observe([failure(measured(steps[1], first.schedule))])
    assert known.best(steps[3], 1)[0].schedule == first.schedule
    assert first.schedule not in {scored.schedule for scored in known.best(steps[2])}


@pytest.mark.parametrize("when", ["before", "while"])
def test_what_failed_of_one_cell_is_proposed_for_none(when: str) -> None:
    steps = cells()
    first = costs().best(steps[0], 1)[0]
    known = observed(failure(measured(steps[3], first.schedule)), steps, when)
    for cell in steps:
        assert known.best(cell)
        assert first.schedule not in {scored.schedule for scored in known.best(cell)}
