"""Batch axes that share one factor become rows of one product."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array, schedules
from tests.oracle import Interpreter

SPEC = load_spec("server")


def projection(*batch: int) -> Graph:
    """A residual sum of [batch…, 8] · [8, 24] + bias."""
    b = GraphBuilder("projection")
    x, added = b.input("x", (*batch, 8)), b.input("r", (*batch, 24))
    y = b.add(K.ADD, b.add(K.MATMUL, x, b.constant(array(8, 24))), b.constant(array(24)))
    return b.build(outputs=[b.add(K.ADD, y, added)])


def program_of(graph: Graph, schedule: Schedule | None = None) -> Program:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    if schedule is None:
        schedule = default_schedule(nests, SPEC.capacity, 1)
    assert schedule is not None
    return lower(group, schedule, SPEC)


def products(program: Program) -> list[Instruction]:
    return [each for each in program.streams[0] if each.opcode is Opcode.MATMUL]


@pytest.mark.parametrize("batch", [(50, 1), (1, 50), (5, 10), (2, 5, 5), (5, 1, 10)])
def test_rows_of_all_batch_axes_are_one_product(batch: tuple[int, ...]) -> None:
    (product,) = products(program_of(projection(*batch)))
    assert product.get("m") == 50


def test_rows_of_tiles_that_cut_them_stay_apart() -> None:
    whole = (0, 1, 2)
    cut = Schedule((NestSchedule((3, 4, 24), whole, (8,), 1),))
    assert {product.get("m") for product in products(program_of(projection(3, 8), cut))} == {4}


def test_more_rows_than_sixteen_bits_count_are_one_product() -> None:
    whole = Schedule((NestSchedule((2, 40_000, 1), (0, 1, 2), (1,), 1),))
    b = GraphBuilder("long")
    x = b.input("x", (2, 40_000, 1))
    graph = b.build(outputs=[b.add(K.MATMUL, x, b.constant(array(1, 1)))])
    assert {each.get("m") for each in products(program_of(graph, whole))} == {80_000}


@pytest.mark.parametrize("batch", [(50, 1), (3, 8), (2, 5, 5)])
@given(data=st.data())
@settings(max_examples=15)
def test_any_schedule_gives_the_numbers_of_the_reference(
    batch: tuple[int, ...], data: st.DataObject
) -> None:
    graph = projection(*batch)
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    program = program_of(graph, data.draw(schedules(nests)))
    feeds = {x: array(*graph.shape(x)) for x in graph.inputs}
    got = Interpreter(program, {**feeds, **graph.constants}).run()
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4)
