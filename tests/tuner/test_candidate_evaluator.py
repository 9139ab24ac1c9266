"""The evaluator measures an equivalence class once, and a group itself where asked to."""

from collections.abc import Iterator, Sequence

import pytest

from autotune.fusion.group import Group
from autotune.measure.measurement import Failed, Measured
from autotune.measure.runner import arrivals, measure
from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import Target
from autotune.tuner import candidate_evaluator
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.schedules import GroupCosts
from tests.tuner.search_case import EDGE, calibrated, halves


def second_half() -> Group:
    graph = halves()
    return Group.from_graph(graph, [op.name for op in graph.ops[2:]])


def tried(count: int) -> tuple[CandidateEvaluator, Group]:
    """An evaluator that has measured so many schedules, of the group's representative."""
    costs, group = GroupCosts(calibrated()[0], EDGE.spec), second_half()
    found = CandidateEvaluator(EDGE, costs, "halves")
    found.measure((group, scored) for scored in costs.best(group, count))
    assert (
        {record.group_key for record in found.records}
        == {costs.representative(group).key}
        != {group.key}
    )
    return found, group


def test_a_settled_group_costs_what_the_target_counts_of_it() -> None:
    found, group = tried(4)
    shared = found.best(group)
    found.measure_exact([group, group])
    assert shared is not None and found.records[-1].group_key == group.key
    (again,) = measure(EDGE, [Candidate(group, shared.schedule, "halves")], 1)
    assert isinstance(again, Measured)
    assert found.cost(group) == again.execution.cycles != shared.record.cycles
    assert found.cost(found.costs.representative(group)) == shared.record.cycles


def test_a_group_is_settled_once() -> None:
    found, group = tried(2)
    found.measure_exact([group])
    taken = len(found.records)
    found.measure_exact([group, found.costs.representative(group)])
    assert len(found.records) == taken == 3


@pytest.mark.parametrize("failures", [1, 3])
def test_another_schedule_follows_where_one_fails_on_the_group_itself(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, group = tried(3)
    asked: list[Candidate] = []

    def failing(
        target: Target, candidates: Sequence[Candidate], workers: int | None, limit: float | None
    ) -> Iterator[tuple[int, Measured | Failed]]:
        for place, result in arrivals(target, candidates, workers, limit):
            asked.append(result.candidate)
            yield place, Failed(result.candidate, "no") if len(asked) <= failures else result

    monkeypatch.setattr(candidate_evaluator, "arrivals", failing)
    found.measure_exact([group])
    assert len({candidate.schedule for candidate in asked}) == len(asked) == min(failures + 1, 3)
    best = found.best(group)
    assert (
        best is None if failures == 3 else best is not None and best.record.group_key == group.key
    )
