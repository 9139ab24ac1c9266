"""Programs lowered from drawn groups by drawn schedules, and one with two convolutions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array, schedules

SPEC = replace(load_spec("server"), cores=2)


def lowered(graph: Graph, data: st.DataObject) -> Program:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assume(not isinstance(nests, Rejection))
    assert not isinstance(nests, Rejection)
    return lower(group, data.draw(schedules(nests)), SPEC)


def residual_block() -> Graph:
    b = GraphBuilder("block")
    x = b.input("x", (1, 6, 9, 10))
    y = b.add(
        K.RELU, b.add(K.CONV, x, b.constant(array(8, 6, 3, 3)), b.constant(array(8)), pads=(1,) * 4)
    )
    z = b.add(K.CONV, y, b.constant(array(6, 8, 3, 3)), pads=(1,) * 4)
    return b.build(outputs=[b.add(K.RELU, b.add(K.ADD, z, x))])


def block_program() -> Program:
    graph = residual_block()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    return lower(group, Schedule((NestSchedule((1, 3, 4, 5), (2, 3, 1, 0), (6, 8)),)), SPEC)
