"""Runs of element-wise operators become one pass, and compute what they would one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array, schedules
from tests.oracle import Interpreter
from tests.races import RaceDetector

SPEC = load_spec("server")
SHAPE = (3, 7, 5)
UNARY = (K.RELU, K.TANH, K.SIGMOID, K.NEG, K.ABS)
BINARY = (K.ADD, K.SUB, K.MUL, K.MAXIMUM)


def group_of(graph: Graph) -> Group:
    return Group.from_graph(graph, [op.name for op in graph.ops])


def lowered(graph: Graph) -> Program:
    return lower(group_of(graph), Schedule((NestSchedule(SHAPE, (0, 1, 2), ()),)), SPEC)


def vector_opcodes(graph: Graph) -> list[Opcode]:
    return [i.opcode for i in lowered(graph).streams[0] if i.row.unit is Unit.VECTOR]


@st.composite
def runs(draw: st.DrawFn) -> Graph:
    """Up to seven element-wise operators behind each other, sides of any origin and on any side."""
    b = GraphBuilder("run")
    x, r = b.input("x", SHAPE), b.input("r", SHAPE)
    sides = [x, r, *(b.constant(array(*s)) for s in ((5,), (7, 1), (3, 1, 1), (1,), ()))]
    y = x
    for _ in range(draw(st.integers(2, 7))):
        if draw(st.booleans()):
            y = b.add(draw(st.sampled_from(UNARY)), y)
        else:
            pair = draw(st.permutations([y, draw(st.sampled_from(sides))]))
            y = b.add(draw(st.sampled_from(BINARY)), *pair)
        if draw(st.integers(0, 3)) == 0:
            sides.append(y)
    return b.build(outputs=[y])


@given(st.data())
def test_a_run_by_any_schedule_equals_the_reference(data: st.DataObject) -> None:
    graph = data.draw(runs())
    group = group_of(graph)
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    program = lower(group, data.draw(schedules(nests)), SPEC)
    assert not RaceDetector(program).run()
    feeds = {x: array(*graph.shape(x)) for x in graph.inputs}
    got = Interpreter(program, {**feeds, **graph.constants}).run()
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4)


def test_a_scalar_read_twice_in_a_run_is_one_side_operand() -> None:
    b = GraphBuilder("quantise")
    x, scale, zero = b.input("x", SHAPE), b.constant(array()), b.constant(array())
    y = b.add(K.ADD, b.add(K.ROUND, b.add(K.DIV, x, scale)), zero)
    graph = b.build(outputs=[b.add(K.MUL, y, scale)])
    assert vector_opcodes(graph) == [Opcode.CHAIN]


def test_swish_is_one_pass() -> None:
    b = GraphBuilder("swish")
    x = b.input("x", SHAPE)
    graph = b.build(outputs=[b.add(K.MUL, b.add(K.SIGMOID, x), x)])
    assert vector_opcodes(graph) == [Opcode.CHAIN]


@pytest.mark.parametrize(("count", "passes"), [(1, 1), (2, 1), (4, 1), (5, 2), (9, 3)])
def test_a_pass_takes_four_stages(count: int, passes: int) -> None:
    b = GraphBuilder("deep")
    y = b.input("x", SHAPE)
    for _ in range(count):
        y = b.add(K.TANH, y)
    assert len(vector_opcodes(b.build(outputs=[y]))) == passes


def test_a_tile_that_is_still_to_be_loaded_begins_a_pass() -> None:
    b = GraphBuilder("late")
    x, r = b.input("x", SHAPE), b.input("r", SHAPE)
    graph = b.build(outputs=[b.add(K.RELU, b.add(K.ADD, b.add(K.TANH, x), r))])
    assert vector_opcodes(graph) == [Opcode.UNARY, Opcode.CHAIN]
