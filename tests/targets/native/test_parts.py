"""Streams cut into parts compute what the whole stream does, in whatever order the parts run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowering_case import SPEC, lowered
from machine_case import fill, load, loop, store, tensor
from machine_case import program as one_core
from native_case import executed

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.op import OpKind
from autotune.isa.program import Instruction, Program, Role
from autotune.lowering.lower import lower
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.native.binding import Binder
from autotune.targets.native.compiler import Compiler
from autotune.targets.native.host import available, host_isa
from autotune.targets.native.loader import Bound, bind
from autotune.targets.native.parts import PARTS, Stream, parts_of
from autotune.targets.native.residence import Reads, residence
from autotune.targets.native.tree import leaves, tree_of
from drawn_graphs import array, graphs

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

X, Y = tensor("x", 8, 8), tensor("y", 8, 8, role=Role.OUTPUT)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def whole(program: Program) -> list[Stream]:
    """Every stream as it is."""
    found = []
    for stream in program.streams:
        nodes = tree_of(stream)
        order = tuple(leaves(nodes))
        places = residence(program, order)
        binder = Binder(program, places, host_isa(), Reads.of(places, order))
        found.append((nodes, binder.calls(nodes)))
    return found


def dense() -> Graph:
    """relu(x·w + b), [m, k]·[k, n]."""
    b = GraphBuilder("dense")
    x = b.input("x", (37, 24))
    y = b.add(OpKind.MATMUL, x, b.constant(array(24, 80)))
    return b.build(outputs=[b.add(OpKind.RELU, b.add(OpKind.ADD, y, b.constant(array(80))))])


def inputs(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        t.name: rng.standard_normal(t.shape).astype(np.float32)
        for t in program.tensors
        if t.role is not Role.OUTPUT
    }


def check_orders(program: Program, compiler: Compiler, seed: int) -> None:
    """The whole streams, and the parts of them all in a drawn order, bit by bit."""
    uncut = Bound(program, tuple(whole(program)))
    parts = [part for stream in uncut.streams for part in parts_of(program, stream)]
    shuffled = [parts[i] for i in np.random.default_rng(seed).permutation(len(parts))]
    tensors = inputs(program)
    want = executed(program, tensors, compiler, uncut)
    got = executed(program, tensors, compiler, Bound(program, tuple(shuffled)))
    for name, value in got.items():
        np.testing.assert_array_equal(value.view(np.int32), want[name].view(np.int32))


@given(
    tile=st.tuples(st.integers(1, 37), st.integers(1, 5).map(lambda n: 16 * n)),
    order=st.permutations((0, 1)),
    k_tile=st.sampled_from((24, 12, 10)),
    seed=st.integers(0, 99),
)
def test_parts_of_a_product_run_in_any_order(
    compiler: Compiler, tile: tuple[int, int], order: list[int], k_tile: int, seed: int
) -> None:
    graph = dense()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    part = NestSchedule(tile, tuple(order), (k_tile,), 1, 2)
    check_orders(lower(group, Schedule((part,)), SPEC), compiler, seed)


@given(data=st.data(), seed=st.integers(0, 99))
def test_parts_of_drawn_groups_run_in_any_order(
    compiler: Compiler, data: st.DataObject, seed: int
) -> None:
    check_orders(lowered(data.draw(graphs()), data), compiler, seed)


@pytest.mark.parametrize(
    ("rows", "parts"), [(1, 2 * PARTS), (5, 2 * PARTS), (10, 3), (19, 2), (37, 1)]
)
def test_a_shared_loop_is_cut_as_far_as_it_has_trips(rows: int, parts: int) -> None:
    """Of 10 rows each core has two tiles; the second one's are no loop, as the last is smaller."""
    graph = dense()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule((rows, 80), (0, 1), (24,), 1, 2),))
    bound = bind(lower(group, schedule, SPEC), host_isa())
    assert sum(1 for _, calls in bound.streams if calls) == parts


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((*loop(4, fill(0), store(1, 0, 8)),), id="the same elements"),
        pytest.param((*loop(4, load(0, 0, 8)), store(1, 0, 8)), id="read behind the loop"),
        pytest.param((fill(0), *loop(4, store(1, 0, 8))), id="made before the loop"),
        pytest.param((*loop(1, fill(0), store(1, 0, 8)),), id="one trip"),
        pytest.param((fill(0), store(1, 0, 8)), id="no loop"),
    ],
)
def test_what_is_not_proven_independent_stays_whole(body: tuple[Instruction, ...]) -> None:
    program = one_core(*body, tensors=(X, Y))
    (stream,) = whole(program)
    assert parts_of(program, stream) == (stream,)
