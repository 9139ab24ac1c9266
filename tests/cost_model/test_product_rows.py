"""Estimates count as many rows of a product as lowering joins."""

from __future__ import annotations

import pytest

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.table import ScheduleTable
from tests.cost_model.measured import SPEC
from tests.cost_model.walked import estimated, walk
from tests.drawn_graphs import array


@pytest.mark.parametrize("tile", [(6, 4, 5), (2, 4, 5), (6, 2, 5), (6, 1, 5), (4, 3, 5)])
@pytest.mark.parametrize("factors", [1, 6])
def test_instructions_are_counted_with_joint_rows(tile: tuple[int, ...], factors: int) -> None:
    b = GraphBuilder("batch")
    weight = b.constant(array(*(6,) * (factors > 1), 3, 5))
    graph = b.build(outputs=[b.add(K.MATMUL, b.input("x", (6, 4, 3)), weight)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    part = NestSchedule(tile, (0, 1, 2), (3,), 1)
    found = estimated(ScratchpadAnalysis(nests[0], ScheduleTable.of(nests[0], [part]), SPEC))
    assert found == walk(lower(group, Schedule((part,)), SPEC))
