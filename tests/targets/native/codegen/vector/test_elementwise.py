"""Vector runs against numpy: rectangles, strides, broadcasts, tails; what lies around stays."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autotune.isa.functions import BinaryFn, UnaryFn
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.vector_run import (
    Binary,
    Constant,
    Fma,
    Load,
    Node,
    Output,
    Unary,
    VectorRun,
)
from autotune.targets.native.codegen.writing.ir import vector
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import AVX2, NEON, VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

GUARD = np.float32(777.0)
MARGIN = 32
ISAS = host_isas()


def extent(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def view(buffer: np.ndarray, sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    steps = tuple(4 * stride for stride in strides)
    return np.lib.stride_tricks.as_strided(buffer[MARGIN:], sizes, steps)


def reach(run: VectorRun, operand: int) -> int:
    """The farthest offset of an input's loads."""
    loads = (node for node in run.body if isinstance(node, Load) and node.operand == operand)
    return max((node.offset for node in loads), default=0)


def buffer_of(
    rng: np.random.Generator, sizes: tuple[int, ...], strides: tuple[int, ...], farthest: int = 0
) -> np.ndarray:
    values = rng.uniform(-2, 2, extent(sizes, strides) + farthest + 2 * MARGIN)
    return values.astype(np.float32)


def expected(run: VectorRun, inputs: list[np.ndarray]) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    for node in run.body:
        match node:
            case Load(operand, offset):
                base = inputs[operand].ctypes.data + 4 * offset
                reach = (ctypes.c_float * extent(run.sizes, run.inputs[operand])).from_address(base)
                steps = tuple(4 * stride for stride in run.inputs[operand])
                window = np.lib.stride_tricks.as_strided(
                    np.ctypeslib.as_array(reach), run.sizes, steps
                )
                values.append(window.astype(np.float64))
            case Constant(value):
                values.append(np.full(run.sizes, np.float32(value), np.float64))
            case Unary(UnaryFn.RELU, x):
                values.append(np.maximum(values[x], 0))
            case Unary(UnaryFn.TANH, x):
                values.append(np.tanh(values[x]))
            case Unary(UnaryFn.AFFINE, x, p0, p1):
                values.append(values[x] * np.float32(p0) + np.float32(p1))
            case Binary(BinaryFn.ADD, x, y):
                values.append(values[x] + values[y])
            case Binary(BinaryFn.MAXIMUM, x, y):
                values.append(np.maximum(values[x], values[y]))
            case Binary(BinaryFn.MUL, x, y):
                values.append(values[x] * values[y])
            case Fma(x, y, z):
                values.append(values[x] * values[y] + values[z])
            case _:
                raise AssertionError(node)
    return [values[output.node] for output in run.outputs]


def check(run: VectorRun, isa: VectorIsa, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    sources = [
        buffer_of(rng, run.sizes, strides, reach(run, i)) for i, strides in enumerate(run.inputs)
    ]
    results = [
        np.full(extent(run.sizes, output.strides) + 2 * MARGIN, GUARD) for output in run.outputs
    ]
    before = [source.copy() for source in sources]
    views = [view(s, run.sizes, t) for s, t in zip(sources, run.inputs, strict=True)]
    compiled(elementwise(run, isa), isa)(*(b[MARGIN:] for b in (*sources, *results)))
    for output, result, wanted in zip(run.outputs, results, expected(run, views), strict=True):
        written = view(result, run.sizes, output.strides)
        np.testing.assert_allclose(written, wanted, rtol=2e-6, atol=2e-6)
        written[...] = GUARD
        assert (result == GUARD).all(), "wrote outside of the rectangle"
    for source, old in zip(sources, before, strict=True):
        assert (source == old).all()


@st.composite
def dense_strides(draw: DrawFn, sizes: tuple[int, ...], *, broadcasts: bool) -> tuple[int, ...]:
    """Strides of a permuted, padded layout, where dimensions of an input may be broadcast."""
    order = draw(st.permutations(range(len(sizes)))) if draw(st.booleans()) else range(len(sizes))
    strides, step = [0] * len(sizes), 1 if draw(st.integers(0, 3)) else 2
    for d in reversed(order):
        if broadcasts and not draw(st.integers(0, 2)):
            continue
        strides[d] = step
        step = step * sizes[d] + draw(st.sampled_from([0, 0, 0, 3]))
    return tuple(strides)


@st.composite
def runs(draw: DrawFn) -> VectorRun:
    rank = draw(st.integers(0, 5))
    most = {0: 1, 1: 300, 2: 40, 3: 12, 4: 6, 5: 4}[rank]
    sizes = tuple(draw(st.integers(1, most)) for _ in range(rank))
    inputs = tuple(
        draw(dense_strides(sizes, broadcasts=True)) for _ in range(draw(st.integers(1, 4)))
    )
    body: list[Node] = [Load(i) for i in range(len(inputs))] + [Constant(1.25)]
    windows = draw(st.lists(st.tuples(st.integers(0, len(inputs) - 1), st.integers(1, 30))))
    body += [Load(*window) for window in windows]
    for _ in range(draw(st.integers(0, 6))):
        x, y = (draw(st.integers(0, len(body) - 1)) for _ in range(2))
        made: list[Node] = [
            Unary(UnaryFn.RELU, x),
            Unary(UnaryFn.TANH, x),
            Unary(UnaryFn.AFFINE, x, 0.5, -0.25),
            Binary(BinaryFn.ADD, x, y),
            Binary(BinaryFn.MAXIMUM, x, y),
        ]
        body.append(draw(st.sampled_from(made)))
        if draw(st.booleans()):
            body.append(Unary(UnaryFn.TANH, len(body) - 1))
            body.append(Fma(len(body) - 1, x if x < len(inputs) else 0, 0))
            body.append(Unary(UnaryFn.TANH, len(body) - 1))
    outputs = tuple(
        Output(
            draw(dense_strides(sizes, broadcasts=False)),
            draw(st.integers(0, len(body) - 1)),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 2)))
    )
    return VectorRun(sizes, inputs, outputs, tuple(body))


