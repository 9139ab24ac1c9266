"""The analytic overlap of units against the emulator, which starts every instruction."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.pipeline import flow
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from tests.cost_model.measured import SPEC, drawn


@pytest.mark.parametrize(("cores", "limit"), [(1, 0.03), (2, 0.09)])
def test_the_estimate_is_near_the_emulator_on_drawn_schedules(cores: int, limit: float) -> None:
    """Over some hundred programs of drawn groups; two cores disturb each other at the channel."""
    machine, errors = EmulatorTarget(SPEC), []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        group, nests, _ = drawn(rng)
        if len(nests) > 1:
            continue
        table = enumerate_nest(nests[0], SPEC.scratchpad_elements, SPEC.cores, 12, rng)
        table = table.take(table.cores == cores)
        estimate = ScratchpadAnalysis(nests[0], table, SPEC).estimate
        for row in range(len(table)):
            program = lower(group, Schedule((table.row(row),)), SPEC)
            errors.append(abs(estimate[row] / machine.time(program).cycles - 1))
    assert len(errors) > 80
    assert np.mean(errors) < limit


def relu(extent: int) -> Group:
    b = GraphBuilder("relu")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (64, extent)))])
    return Group.from_graph(graph, [op.name for op in graph.ops])


@pytest.mark.parametrize(("tile", "buffers"), [(4, 1), (4, 2), (7, 2)])
def test_loads_and_stores_take_turns_on_the_channel(tile: int, buffers: int) -> None:
    """A copy of a tensor is bound by DRAM, whether tiles are loaded ahead or leave a rest."""
    group = relu(512)
    part = NestSchedule((tile, 512), (0, 1), (), buffers, 1)
    table = ScheduleTable.of(nests_of(group)[0], [part])
    a = ScratchpadAnalysis(nests_of(group)[0], table, SPEC)
    found = flow(a.tiling, a.steps, SPEC).cycles[0]
    cycles = EmulatorTarget(SPEC).time(lower(group, Schedule((part,)), SPEC)).cycles
    assert found == pytest.approx(cycles, rel=0.04)
