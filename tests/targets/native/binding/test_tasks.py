"""Streams cut into parts compute what the whole stream does, in whatever order the parts run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.functions import UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.operators.strassen import transformed
from autotune.operators.winograd import transformed_weight
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.native.analysis.copy_elision import ElidedCopies, Reads, elide_copies
from autotune.targets.native.analysis.tree import leaves, tree_of
from autotune.targets.native.binding.binding import Binder
from autotune.targets.native.binding.tasks import PARTS, Part, parts_of, shared
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.linking.loader import Bound, bind
from tests.drawn_graphs import array, graphs
from tests.lowering.lowering_case import SPEC, lowered
from tests.targets.machine_case import fill, load, loop, store, tensor
from tests.targets.machine_case import program as one_core
from tests.targets.native.native_case import executed

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

X, Y = tensor("x", 8, 8), tensor("y", 8, 8, role=Role.OUTPUT)
A, B = tensor("a", 64), tensor("b", 64, role=Role.OUTPUT)
PADDED = {"coord0": -1}
"""Of a LOAD, which then is never left out."""
MOVES = {"level0": 0, "step0": 8}
"""8 elements further in every trip."""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def whole(program: Program) -> list[tuple[Part, ElidedCopies]]:
    """Every stream as it is, and where its operands live."""
    found = []
    for stream in program.streams:
        nodes = tree_of(stream)
        order = tuple(leaves(nodes))
        places = elide_copies(program, order)
        binder = Binder(program, places, host_isa(), Reads.of(places, order))
        found.append((Part(nodes, binder.calls(nodes)), places))
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
    streams = whole(program)
    uncut = Bound(program, tuple(stream for stream, _ in streams), program.scratchpad_elements)
    parts = [part for stream, places in streams for part in parts_of(program, stream, places)]
    shuffled = [parts[i] for i in np.random.default_rng(seed).permutation(len(parts))]
    tensors = inputs(program)
    want = executed(program, tensors, compiler, uncut)
    got = executed(
        program, tensors, compiler, Bound(program, shared(shuffled), program.scratchpad_elements)
    )
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


@pytest.mark.parametrize(("rows", "parts"), [(1, 2 * PARTS), (5, 8), (10, 4), (19, 2), (37, 1)])
def test_a_shared_loop_is_cut_as_far_as_it_has_trips(rows: int, parts: int) -> None:
    """Of 10 rows each core has two tiles; the second one's are no loop, as the last is smaller:
    they are pieces all the same."""
    graph = dense()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule((rows, 80), (0, 1), (24,), 1, 2),))
    bound = bind(lower(group, schedule, SPEC), host_isa())
    assert sum(1 for part in bound.parts if part.calls) == parts


def test_pieces_of_a_reduction_are_no_parts() -> None:
    """One tile is summed in the result's own memory, so its STORE is elided, and the loop over pieces
    of the reduction is all that is left."""
    graph = dense()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule((37, 80), (0, 1), (1,), 1, 2),))
    bound = bind(lower(group, schedule, SPEC), host_isa())
    assert sum(1 for part in bound.parts if part.calls) == 1


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
    ((stream, places),) = whole(program)
    assert parts_of(program, stream, places) == (stream,)


def copy(target: int, source: int, apart: int = 1, read: int = 1) -> Instruction:
    """8 elements within the scratchpad, to words that lie so far ``apart``; ``read`` likewise."""
    places = {"dst_base": target, "src_base": source, "dst_stride4": apart, "src_stride4": read}
    return Instruction.make(Opcode.UNARY, fn=UnaryFn.RELU, size4=8, **places)


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        pytest.param((load(0, 0, 9, **PADDED), *loop(8, copy(16, 0), store(1, 16, 8, **MOVES))), PARTS,
                     id="loaded before the loop"),
        pytest.param((*loop(8, load(0, 0, 9, **PADDED), copy(16, 0), store(1, 16, 8, **MOVES)),), PARTS,
                     id="loaded in each trip"),
        pytest.param((*loop(8, load(0, 0, 9, **PADDED), copy(32, 0, apart=3), copy(16, 32, read=3), store(1, 16, 8, **MOVES)),), PARTS,
                     id="written among other words"),
        pytest.param((fill(0), store(1, 0, 8), fill(0), store(1, 0, 8, coord0=8)), 2, id="one behind the other"),
        pytest.param((load(0, 0, 9, **PADDED), copy(16, 0), store(1, 16, 8), copy(16, 1), store(1, 16, 8, coord0=8)), 2,
                     id="loaded before the first"),
        pytest.param((*loop(2, fill(0), store(1, 0, 8, **MOVES)), fill(0), store(1, 0, 8, coord0=24), fill(0), store(1, 0, 8, coord0=16)), 4,
                     id="behind a loop"),
    ],
)  # fmt: skip
def test_pieces_that_leave_each_other_nothing_run_in_any_order(
    body: tuple[Instruction, ...], parts: int, compiler: Compiler
) -> None:
    program = one_core(*body, tensors=(A, B))
    ((stream, places),) = whole(program)
    assert len(parts_of(program, stream, places)) == parts
    check_orders(program, compiler, seed=1)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((load(0, 0, 8, **PADDED), *loop(8, copy(16, 0), store(1, 16, 8, **MOVES), copy(0, 1))),
                     id="overwritten by an earlier trip"),
        pytest.param((load(0, 0, 8, **PADDED), *loop(8, copy(16, 0), store(1, 16, 8, **MOVES), load(0, 0, 8, coord0=-2))),
                     id="loaded by an earlier trip"),
        pytest.param((load(0, 0, 8, **PADDED), copy(16, 0), store(1, 16, 8), copy(32, 16), store(1, 32, 8, coord0=8)),
                     id="made by the piece before"),
        pytest.param((load(0, 0, 7, **PADDED), *loop(8, copy(16, 0), store(1, 16, 8, **MOVES))),
                     id="loaded in part"),
        pytest.param((*loop(8, load(0, 0, 9, **PADDED), copy(32, 0, apart=3), copy(16, 32, read=2), store(1, 16, 8, **MOVES)),),
                     id="written elsewhere in between"),
        pytest.param((*loop(8, load(0, 0, 9, **PADDED), copy(32, 0, apart=3), copy(16, 33, read=3), store(1, 16, 8, **MOVES)),),
                     id="written beside it"),
        pytest.param((load(0, 0, 9, **PADDED), copy(16, 0), store(1, 16, 8), copy(16, 1), store(1, 16, 8, coord0=4)),
                     id="stored by two"),
        pytest.param((load(0, 0, 9, **PADDED), copy(40, 0), copy(16, 0), store(1, 16, 8), copy(16, 40), store(1, 16, 8, coord0=8)),
                     id="kept by the piece before"),
    ],
)  # fmt: skip
def test_pieces_that_leave_each_other_anything_stay_together(body: tuple[Instruction, ...]) -> None:
    program = one_core(*body, tensors=(A, B))
    ((stream, places),) = whole(program)
    assert parts_of(program, stream, places) == (stream,)


@pytest.mark.parametrize("tile", [(1, 16, 11, 10), (1, 8, 3, 10), (1, 24, 3, 10)], ids=str)
def test_a_convolution_with_padding_is_cut_into_parts(
    tile: tuple[int, ...], compiler: Compiler
) -> None:
    b = GraphBuilder("padded")
    x = b.input("x", (1, 6, 11, 10))
    y = b.add(OpKind.CONV, x, b.constant(array(40, 6, 3, 3)), b.constant(array(40)), pads=(1,) * 4)
    graph = b.build(outputs=[b.add(OpKind.RELU, y)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule(tile, (1, 2, 0, 3), (6,), 1, 2),))
    program = lower(group, schedule, SPEC)
    assert len(bind(program, host_isa()).parts) > len(program.streams)
    check_orders(program, compiler, seed=2)


def test_parts_of_a_winograd_convolution_share_the_transform_of_its_input(
    compiler: Compiler,
) -> None:
    """Each core's stream transforms the whole image for its share of the result's channels."""
    b = GraphBuilder("winograd")
    x = b.input("x", (1, 10, 9, 6))
    weight = b.constant(transformed_weight(array(3, 3, 6, 80)))
    y = b.add(OpKind.WINOGRAD_CONV, x, weight, b.constant(array(80)), pads=(1,) * 4)
    graph = b.build(outputs=[b.add(OpKind.RELU, y)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule((1, 10, 9, 8), (3, 0, 1, 2), (36,), 1, 2),))
    program = lower(group, schedule, SPEC)
    bound = bind(program, host_isa())
    assert len(bound.parts) == 10
    (before,) = bound.befores
    opcodes = [leaf.opcode for leaf in leaves(before.nodes)]
    assert opcodes == [Opcode.LOAD, Opcode.TRANSFORM]
    assert all(part.before is before for part in bound.parts)
    check_orders(program, compiler, seed=4)


@pytest.mark.parametrize(("rows", "columns", "parts"), [(34, 64, 5), (28, 64, 5), (2, 32, 16)])
def test_parts_of_a_strassen_product_run_in_any_order(
    rows: int, columns: int, parts: int, compiler: Compiler
) -> None:
    """A function behind it reads what its quarters are written as, one by one. The last tile of 34 and of 28 rows is smaller
    than others, with an odd number of rows."""
    b = GraphBuilder("strassen")
    factors = b.constant(transformed(array(12, 64), 16))
    y = b.add(OpKind.STRASSEN_MATMUL, b.input("x", (1, 139, 12)), factors, block=16)
    graph = b.build(outputs=[b.add(OpKind.GELU, b.add(OpKind.ADD, y, b.constant(array(64))))])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule((NestSchedule((1, rows, columns), (1, 2, 0), (7,), 1, 2),))
    program = lower(group, schedule, SPEC)
    assert len(bind(program, host_isa()).parts) == parts
    check_orders(program, compiler, seed=5)
