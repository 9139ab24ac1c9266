"""Programs with tensors of FP16 on the native engine: exact in generated and compiled code, by drawn schedules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.fp16_storage import Fp16Storage
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import CACHED_FORMATS, Format
from autotune.isa.program import Program
from autotune.operators.op import OpKind as K
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.linking.loader import bind
from tests.lowering.lowering_case import SPEC, lowered
from tests.lowering.test_bf16 import weights
from tests.lowering.test_fp16 import HALF, arrays_of, fed, products
from tests.lowering.test_narrow import by_rule
from tests.targets.native.native_case import executed
from tests.tuner.bound.bound_case import whole_group

needs_llvm = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def check(graph: Graph, program: Program, compiler: Compiler | None) -> None:
    feeds = fed(graph)
    got = executed(program, arrays_of(program, {**feeds, **graph.constants}), compiler)
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(got[name].reshape(value.shape).astype(np.float32), value)


@needs_llvm
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(data=st.data())
def test_generated_programs_are_exact(compiler: Compiler, data: st.DataObject) -> None:
    graph = data.draw(products())
    check(graph, lowered(graph, data), compiler)


@settings(deadline=None)
@given(data=st.data())
def test_compiled_programs_are_exact(data: st.DataObject) -> None:
    graph = data.draw(products())
    check(graph, lowered(graph, data), None)


@needs_llvm
@pytest.mark.parametrize(("rows", "format"), [(2, Format.FP16), (64, Format.FP32)])
def test_weights_stay_two_bytes_where_few_rows_pass_by_them(
    compiler: Compiler, rows: int, format: Format
) -> None:
    b = GraphBuilder("weights")
    w = b.constant(weights(np.random.default_rng(2), (96, 80)), "w", HALF)
    graph = b.build([b.add(K.MATMUL, b.input("x", (rows, 96)), w)])
    graph = stored_narrow(Fp16Storage(CACHED_FORMATS).run(graph).graph, CACHED_FORMATS)
    program = by_rule(whole_group(graph), SPEC)
    kernels = [c.kernel for c in bind(program, host_isa()).calls]
    shapes = [k.constants for k in kernels if isinstance(k, KernelSpec)]
    found = [s.panel_format for s in shapes if isinstance(s, GemmShape) and s.panel]
    assert found == [format] * len(found) and found
    check(graph, program, compiler)
