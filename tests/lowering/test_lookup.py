"""Embeddings: rows are looked up where they lie, in tiles, and nothing else of the table moves."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.target import EmulatorTarget
from tests.lowering.lowering_case import SPEC

ROWS, WIDTH, TOKENS = 50, 24, 10
TABLE = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


def embedding(relu: bool = False) -> Graph:
    b = GraphBuilder("embedding")
    numbers = b.input("numbers", (TOKENS,))
    found = b.add(K.GATHER, b.constant(TABLE, "table"), b.add(K.ABS, numbers))
    return b.build([b.add(K.RELU, found) if relu else found])


def program_of(graph: Graph, tile: tuple[int, int], cores: int = 1) -> Program:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    return lower(group, Schedule((NestSchedule(tile, (0, 1), (), 2, cores),)), SPEC)


@pytest.mark.parametrize(("tile", "cores"), [((10, 24), 1), ((3, 24), 1), ((4, 7), 2)])
def test_rows_are_looked_up_in_any_tiles(tile: tuple[int, int], cores: int) -> None:
    numbers = np.asarray([0, -49, 7, 7, 3, 48, 1, -2, 30, 11], np.float32)
    graph = embedding(relu=True)
    program = program_of(graph, tile, cores)
    _, got = EmulatorTarget(SPEC).run(program, {"numbers": numbers, "table": TABLE})
    want = np.maximum(TABLE[np.abs(numbers).astype(int)], 0)
    np.testing.assert_array_equal(got[graph.outputs[0]], want)


def test_only_the_rows_that_are_named_move() -> None:
    program = program_of(embedding(), (TOKENS, WIDTH))
    counters = EmulatorTarget(SPEC).time(program).counters
    assert counters["dram_read_useful_bytes"] == 4 * (TOKENS + TOKENS * WIDTH)
    assert [i.opcode for i in program.streams[0]].count(Opcode.LOOKUP) == 1


def test_a_table_made_in_the_group_is_refused() -> None:
    b = GraphBuilder("made")
    table = b.add(K.RELU, b.input("x", (ROWS, WIDTH)))
    graph = b.build([b.add(K.GATHER, table, b.input("numbers", (TOKENS,)))])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert isinstance(nests, Rejection)
    assert "from DRAM" in nests.reason
