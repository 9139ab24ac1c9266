"""Programs leave zero blocks of weights out, whatever the schedule, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.targets.emulator.races import find_races
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from tests.lowering.lowering_case import SPEC, lowered
from tests.lowering.sparse_case import (
    bare,
    blocky,
    conv,
    dense,
    diagonal,
    marked,
    pooled,
    pooled_conv,
    slid,
)
from tests.lowering.test_lower import run

WEIGHTS = st.builds(
    blocky,
    st.sampled_from([32, 64, 72]),
    st.sampled_from([32, 48, 80]),
    st.just(16),
    st.sampled_from([0.3, 0.6, 0.95, 1.0]),
    st.integers(0, 9),
)
GRAPHS = st.one_of(
    st.builds(dense, WEIGHTS, st.sampled_from([1, 24]), st.booleans()),
    st.builds(bare, WEIGHTS, st.sampled_from([1, 24])),
    st.builds(conv, WEIGHTS, st.sampled_from([1, 3]), st.booleans()),
)


@given(st.data(), GRAPHS)
def test_any_schedule_equals_the_dense_reference(data: st.DataObject, graph: Graph) -> None:
    program = lowered(marked(graph), data)
    run(graph, program)
    assert find_races(program) == ()


def listed(graph: Graph, limit: int) -> Iterator[Program]:
    """By schedules of the whole group that the search would list."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    rng = np.random.default_rng(0)
    table = enumerate_nest(nests_of(group)[0], SPEC.capacity, SPEC.cores, limit, rng)
    return (lower(group, Schedule((table.row(i),)), SPEC) for i in range(len(table)))


@pytest.mark.parametrize(
    "graph",
    [pooled(diagonal(4, 16, 16)), slid(diagonal(4, 16, 32)), pooled_conv(diagonal(2, 32))],
    ids=lambda graph: graph.name,
)
def test_windows_over_a_product_equal_the_dense_reference(graph: Graph) -> None:
    """Along N they overlap, begin before its first column and end behind its last one."""
    sparse = marked(graph)
    assert sparse.ops[0] != graph.ops[0]
    for made in listed(sparse, 12):
        run(graph, made)
        assert find_races(made) == ()


def test_pieces_of_a_loaded_operand_do_not_overtake_its_products() -> None:
    """Pieces written out take the two slots in turn, whatever loop is around them."""
    graph = marked(bare(diagonal(4, 16) + diagonal(4, 16, 16), 8))
    programs = list(listed(graph, 60))
    assert [find_races(made) for made in programs] == [()] * len(programs)


def test_a_masked_product_that_leaves_blocks_out_is_estimated() -> None:
    """Its mask is of all of the tile: it costs what it costs behind the dense product."""
    graph = pooled_conv(diagonal(2, 32))
    sparse, plain = (masks(one) for one in (marked(graph), graph))
    assert plain and sparse == plain


def masks(graph: Graph) -> list[list[float]]:
    """Elements that masks touch, by schedule, of every stage that has one."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nest = nests_of(group)[0]
    rng = np.random.default_rng(0)
    table = enumerate_nest(nest, SPEC.capacity, 2, 20, rng)
    return [
        step.touched.tolist()
        for step in ScratchpadAnalysis(nest, table, SPEC).steps
        if step.unit is Unit.VECTOR and step.stage.mask is not None
    ]


def program(graph: Graph, n: int, k: int, rows: int = 64, buffers: int = 2) -> Program:
    """By tiles of ``rows`` by ``n`` with a reduction in pieces of ``k``, the columns outside."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule((rows, n), (1, 0), (k,), buffers),))
    return lower(group, schedule, SPEC)


def counted(graph: Graph, **sizes: int) -> Counter[Opcode]:
    return Counter(i.opcode for i in program(graph, **sizes).streams[0])


def chessboard(extent: int = 256, block: int = 64) -> np.ndarray:
    """Every other block is zero."""
    i, j = np.indices((extent, extent)) // block
    return np.where((i + j) % 2 == 0, 1.0, 0.0).astype(np.float32)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("k", [64, 256])
def test_half_a_chessboard_is_loaded_and_multiplied(turned: bool, k: int) -> None:
    """4 columns of 2 blocks each are 8 products; x is loaded by pieces, or once."""
    count = counted(marked(dense(chessboard(), 64, turned)), n=64, k=k)
    assert count[Opcode.MATMUL] == 8
    assert count[Opcode.LOAD] == 8 + 1  # ReLU makes the product's rows of x, loaded once


def test_runs_of_blocks_of_a_whole_reduction_are_one_product() -> None:
    weight = np.zeros((256, 128), np.float32)
    weight[64:192, :64] = 1.0
    weight[128:, 64:] = 1.0
    assert counted(marked(dense(weight, 64)), n=64, k=256)[Opcode.MATMUL] == 2


def test_a_weight_of_zeros_alone_leaves_the_activation_its_zeros() -> None:
    weight = np.zeros((64, 64), np.float32)
    graph = marked(dense(weight, 8))
    made = program(graph, n=16, k=64, rows=8)
    run(graph, made)
    assert sum(i.opcode is Opcode.MATMUL for i in made.streams[0]) == 1  # the same for all columns


def test_columns_that_need_the_same_stay_a_hardware_loop() -> None:
    weight = np.ones((128, 512), np.float32)
    weight[:64] = 0.0
    count = counted(marked(dense(weight, 64)), n=64, k=128)
    assert count[Opcode.LOOP] == 1 and count[Opcode.MATMUL] == 1


def test_hundreds_of_pieces_need_no_more_semaphores_than_there_are() -> None:
    graph = marked(dense(blocky(1024, 1024, 16, 0.5), 64))
    for k, rows, buffers in ((16, 64, 2), (16, 16, 2), (1024, 16, 1)):
        made = program(graph, n=32, k=k, rows=rows, buffers=buffers)
        assert sum(i.opcode is Opcode.MATMUL for i in made.streams[0]) > 300
        assert find_races(made) == ()
        run(graph, made)


@pytest.mark.parametrize(("name", "gain"), [("edge", 1.9), ("mobile", 1.7)])
def test_three_zero_quarters_pay_on_the_emulator(name: str, gain: float) -> None:
    """Cycles are exact, not timings: of the schedules that the estimate likes best."""
    machine = target(name)
    graph = dense(blocky(768, 768, 64, 0.75), 128)
    assert gain * least_cycles(marked(graph), machine) < least_cycles(graph, machine)


def least_cycles(graph: Graph, machine: Target) -> int:
    """Of the product alone by four schedules."""
    group = Group.from_graph(graph, [op.name for op in graph.ops if op.kind is K.MATMUL])
    nests, spec = nests_of(group), machine.spec
    rng = np.random.default_rng(0)
    table = enumerate_nest(nests[0], spec.capacity, 1, 4096, rng)
    best = np.argsort(ScratchpadAnalysis(nests[0], table, spec).estimate)[:4]
    schedules = (Schedule((table.row(int(i)),)) for i in best)
    return min(machine.time(lower(group, one, spec)).cycles for one in schedules)
