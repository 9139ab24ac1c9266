"""Programs of bf16 products on the native engine: exact in generated and compiled code, by drawn schedules.

Numbers are whole and small enough that float32 holds every sum: results do not depend on the order of sums.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import CACHED_BF16_FORMATS, Format
from autotune.isa.functions import UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.operators.op import OpKind as K
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.linking.loader import bind
from tests.lowering.lowering_case import SPEC, lowered
from tests.lowering.test_bf16 import HALF, chain, fed, products, weights
from tests.lowering.test_narrow import by_rule
from tests.targets.machine_case import load, make, store, tensor
from tests.targets.machine_case import program as one_core
from tests.targets.native.native_case import executed
from tests.tuner.bound.bound_case import whole_group

needs_llvm = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def check(graph: Graph, program: Program, compiler: Compiler | None) -> None:
    feeds = fed(graph)
    values = {**feeds, **graph.constants}
    arrays = {
        t.name: values[t.name].astype(ARRAY_TYPES[t.format]).reshape(t.shape)
        for t in program.tensors
        if t.name in values
    }
    got = executed(program, arrays, compiler)
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(got[name].reshape(value.shape).astype(np.float32), value)


@needs_llvm
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(data=st.data())
def test_generated_products_of_bf16_are_exact(compiler: Compiler, data: st.DataObject) -> None:
    graph = data.draw(products())
    check(graph, lowered(graph, data), compiler)


@settings(deadline=None)
@given(data=st.data())
def test_compiled_products_of_bf16_are_exact(data: st.DataObject) -> None:
    graph = data.draw(products())
    check(graph, lowered(graph, data), None)


@needs_llvm
@settings(deadline=None)
@given(st.data(), st.booleans())
def test_a_product_of_a_product_is_exact(
    compiler: Compiler, data: st.DataObject, is_output: bool
) -> None:
    graph = chain(is_output)
    check(graph, lowered(graph, data), compiler)


def between(columns: int = 40, *, is_turned: bool = False) -> Graph:
    """A product of rounded numbers by a constant, as `cpu` stores it; its result may be turned."""
    b, rng = GraphBuilder("between"), np.random.default_rng(3)
    x = b.add(K.BF16, b.input("x", (2, 30, 36)))
    y = b.add(K.MATMUL, x, b.constant(weights(rng, (36, columns)), "w", HALF))
    y = b.add(K.TRANSPOSE, y, perm=(0, 2, 1)) if is_turned else y
    return with_weights(b.build([y]))


def with_weights(graph: Graph) -> Graph:
    """The graph as `cpu` stores it."""
    from autotune.graph.passes.bf16_products import Bf16Products

    return stored_narrow(Bf16Products(CACHED_BF16_FORMATS).run(graph).graph, CACHED_BF16_FORMATS)


@needs_llvm
@pytest.mark.skipif(available() and host_isa().halves is None, reason="no bf16 on this CPU")
@pytest.mark.parametrize("columns", [16, 23, 40])
@pytest.mark.parametrize("is_turned", [False, True])
def test_the_constant_goes_into_lanes_whatever_the_result_looks_like(
    compiler: Compiler, columns: int, is_turned: bool
) -> None:
    graph = between(columns, is_turned=is_turned)
    assert [op.multiplied for op in graph.ops if op.kind is K.MATMUL] == [Format.BF16]
    program = by_rule(whole_group(graph), SPEC)
    kernels = [c.kernel for c in bind(program, host_isa()).calls]
    narrow = [
        k for k in kernels if isinstance(k, KernelSpec) and isinstance(k.constants, NarrowShape)
    ]
    assert narrow, "generated"
    check(graph, program, compiler)


@needs_llvm
@pytest.mark.parametrize("format", [Format.BF16, Format.INT8, Format.UINT8])
def test_a_store_that_rounds_is_generated_whatever_made_its_buffer(
    compiler: Compiler, format: Format
) -> None:
    """Sines come from the C library, by a compiled kernel that writes words."""
    sizes = {"size3": 7, "size4": 45}
    dense = {f"{x}_stride{d}": n for x in ("dst", "src") for d, n in ((3, 45), (4, 1))}
    program = one_core(
        load(0, 0, 7 * 45),
        make(Opcode.UNARY, fn=int(UnaryFn.SIN), **sizes, **dense, dst_base=320, src_base=0),
        store(1, 320, 7 * 45),
        tensors=(tensor("x", 7 * 45), tensor("y", 7 * 45, role=Role.OUTPUT, format=format)),
        elements=640,
    )
    stored = bind(program, host_isa()).calls[-1].kernel
    assert isinstance(stored, KernelSpec) and isinstance(stored.constants, VectorRun)
    x = np.random.default_rng(1).normal(0, 60, 7 * 45).astype(np.float32)
    by_code, by_kernel = (executed(program, {"x": x}, how)["y"] for how in (compiler, None))
    np.testing.assert_array_equal(by_code.view(np.uint8), by_kernel.view(np.uint8))
    assert len(np.unique(by_code)) > 1
