"""Bank conflicts of operands that are part of a larger tile, against the emulator's."""

from __future__ import annotations

import pytest

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.isa.opcodes import Unit
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from tests.cost_model.measured import SPEC


@pytest.mark.parametrize("tile", [1, 2, 5, 8, 64])
def test_a_slice_of_a_whole_row_is_read_as_slowly_as_the_emulator_reads_it(tile: int) -> None:
    b = GraphBuilder("softmax_relu")
    graph = b.build([b.add(OpKind.RELU, b.add(OpKind.SOFTMAX, b.input("x", (32, 64)), axis=1))])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    part = NestSchedule((16, tile), (0, 1), (), 1, 1)
    nest = nests_of(group)[0]
    a = ScratchpadAnalysis(nest, ScheduleTable.of(nest, [part]), SPEC)
    counters = EmulatorTarget(SPEC).time(lower(group, Schedule((part,)), SPEC)).counters
    taken = counters["vector_busy_cycles"] + counters["vector_stall_bank_cycles"]
    assert a.busy[Unit.VECTOR][0] == taken
