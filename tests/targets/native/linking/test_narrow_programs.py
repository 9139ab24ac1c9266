"""Narrow programs on the native engine: exact in generated and compiled code, and read where they lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS, Format
from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.binding.binding import WIDENED_ROWS
from autotune.targets.native.binding.packing import Packed
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512, AVX512_VNNI
from autotune.targets.native.detection.detect import HostFigures, host_spec
from autotune.targets.native.linking.loader import bind
from tests.lowering.lowering_case import SPEC, lowered
from tests.lowering.test_narrow import by_rule, fed, products
from tests.targets.machine_case import load, make, store, tensor
from tests.targets.machine_case import program as one_core
from tests.targets.native.native_case import executed

needs_llvm = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
U8, S8 = Format.UINT8, Format.INT8


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
@settings(deadline=None)
@given(data=st.data())
def test_generated_products_of_bytes_are_exact(compiler: Compiler, data: st.DataObject) -> None:
    graph = data.draw(products())
    check(graph, lowered(graph, data), compiler)


@settings(deadline=None)
@given(data=st.data())
def test_compiled_products_of_bytes_are_exact(data: st.DataObject) -> None:
    graph = data.draw(products())
    check(graph, lowered(graph, data), None)


def requantised(rows: int, depth: int, columns: int, again: bool = False) -> Program:
    """y = round(sums · scale) of bytes: a is read, and y written, where they lie. With ``again`` z = twice
    the sums, which a compiled kernel reads."""
    a, b = 0, -(-rows * depth // 4) * 4
    c = -(-(b + depth * columns) // 4)
    square = {"size3": rows, "size4": columns}
    dense = {"dst_base": c, "dst_stride3": columns, "dst_stride4": 1}
    read = {"src_base": c, "src_stride3": columns, "src_stride4": 1}
    d = c + rows * columns if again else c
    end = d + rows * columns
    made = {"dst_base": d, "dst_stride3": columns, "dst_stride4": 1}
    more = (
        make(Opcode.CONVERT, src_format=int(Format.INT32), dst_format=int(Format.FP32),
             scale=2.0, **square, **dense | {"dst_base": end + 4}, **read),
        store(4, end + 4, rows * columns),
    )  # fmt: skip
    return one_core(
        load(0, a, rows * depth, format=int(U8)),
        load(1, b // 4, depth * columns, format=int(S8)),
        make(Opcode.MATMUL, m=rows, n0=columns, k0=depth, a_m=depth, a_k0=1, b_base=b,
             b_k0=columns, b_n0=1, c_base=c, c_m=columns, c_n0=1, a_format=int(U8),
             b_format=int(S8), a_zero=11, accumulate=int(When.NEVER)),
        make(Opcode.CONVERT, src_format=int(Format.INT32), dst_format=int(Format.FP32),
             **square, **made, **read),
        load(2, end, 1),
        make(Opcode.BINARY, fn=int(BinaryFn.MUL), **square, **made,
             lhs_base=d, lhs_stride3=columns, lhs_stride4=1, rhs_base=end),
        store(3, d, rows * columns),
        *more * again,
        tensors=(
            tensor("a", rows * depth, format=U8),
            tensor("b", depth * columns, role=Role.CONSTANT, format=S8),
            tensor("scale", 1, role=Role.CONSTANT),
            tensor("y", rows * columns, role=Role.OUTPUT, format=S8),
            *(tensor("z", rows * columns, role=Role.OUTPUT),) * again,
        ),
        elements=c + 4 * rows * columns,
    )  # fmt: skip


def weights_only(rows: int, depth: int, columns: int, format: Format) -> Program:
    """y = a · b of fp32 numbers by constant bytes."""
    a, b, c = 0, rows * depth, rows * depth + depth * columns
    return one_core(
        load(0, a, rows * depth),
        load(1, b, depth * columns),
        make(Opcode.MATMUL, m=rows, n0=columns, k0=depth, a_m=depth, a_k0=1, b_base=b,
             b_k0=columns, b_n0=1, c_base=c, c_m=columns, c_n0=1, accumulate=int(When.NEVER)),
        store(2, c, rows * columns),
        tensors=(
            tensor("a", rows * depth),
            tensor("b", depth * columns, role=Role.CONSTANT, format=format),
            tensor("y", rows * columns, role=Role.OUTPUT),
        ),
        elements=c + rows * columns,
    )  # fmt: skip


@needs_llvm
@pytest.mark.parametrize("format", [U8, S8, Format.BF16])
@pytest.mark.parametrize(("rows", "kept"), [(1, True), (WIDENED_ROWS, True), (40, False)])
def test_weights_of_few_rows_are_narrow_in_memory_too(
    compiler: Compiler, format: Format, rows: int, kept: bool
) -> None:
    program = weights_only(rows, 70, 96, format)
    (call,) = bind(program, host_isa()).calls
    assert isinstance(call.packed, Packed)
    assert call.packed.format is (format if kept else Format.FP32)
    assert 4 * call.packed.elements >= 70 * 96 * call.packed.format.bytes
    rng, dtype = np.random.default_rng(3), ARRAY_TYPES[format]
    limits = (-128, 255) if format is Format.BF16 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    arrays: dict[str, np.ndarray] = {
        "a": rng.standard_normal(rows * 70, np.float32),
        "b": rng.integers(*limits, 70 * 96, endpoint=True).astype(dtype),
    }
    wide = {**arrays, "b": arrays["b"].astype(np.float32)}
    (got,) = executed(program, arrays, compiler).values()
    (same,) = executed(weights_only(rows, 70, 96, Format.FP32), wide, compiler).values()
    np.testing.assert_array_equal(got, same)
    a, b = arrays["a"].reshape(rows, 70).astype(float), wide["b"].reshape(70, 96).astype(float)
    np.testing.assert_allclose(got.reshape(rows, 96), a @ b, rtol=0, atol=1e-4 * abs(a @ b).max())


@needs_llvm
@pytest.mark.parametrize("again", [False, True])
def test_a_product_of_bytes_is_one_call_with_what_alone_reads_its_sums(
    compiler: Compiler, again: bool
) -> None:
    program = requantised(9, 35, 40, again)
    calls = bind(program, host_isa()).calls
    kernels = [call.kernel.constants for call in calls if isinstance(call.kernel, KernelSpec)]
    assert [type(kernel) for kernel in kernels] == (
        [NarrowShape, VectorRun] if again else [TileRun]
    )
    assert again or len(calls) == 1, "no operand is copied"
    rng = np.random.default_rng(1)
    arrays: dict[str, np.ndarray] = {
        "a": rng.integers(0, 256, 9 * 35).astype(np.uint8),
        "b": rng.integers(-128, 128, 35 * 40).astype(np.int8),
        "scale": np.array([3e-3], np.float32),
    }
    sums = (arrays["a"].reshape(9, 35).astype(np.int64) - 11) @ arrays["b"].reshape(35, 40)
    whole = np.rint(sums.astype(np.float32) * arrays["scale"])
    for how in (compiler, None):
        got = executed(program, arrays, how)
        np.testing.assert_array_equal(got["y"], np.clip(whole, -128, 127).astype(np.int8).ravel())
        if again:
            np.testing.assert_array_equal(got["z"], 2.0 * sums.astype(np.float32).ravel())


def padded_taps(format: Format, pad: float, beside: Opcode | None) -> Program:
    """y[i, j] = x[i, j] + x[i + 2, j + 1] of 7 × 20 numbers with a border; z holds sums of the rows beside them
    (REDUCE), or the sines of the first column (UNARY)."""
    rows, columns = 7, 20
    wide, end = columns + 2, (rows + 2) * (columns + 2)
    square = {"size3": rows, "size4": columns}
    sums = (
        make(Opcode.REDUCE, fn=int(ReduceFn.SUM), size3=rows + 2, size4=wide,
             dst_base=end + rows * columns, dst_stride3=1, src_stride3=wide, src_stride4=1),
        store(2, end + rows * columns, rows + 2),
    )  # fmt: skip
    sines = (
        make(Opcode.UNARY, fn=int(UnaryFn.SIN), size4=rows + 2,
             dst_base=end + rows * columns, dst_stride4=1, src_stride4=wide),
        sums[1],
    )  # fmt: skip
    others = {None: (), Opcode.REDUCE: sums, Opcode.UNARY: sines}[beside]
    return one_core(
        make(Opcode.LOAD, tensor=0, coord0=-1, coord1=-1, size0=rows + 2, size1=wide,
             dst_stride0=wide, dst_stride1=1, pad=pad),
        make(Opcode.BINARY, fn=int(BinaryFn.ADD), **square, dst_base=end, dst_stride3=columns,
             dst_stride4=1, lhs_base=wide + 1, lhs_stride3=wide, lhs_stride4=1,
             rhs_base=2 * wide + 2, rhs_stride3=wide, rhs_stride4=1),
        store(1, end, rows * columns),
        *others,
        tensors=(
            tensor("x", rows, columns, format=format),
            tensor("y", rows * columns, role=Role.OUTPUT),
            *(tensor("z", rows + 2, role=Role.OUTPUT),) * bool(others),
        ),
        elements=end + rows * columns + rows + 2,
    )  # fmt: skip


@needs_llvm
@pytest.mark.parametrize("format", [U8, S8, Format.BF16])
@pytest.mark.parametrize(
    ("pad", "beside", "narrow"),
    [
        *((0.0, None, True), (3.0, None, True), (0.5, None, False)),
        *((0.0, Opcode.REDUCE, False), (0.0, Opcode.UNARY, False)),
    ],
)
def test_a_padded_buffer_stays_narrow_where_all_that_read_it_widen(
    compiler: Compiler, format: Format, pad: float, beside: Opcode | None, narrow: bool
) -> None:
    program = padded_taps(format, pad, beside)
    (copy,) = (call for call in bind(program, host_isa()).calls if call.kernel is Opcode.LOAD)
    assert copy.operands[1].format is (format if narrow else Format.FP32)
    drawn = np.random.default_rng(4).integers(-128, 128, (7, 20)) + 128 * (format is U8)
    x = np.pad(drawn.astype(np.float32), 1, constant_values=np.float32(pad))
    for how in (compiler, None):
        got = executed(program, {"x": drawn.astype(ARRAY_TYPES[format])}, how)
        np.testing.assert_array_equal(got["y"].reshape(7, 20), x[1:-1, 1:-1] + x[2:, 2:])
        if beside is Opcode.REDUCE:
            np.testing.assert_array_equal(got["z"], x.sum(1))
        elif beside is Opcode.UNARY:
            np.testing.assert_allclose(got["z"], np.sin(x[:, 0]), atol=1e-6)


def of_activations(a: Format, b: Format, rows: int, depth: int, columns: int) -> Program:
    """y = (a − 11) · (b − 3)ᵀ of bytes that are no constants: queries by keys."""
    second = -(-rows * depth // 4) * 4
    c = -(-(second + depth * columns) // 4)
    return one_core(
        load(0, 0, rows * depth, format=int(a)),
        load(1, second // 4, depth * columns, format=int(b)),
        make(Opcode.MATMUL, m=rows, n0=columns, k0=depth, a_m=depth, a_k0=1, b_base=second,
             b_k0=1, b_n0=depth, c_base=c, c_m=columns, c_n0=1, a_format=int(a),
             b_format=int(b), a_zero=11, b_zero=3, accumulate=int(When.NEVER)),
        store(2, c, rows * columns, format=int(Format.INT32)),
        tensors=(
            tensor("a", rows * depth, format=a),
            tensor("b", depth * columns, format=b),
            tensor("y", rows * columns, role=Role.OUTPUT, format=Format.INT32),
        ),
        elements=c + rows * columns,
    )  # fmt: skip


@needs_llvm
@pytest.mark.parametrize(("a", "b"), [(U8, U8), (S8, U8), (U8, S8), (S8, S8)])
@pytest.mark.parametrize(("rows", "depth"), [(9, 35), (24, 64), (1, 35)])
def test_products_of_two_activations_copy_a_factor_where_fours_are_multiplied(
    compiler: Compiler, a: Format, b: Format, rows: int, depth: int
) -> None:
    program = of_activations(a, b, rows, depth, 40)
    kernels = {
        isa: [c.kernel for c in bind(program, isa).calls if isinstance(c.kernel, KernelSpec)]
        for isa in (AVX512_VNNI, AVX512, AVX2)
    }
    (copied,) = [kernel.constants for kernel in kernels.pop(AVX512_VNNI)]
    assert isinstance(copied, NarrowShape) and copied.copies
    assert not any(kernels.values()), "compiled without dot products of fours"
    rng = np.random.default_rng(5)
    arrays = {
        name: rng.integers(-128, 128, count).astype(np.int8).view(ARRAY_TYPES[format])
        for name, format, count in (("a", a, rows * depth), ("b", b, 40 * depth))
    }
    left, right = (arrays[x].astype(np.int64).reshape(-1, depth) for x in ("a", "b"))
    for how in (compiler, None):
        got = executed(program, arrays, how)["y"].reshape(rows, 40)
        np.testing.assert_array_equal(got, (left - 11) @ (right - 3).T)


@needs_llvm
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_maxima_of_bytes_are_not_widened_in_memory(
    compiler: Compiler, dtype: DType, kernel: int, stride: int, pad: int
) -> None:
    b = GraphBuilder("pool")
    window = {"kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
    y = b.add(OpKind.MAX_POOL, b.input("x", (1, 9, 8, 40), dtype), channels_last=1, **window)
    b.mean(y, dtype)
    graph = stored_narrow(b.build([y]), ALL_FORMATS)
    spec = host_spec(1, HostFigures(2e9, 2, 8, 1 << 20, 5.0))
    program = by_rule(Group.from_graph(graph, [op.name for op in graph.ops]), spec)
    calls = bind(program, host_isa()).calls
    (pooled,) = (c for c in calls if isinstance(c.kernel, KernelSpec))
    result, source = (operand.format in (U8, S8) for operand in pooled.operands)
    assert result and source == (not pad), "what has a border is copied into two buffers in turns"
    assert {c.kernel for c in calls} <= {pooled.kernel, Opcode.LOAD}
    check(graph, program, compiler)


@needs_llvm
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_bytes_that_are_only_moved_are_not_widened(compiler: Compiler, dtype: DType) -> None:
    """As the phases of a transposed convolution are interleaved: one copy from tensor to tensor."""
    b = GraphBuilder("moved")
    y = b.add(OpKind.TRANSPOSE, b.input("x", (6, 5, 2, 40), dtype), perm=(0, 2, 1, 3))
    b.mean(y, dtype)
    graph = stored_narrow(b.build([y]), ALL_FORMATS)
    program = by_rule(Group.from_graph(graph, [op.name for op in graph.ops]), SPEC)
    kernels = [call.kernel for call in bind(program, host_isa()).calls]
    assert kernels and all(isinstance(kernel, KernelSpec) for kernel in kernels)
    check(graph, program, compiler)