@given(runs(), st.sampled_from(ISAS))
def test_a_run_computes_its_rectangle_and_touches_nothing_else(
    run: VectorRun, isa: VectorIsa
) -> None:
    check(run, isa)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("length", [*range(1, 40), 63, 64, 65, 129])
def test_every_tail_is_right(length: int, isa: VectorIsa) -> None:
    body = (Load(0), Unary(UnaryFn.TANH, 0))
    check(VectorRun((length,), ((1,),), (Output((1,), 1),), body), isa)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("shift", [0, 1, 4, 8])
@pytest.mark.parametrize("line", [64, 67])
def test_streamed_results_are_right_at_any_address(shift: int, line: int, isa: VectorIsa) -> None:
    rows, columns = 3, 61
    body = (Load(0), Unary(UnaryFn.AFFINE, 0, 2.0, 1.0))
    run = VectorRun((rows, columns), ((line, 1),), (Output((line, 1), 1, True),), body)
    memory = np.zeros(rows * line + 32, np.float32)
    first = -memory.ctypes.data % 64 // 4 + shift
    result = memory[first : first + rows * line].reshape(rows, line)
    source = np.arange(rows * line, dtype=np.float32).reshape(rows, line)
    compiled(elementwise(run, isa), isa)(source, result)
    assert (result[:, :columns] == 2 * source[:, :columns] + 1).all()
    result[:, :columns] = 0
    assert not memory.any()


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_only_lines_of_whole_registers_are_streamed_past_the_caches(isa: VectorIsa) -> None:
    def streams(line: int, streamed: bool) -> bool:
        run = VectorRun((3, 61), ((64, 1),), (Output((line, 1), 0, streamed),), (Load(0),))
        return "!nontemporal" in elementwise(run, isa).ir

    assert streams(64, True) == (isa != NEON)
    assert not streams(64, False)
    assert not streams(67, True)


def depthwise(channels: int, pixels: tuple[int, int], step: int = 1) -> VectorRun:
    """3×3 taps, channels last: windows of the input, nine rows of weights, bias and clip."""
    rows, columns = pixels
    line = ((columns - 1) * step + 3) * channels
    body: list[Node] = []
    for tap in range(9):
        row, column = divmod(tap, 3)
        total = len(body) - 1
        body += [Load(0, row * line + column * channels), Load(1, tap * channels)]
        pair = (len(body) - 2, len(body) - 1)
        body.append(Fma(*pair, total) if tap else Binary(BinaryFn.MUL, *pair))
    body += [Load(2), Binary(BinaryFn.ADD, len(body) - 1, len(body))]
    body.append(Unary(UnaryFn.RELU, len(body) - 1))
    out = Output((columns * channels, channels, 1), len(body) - 1)
    image, row_of = (step * line, step * channels, 1), (0, 0, 1)
    return VectorRun((rows, columns, channels), (image, row_of, row_of), (out,), tuple(body))


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("channels", [1, 3, 8, 24, 36])
@pytest.mark.parametrize("pixels", [(5, 7), (1, 4), (3, 1), (2, 9), (7, 2)])
@pytest.mark.parametrize("step", [1, 2])
def test_a_depthwise_convolution_is_one_run(
    channels: int, pixels: tuple[int, int], step: int, isa: VectorIsa
) -> None:
    check(depthwise(channels, pixels, step), isa)


def test_pixels_of_a_tile_load_what_their_windows_share_once() -> None:
    loads = elementwise(depthwise(8, (1, 4)), AVX2).ir.count(f"load {vector(8)}")
    assert loads == 3 * 6 + 9 + 1  # three rows of six columns, the weights and the bias


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("sizes", [(37,), (5, 13), (3, 4, 9)])
def test_a_result_may_take_the_place_of_an_input(sizes: tuple[int, ...], isa: VectorIsa) -> None:
    strides = tuple(int(s) for s in np.cumprod((1, *sizes[:0:-1]))[::-1])
    body = (Load(0), Unary(UnaryFn.AFFINE, 0, 2.0, 1.0))
    run = VectorRun(sizes, (strides,), (Output(strides, 1),), body)
    memory = np.arange(np.prod(sizes), dtype=np.float32)
    wanted = 2 * memory + 1
    compiled(elementwise(run, isa), isa)(memory, memory)
    assert (memory == wanted).all()


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_no_function_is_called(isa: VectorIsa) -> None:
    body: list[Node] = [Load(0), Load(1)]
    body += [Unary(fn, 0, 0.5, 2.0) for fn in UnaryFn if fn.row.is_generated]
    body += [Binary(fn, 0, 1) for fn in BinaryFn if fn.row.is_generated]
    outputs = tuple(Output((1,), node) for node in range(2, len(body)))
    run = VectorRun((53,), ((1,), (1,)), outputs, tuple(body))
    # the generator refuses code with undefined symbols
    assert CodeGenerator(GENERIC[isa]).object(elementwise(run, isa))


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_a_run_becomes_code_of_every_machine(isa: VectorIsa) -> None:
    assert CodeGenerator(GENERIC[isa]).object(elementwise(depthwise(36, (5, 7)), isa))


def test_elements_that_would_be_stored_twice_are_refused() -> None:
    with pytest.raises(AssertionError, match="stored twice"):
        VectorRun((4,), ((1,),), (Output((0,), 0),), (Load(0),))
