"""Schedule tables are lossless columns of schedules."""

from __future__ import annotations

import numpy as np

from autotune.datasets import random_graphs
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity


def test_a_table_of_its_own_rows_is_the_same_table() -> None:
    graph = next(random_graphs(np.random.default_rng(5), 1))
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    table = enumerate_nest(nests[0], Capacity(65536), 2, 50, np.random.default_rng(0))
    again = ScheduleTable.of(nests[0], [table.row(i) for i in range(len(table))])
    for name in ("tile", "order", "k_tile", "buffers", "cores"):
        assert np.array_equal(getattr(table, name), getattr(again, name))
    picked = table.take([3, 1])
    assert [picked.row(0), picked.row(1)] == [table.row(3), table.row(1)]
