"""Sums that follow a contraction leave with its accumulator, whatever their shape and origin."""

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
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array, schedules
from tests.oracle import Interpreter
from tests.races import RaceDetector

SPEC = load_spec("server")
ADDENDS = ("made", "vector", "scalar", "loaded")


def product(b: GraphBuilder, x: str, family: str) -> str:
    """A contraction whose result has the shape of ``x``."""
    if family == "conv":
        return b.add(K.CONV, x, b.constant(array(4, 4, 3, 3)), pads=(1,) * 4)
    return b.add(K.MATMUL, x, b.constant(array(5, 5)), trans_a=0, trans_b=0)


def addend(b: GraphBuilder, x: str, family: str, kind: str) -> str:
    """What is added: made inside the group, loaded, or broadcast."""
    match kind:
        case "made":
            return b.add(K.TANH, x)
        case "vector":
            return b.constant(array(4, 1, 1) if family == "conv" else array(7, 1))
        case "scalar":
            return b.constant(array(1))
        case _:
            return x


def summed(family: str, kind: str, activation: bool = True) -> Graph:
    """fn(contraction + addend)."""
    b = GraphBuilder("summed")
    x = b.input("x", (2, 4, 6, 5) if family == "conv" else (3, 7, 5))
    other = addend(b, x, family, kind)
    y = b.add(K.ADD, other, product(b, x, family))
    return b.build(outputs=[b.add(K.RELU, y) if activation else y])


def opcodes(program: Program) -> list[Opcode]:
    return [i.opcode for stream in program.streams for i in stream]


def group_of(graph: Graph) -> Group:
    return Group.from_graph(graph, [op.name for op in graph.ops])


@given(st.data(), st.sampled_from(["conv", "matmul"]), st.sampled_from(ADDENDS), st.booleans())
def test_a_sum_by_any_schedule_equals_the_reference(
    data: st.DataObject, family: str, kind: str, activation: bool
) -> None:
    graph = summed(family, kind, activation)
    group = group_of(graph)
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    program = lower(group, data.draw(schedules(nests)), SPEC)
    assert not RaceDetector(program).run()
    feeds = {"x": array(*graph.shape("x"))}
    got = Interpreter(program, {**feeds, **graph.constants}).run()
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["conv", "matmul"])
@pytest.mark.parametrize("kind", ADDENDS)
def test_an_addend_at_hand_costs_no_vector_instruction(family: str, kind: str) -> None:
    group = group_of(summed(family, kind))
    program = lower(group, whole(group), SPEC)
    vector = [o for o in opcodes(program) if o in (Opcode.UNARY, Opcode.BINARY, Opcode.CHAIN)]
    assert len(vector) == {"made": 1, "loaded": len(vector)}.get(kind, 0)
    products = [i for i in program.streams[0] if i.row.unit is Unit.MATRIX]
    assert any(i.get("adds") for i in products) == (kind != "loaded")


def whole(group: Group) -> Schedule:
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, SPEC.capacity, 1)
    assert schedule is not None
    return schedule
