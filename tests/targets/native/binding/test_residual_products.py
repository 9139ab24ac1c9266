"""Products that end with the addition behind them: the same bits, and only where nobody else needs what lay between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.functions import UnaryFn
from autotune.isa.program import Program, Role
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import Schedule
from autotune.targets.native.binding import binding
from autotune.targets.native.codegen.gemm.blocks import BlockWriter
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.detection.detect import HostFigures, host_spec
from autotune.targets.native.linking.loader import bind
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.targets.native.native_case import executed

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
SPEC = host_spec(1, HostFigures(2e9, 2, 8, 1 << 23, 5.0))
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38)
"""Residuals with which another order of additions, or of comparisons, would show."""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def convolution(
    b: GraphBuilder, inputs: int, outputs: int, size: int, kernel: int = 1, bias: bool = True
) -> str:
    """Channels-last, of ``size`` pixels by as many and one."""
    x = b.input("x", (1, size, size + 1, inputs))
    operands = [x, b.constant(numbers(kernel, kernel, inputs, outputs))]
    pads = (kernel // 2,) * 4
    operands += [b.constant(numbers(outputs))] * bias
    return b.add(OpKind.CONV, *operands, pads=pads, channels_last=1)


def dense(b: GraphBuilder, rows: int, depth: int, columns: int) -> str:
    x = b.input("x", (rows, depth))
    return b.add(OpKind.MATMUL, x, b.constant(numbers(depth, columns)))


def program_of(graph: Graph) -> Program:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = heuristic_schedule(group, SPEC)
    assert schedule is not None
    return lower(group, schedule, SPEC)


def kernels(program: Program) -> list[object]:
    calls = bind(program, host_isa()).calls
    return [call.kernel.constants for call in calls if isinstance(call.kernel, KernelSpec)]


def joined(program: Program) -> list[GemmShape]:
    """The products that end with an addition; then no pass is left."""
    found = [x for x in kernels(program) if isinstance(x, GemmShape) and x.adds_last]
    assert not found or not any(isinstance(x, VectorRun) for x in kernels(program))
    return found


def check(program: Program, compiler: Compiler, special: bool = False) -> None:
    """Joined calls give the bits of two calls, and what the compiled kernels compute."""
    rng = np.random.default_rng(7)
    fed = {
        t.name: rng.standard_normal(t.shape).astype(np.float32)
        for t in program.tensors
        if t.role is not Role.OUTPUT
    }
    if special:
        fed["r"].reshape(-1)[: 3 * len(SPECIAL)] = SPECIAL * 3
    generated = executed(program, fed, compiler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "with_residual", lambda *_: None)
        apart = executed(program, fed, compiler)
    plain = executed(program, fed)
    for name, value in apart.items():
        np.testing.assert_array_equal(generated[name], value)
        number = ~np.isnan(value)
        assert generated[name][number].tobytes() == value[number].tobytes(), "the sign of zero too"
        np.testing.assert_allclose(value, plain[name], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("fn", [None, OpKind.RELU])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_convolution_ends_with_its_residual(
    compiler: Compiler, kernel: int, bias: bool, fn: OpKind | None, is_first: bool
) -> None:
    b = GraphBuilder("block")
    y = convolution(b, 24, 40, 9, kernel, bias)
    r = b.input("r", (1, 9, 10, 40))
    z = b.add(OpKind.ADD, *((r, y) if is_first else (y, r)))
    program = program_of(b.build([z if fn is None else b.add(fn, z)]))
    found = joined(program)
    assert found and {x.fn for x in found} == {UnaryFn.COPY if fn is None else UnaryFn.RELU}
    check(program, compiler, special=True)


def test_the_residual_may_be_what_the_product_reads(compiler: Compiler) -> None:
    b = GraphBuilder("block")
    y = convolution(b, 32, 32, 8)
    program = program_of(b.build([b.add(OpKind.RELU, b.add(OpKind.ADD, y, "x"))]))
    assert joined(program)
    check(program, compiler)


def test_a_product_in_blocks_ends_with_its_residual(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partial sums lie in the result until the last block."""
    blocks: list[GemmShape] = []
    write = BlockWriter.write

    def noted(self: BlockWriter) -> None:
        blocks.append(self.shape)
        write(self)

    monkeypatch.setattr(BlockWriter, "write", noted)
    b = GraphBuilder("wide")
    y = dense(b, 100, 1100, 320)
    program = program_of(b.build([b.add(OpKind.ADD, y, b.input("r", (100, 320)))]))
    assert joined(program)
    check(program, compiler)
    assert [shape.adds_last for shape in blocks] == [True, False], "joined, then apart"


def test_a_result_that_is_wanted_too_stays_apart(compiler: Compiler) -> None:
    b = GraphBuilder("both")
    y = dense(b, 12, 20, 64)
    z = b.add(OpKind.ADD, y, b.input("r", (12, 64)))
    program = program_of(b.build([y, z]))
    assert not [x for x in kernels(program) if isinstance(x, GemmShape) and x.adds_last]
    check(program, compiler)


def test_lanes_of_packed_weights_stay_along_their_axis(compiler: Compiler) -> None:
    """The sum leaves the group the other way round, so that its elements in lanes would lie apart."""
    b = GraphBuilder("turned")
    y = convolution(b, 24, 8, 40)
    r = b.add(OpKind.TRANSPOSE, b.input("r", (1, 8, 40, 41)), perm=(0, 2, 3, 1))
    z = b.add(OpKind.RELU, b.add(OpKind.ADD, y, r))
    graph = b.build([b.add(OpKind.TRANSPOSE, z, perm=(0, 3, 1, 2))])
    pieces_of_rows = Schedule.from_json("[[[1,8,11,32],[2,3,0,1],[24],1,1]]")
    program = lower(Group.from_graph(graph, [op.name for op in graph.ops]), pieces_of_rows, SPEC)
    assert not [x for x in kernels(program) if isinstance(x, GemmShape) and x.adds_last]
    check(program, compiler)


@pytest.mark.parametrize("other", [OpKind.SUB, OpKind.MUL])
def test_other_passes_stay_apart(compiler: Compiler, other: OpKind) -> None:
    b = GraphBuilder("other")
    y = dense(b, 12, 20, 64)
    program = program_of(b.build([b.add(other, y, b.input("r", (12, 64)))]))
    assert any(isinstance(x, VectorRun) for x in kernels(program))
    check(program, compiler)


def test_twice_the_product_is_no_residual(compiler: Compiler) -> None:
    b = GraphBuilder("twice")
    y = dense(b, 12, 20, 64)
    program = program_of(b.build([b.add(OpKind.ADD, y, y)]))
    assert not [x for x in kernels(program) if isinstance(x, GemmShape) and x.adds_last]
    check(program, compiler)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_dense_block_has_the_same_bits(compiler: Compiler, data: st.DataObject) -> None:
    b = GraphBuilder("drawn")
    rows, depth, columns = (data.draw(st.integers(1, 70)) for _ in range(3))
    y = dense(b, rows, depth, columns)
    if data.draw(st.booleans()):
        y = b.add(OpKind.ADD, y, b.constant(numbers(columns)))
    r = data.draw(st.sampled_from([(rows, columns), (rows, 1), (columns,), (1, 1)]))
    z = b.add(OpKind.ADD, y, b.input("r", r))
    fn = data.draw(st.sampled_from([None, OpKind.RELU, OpKind.SIGMOID, OpKind.GELU]))
    check(program_of(b.build([z if fn is None else b.add(fn, z)])), compiler)
