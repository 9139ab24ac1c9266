"""Legal means lowerable: drawn legal schedules lower, verify and bind on every target."""

from __future__ import annotations

import pytest

from autotune.fusion.group import Group
from autotune.graph.accuracy import Accuracy
from autotune.tuner.legality import legal_nests
from tests.fuzz.odd_graphs import ODD_GRAPHS
from tests.fuzz.schedule_cases import SCHEDULES, Case, case, graph_of, quick_cases, target_of
from tests.fuzz.schedules import bounded, described, shrunk

NETWORKS = (
    "light_squeezenet", "light_shufflenet", "light_densenet121", "light_inception_v1", "mlp", "bert_small",
    "vit_tiny", "mobilenet_v2", "mobilenet_v3", "lstm", "gru", "yolo_head", "attention", "norm_gelu",
)  # fmt: skip
"""Those that are read within half a second; ``make fuzz-schedules`` takes all."""
GROUPS = 16
LARGE = ("server", "tpuv1-like", "cpu:1", "cpu:2")
"""Targets that hold what an operator of these networks needs at least."""


@pytest.mark.slow
@pytest.mark.parametrize("source", (*NETWORKS, *ODD_GRAPHS))
def test_every_legal_schedule_lowers_verifies_and_binds(source: str) -> None:
    loaded = 0
    for tried in quick_cases(source, GROUPS):
        try:
            loaded += bounded(tried) == "loaded"
        except Exception as error:
            raise AssertionError(described(tried)) from error
    assert loaded > SCHEDULES


@pytest.mark.slow
@pytest.mark.parametrize("source", (*NETWORKS, *ODD_GRAPHS))
def test_every_operator_alone_has_a_legal_schedule_on_a_large_target(source: str) -> None:
    for machine in LARGE:
        spec = target_of(machine).spec
        graph = graph_of(source, spec.layout, Accuracy.CLOSE)
        groups = {g.key: g for g in (Group.from_graph(graph, [op.name]) for op in graph.ops)}
        for group in groups.values():
            assert group.is_view or legal_nests(group, spec) is not None, group.ops


def test_a_case_is_the_same_in_every_run() -> None:
    first = [case(3, number) for number in (0, 7, 8)]
    assert [case(3, number) for number in (0, 7, 8)] == first
    assert first[0].group == first[1].group


def test_a_failure_shrinks_to_the_tile_that_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(tried: Case) -> str:
        assert tried.schedule is not None
        assert all(part.tile[0] > 1 for part in tried.schedule.nests)
        return "loaded"

    monkeypatch.setattr("tests.fuzz.schedules.judge", judged)
    found = next(
        x
        for x in quick_cases("tall_product", 16)
        if x.schedule is not None and any(part.tile[0] == 1 for part in x.schedule.nests)
    )
    plain = shrunk(found).schedule
    assert plain is not None
    assert [part.tile[0] for part in plain.nests].count(1) == 1
    assert all(part.buffers == part.cores == 1 for part in plain.nests)
