"""What the native engine computes is what the reference computes, wherever operands live."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.isa.functions import BinaryFn, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.native.analysis.copy_elision import ElidedCopies, elide_copies
from autotune.targets.native.analysis.tree import leaves, tree_of
from autotune.targets.native.binding.binding import Binder
from autotune.targets.native.binding.tasks import Part
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from autotune.targets.native.linking.loader import Bound, bind
from autotune.targets.opening import load_spec
from tests.drawn_graphs import graphs
from tests.lowering.lowering_case import block_program, lowered, residual_block
from tests.targets.machine_case import fill, load, loop, make, store, tensor
from tests.targets.machine_case import program as one_core
from tests.targets.native.native_case import executed

needs_llvm = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def copying(program: Program) -> Bound:
    """Every transfer made and every operand where the program says."""
    streams = []
    for stream in program.streams:
        nodes = tree_of(stream)
        binder = Binder(program, ElidedCopies(), None)
        streams.append(Part(nodes, {leaf.place: binder.bind(leaf) for leaf in leaves(nodes)}))
    return Bound(program, tuple(streams), program.scratchpad_elements)


def inputs(program: Program, seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        t.name: rng.standard_normal(t.shape).astype(np.float32)
        for t in program.tensors
        if t.role is not Role.OUTPUT
    }


def check(data: st.DataObject, compiler: Compiler | None) -> None:
    graph = data.draw(graphs())
    program = lowered(graph, data)
    rng = np.random.default_rng(3)
    feeds = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    got = executed(program, {**feeds, **graph.constants}, compiler)
    for name, value in evaluate(graph, feeds).items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(
            got[name].reshape(value.shape), value, rtol=1e-3, atol=1e-4 * scale
        )


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_compiled_kernels_equal_the_reference(data: st.DataObject) -> None:
    check(data, None)


@needs_llvm
@settings(max_examples=settings().max_examples // 3)
@given(data=st.data())
def test_generated_kernels_equal_the_reference(compiler: Compiler, data: st.DataObject) -> None:
    check(data, compiler)


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_operands_in_their_tensors_change_no_bit(data: st.DataObject) -> None:
    program = lowered(data.draw(graphs()), data)
    bound = bind(program, None)
    kept = len(bound.calls)
    assume(kept < len(copying(program).calls))
    tensors = inputs(program)
    want = executed(program, tensors, bound=copying(program))
    for name, value in executed(program, tensors, bound=bound).items():
        np.testing.assert_array_equal(value, want[name])


X, Y = tensor("x", 8), tensor("y", 8, role=Role.OUTPUT)
NEGATED = make(
    Opcode.UNARY, fn=UnaryFn.NEG, src_base=0, src_stride4=1, dst_base=8, dst_stride4=1, size4=8
)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((load(0, 0, 8), fill(4), store(1, 0, 8)), id="overwritten in part"),
        pytest.param((load(0, 0, 8), store(1, 4, 8)), id="stored from beside"),
        pytest.param((fill(0), *loop(3, store(1, 0, 8), load(0, 0, 8))), id="read a trip later"),
        pytest.param((fill(0, size4=4), fill(8), store(1, 0, 8)), id="filled in part"),
        pytest.param(
            (fill(0, size4=4), NEGATED, fill(4, size4=4), store(1, 0, 8)), id="read half filled"
        ),
        pytest.param(
            (load(0, 0, 8), *loop(3, store(1, 0, 8), fill(0))), id="loaded once, read thrice"
        ),
    ],
)
def test_what_is_not_proven_is_copied(body: tuple[Instruction, ...]) -> None:
    program = one_core(*body, tensors=(X, Y))
    assert not elide_copies(program, tuple(leaves(tree_of(program.streams[0])))).dropped


def test_a_buffer_that_is_only_passed_on_is_not_filled() -> None:
    program = one_core(load(0, 0, 8), store(1, 0, 8), tensors=(X, Y))
    assert elide_copies(program, tuple(leaves(tree_of(program.streams[0])))).dropped == {0}


def test_a_buffer_that_an_inner_loop_fills_again_is_not_filled_before() -> None:
    """A smaller tile and then a loop over whole ones of the next row, all by the same buffer."""
    z = tensor("z", 8, role=Role.OUTPUT)
    again = loop(3, load(0, 0, 8), store(2, 0, 8))
    program = one_core(load(0, 0, 8), store(1, 0, 8), *again, tensors=(X, Y, z))
    order = tuple(leaves(tree_of(program.streams[0])))
    loads = {leaf.place for leaf in order if leaf.opcode is Opcode.LOAD}
    assert len(loads) == 2 and elide_copies(program, order).dropped == loads
    tensors = inputs(program)
    for value in executed(program, tensors).values():
        np.testing.assert_array_equal(value, tensors["x"])


def test_what_several_instructions_fill_and_another_passes_over_is_not_copied() -> None:
    """As channels of a grouped convolution, and a residual that is added to them."""
    halves = [
        make(
            Opcode.UNARY,
            fn=UnaryFn.NEG,
            src_base=64 + half,
            src_stride3=8,
            src_stride4=1,
            dst_base=half,
            dst_stride3=8,
            dst_stride4=1,
            size3=8,
            size4=4,
        )
        for half in (0, 4)
    ]
    rows = {"size3": 8, "size4": 8}
    here = {f"{x}_stride{d}": 8 if d == 3 else 1 for x in ("dst", "lhs", "rhs") for d in (3, 4)}
    added = make(Opcode.BINARY, fn=BinaryFn.ADD, rhs_base=64, **here, **rows)
    for behind in ((), (added,)):
        load_square = load(0, 64, 8, dst_stride0=8, size1=8, dst_stride1=1)
        store_square = store(1, 0, 8, src_stride0=8, size1=8, src_stride1=1)
        tensors = (tensor("x", 8, 8), tensor("y", 8, 8, role=Role.OUTPUT))
        program = one_core(load_square, *halves, *behind, store_square, tensors=tensors)
        order = tuple(leaves(tree_of(program.streams[0])))
        assert elide_copies(program, order).dropped == {order[0].place, order[-1].place}
        given = inputs(program)
        want = np.zeros_like(given["x"]) if behind else -given["x"]
        np.testing.assert_array_equal(executed(program, given)["y"], want)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_a_whole_concatenation_along_any_axis_is_written_in_place(axis: int) -> None:
    """As the keys of all heads with those of a new token: parts of an axis between others."""
    b = GraphBuilder("joined")
    shapes = [[2, 3, 5, 4] for _ in range(2)]
    shapes[1][axis] = 1
    graph = b.build(
        [
            b.add(
                OpKind.CONCAT,
                *(b.input(x, tuple(shape)) for x, shape in zip("xy", shapes, strict=True)),
                axis=axis,
            )
        ]
    )
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    (nest,) = nests_of(group)
    whole = NestSchedule(nest.root_shape, (0, 1, 2, 3), (), 1)
    program = lower(group, Schedule((whole,)), load_spec("server"))
    order = tuple(leaves(tree_of(program.streams[0])))
    transfers = {leaf.place for leaf in order if leaf.opcode in (Opcode.LOAD, Opcode.STORE)}
    assert elide_copies(program, order).dropped == transfers
    given = inputs(program)
    (got,) = executed(program, given).values()
    want = np.concatenate([given["x"], given["y"]], axis)
    np.testing.assert_array_equal(got.reshape(want.shape), want)


def test_what_a_group_loads_without_padding_and_stores_is_not_copied() -> None:
    program = block_program()
    assert {t.name for t in program.tensors} == {
        *residual_block().inputs, *residual_block().constants, *residual_block().outputs
    }  # fmt: skip
    bound = bind(program, None)
    (part,) = bound.parts
    kept = [leaf for leaf in leaves(part.nodes) if leaf.place in part.calls]
    transfers = [leaf.opcode for leaf in kept if leaf.opcode in (Opcode.LOAD, Opcode.STORE)]
    assert Opcode.STORE not in transfers
    padded = {
        program.tensors[leaf.instruction.get("tensor")].role
        for leaf in kept
        if leaf.opcode is Opcode.LOAD
    }
    assert padded == {Role.INPUT}


@needs_llvm
def test_zeros_of_both_signs_have_code_of_their_own(compiler: Compiler) -> None:
    body = (fill(0, p0=0.0), load(0, 8, 8), fill(16, p0=-0.0), store(1, 0, 8), store(2, 16, 8))
    program = one_core(*body, tensors=(X, Y, tensor("z", 8, role=Role.OUTPUT)))
    got = executed(program, inputs(program), compiler)
    assert not np.signbit(got["y"]).any() and np.signbit(got["z"]).all()


@needs_llvm
def test_one_value_of_a_row_may_be_stored_all_along_it(compiler: Compiler) -> None:
    """Reduced over rows of 32, negated, and stored in every place of its row."""
    one, wide = Opcode.REDUCE, {"size3": 4, "size4": 32}
    body = (
        load(0, 0, 128),
        make(one, src_base=0, src_stride3=32, src_stride4=1, dst_base=128, dst_stride3=1, **wide),
        make(
            Opcode.UNARY,
            fn=UnaryFn.NEG,
            src_base=128,
            src_stride3=1,
            dst_base=256,
            dst_stride3=32,
            dst_stride4=1,
            **wide,
        ),
        store(1, 256, 128),
    )
    tensors = (tensor("x", 128), tensor("y", 128, role=Role.OUTPUT))
    program = one_core(*body, tensors=tensors)
    given = inputs(program)
    got = executed(program, given, compiler)["y"].reshape(4, 32)
    rows = given["x"].reshape(4, 32).sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(got, -np.repeat(rows, 32).reshape(4, 32), rtol=1e-5, atol=1e-5)
