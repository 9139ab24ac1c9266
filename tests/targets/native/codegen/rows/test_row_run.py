"""Row runs against numpy: softmax, layer normalisation, and drawn bodies of several passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn
from autotune.targets.native.codegen.rows.row_run import (
    LONGEST_ROW,
    Reduce,
    RowNode,
    RowRun,
    sources,
)
from autotune.targets.native.codegen.rows.rows import rows
from autotune.targets.native.codegen.vector.vector_run import Binary, Fma, Load, Output, Unary
from autotune.targets.native.compiling.object_code import CodeGenerator
from autotune.targets.native.cpu.host import GENERIC
from autotune.targets.native.cpu.vector_isa import VECTOR_ISAS, VectorIsa
from tests.targets.native.codegen.generated_code import compiled, host_isas

ISAS = host_isas()
LENGTHS = (8, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 256, 259)


def softmax(count: int, length: int) -> RowRun:
    """With a scale before it, as in attention."""
    line = (length, 1)
    body: tuple[RowNode, ...] = (
        Load(0),
        Load(1),
        Binary(BinaryFn.MUL, 0, 1),
        Reduce(ReduceFn.MAX, 2),
        Binary(BinaryFn.SUB, 2, 3),
        Unary(UnaryFn.EXP, 4),
        Reduce(ReduceFn.SUM, 5),
        Unary(UnaryFn.RECIPROCAL, 6),
        Binary(BinaryFn.MUL, 5, 7),
    )
    return RowRun((count, length), 1, (line, (0, 0)), (Output(line, 8),), body)


def layer_norm(count: int, length: int) -> RowRun:
    line = (length, 1)
    body: tuple[RowNode, ...] = (
        Load(0),
        Reduce(ReduceFn.SUM, 0),
        Unary(UnaryFn.AFFINE, 1, 1 / length, 0.0),
        Binary(BinaryFn.SUB, 0, 2),
        Unary(UnaryFn.SQUARE, 3),
        Reduce(ReduceFn.SUM, 4),
        Unary(UnaryFn.AFFINE, 5, 1 / length, 1e-5),
        Unary(UnaryFn.RSQRT, 6),
        Binary(BinaryFn.MUL, 3, 7),
        Load(1),
        Load(2),
        Fma(8, 9, 10),
    )
    vector = (0, 1)
    return RowRun((count, length), 1, (line, vector, vector), (Output(line, 11),), body)


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(0, 3, shape).astype(np.float32)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("length", LENGTHS)
def test_softmax_of_rows_is_softmax_also_in_place(length: int, isa: VectorIsa) -> None:
    x, scale = drawn(np.random.default_rng(length), 5, length), np.float32([0.25])
    wide = np.exp(x.astype(np.float64) * 0.25)
    wanted = wide / wide.sum(axis=1, keepdims=True)
    run = compiled(rows(softmax(5, length), isa), isa)
    y = np.empty_like(x)
    run(x, scale, y)
    np.testing.assert_allclose(y, wanted, rtol=4e-6)
    run(x, scale, x)
    assert (x == y).all()


def test_softmax_of_masked_elements_is_zero_and_of_nan_is_nan() -> None:
    x = drawn(np.random.default_rng(0), 3, 40)
    x[0, 7:30], x[1, 3], x[2, :] = -1e9, np.nan, -np.inf
    y, isa = np.empty_like(x), ISAS[0]
    compiled(rows(softmax(3, 40), isa), isa)(x, np.float32([1]), y)
    assert (y[0, 7:30] == 0).all() and y[0].sum() == pytest.approx(1, abs=1e-6)
    assert np.isnan(y[1:]).all()


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("length", LENGTHS)
def test_layer_normalisation_of_rows_is_normal(length: int, isa: VectorIsa) -> None:
    rng = np.random.default_rng(length)
    x, scale, bias = drawn(rng, 4, length), drawn(rng, length), drawn(rng, length)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    y = np.empty_like(x)
    compiled(rows(layer_norm(4, length), isa), isa)(x, scale, bias, y)
    np.testing.assert_allclose(y, centred / spread * scale + bias, rtol=2e-5, atol=2e-5)


@st.composite
def runs(draw: DrawFn) -> RowRun:
    """Bodies of up to four passes over rows anywhere in a rectangle of three dimensions."""
    length = draw(st.integers(1, 70))
    sizes = (draw(st.integers(1, 3)), draw(st.integers(1, 4)), length)
    dense = (sizes[1] * length + 5, length, 1)
    inputs = (dense, (0, length, 1), (0, 0, 1), (sizes[1], 1, 0))
    body: list[RowNode] = [Load(i) for i in range(len(inputs))]
    for _ in range(draw(st.integers(1, 8))):
        x, y = (draw(st.integers(0, len(body) - 1)) for _ in range(2))
        made: list[RowNode] = [
            Unary(UnaryFn.TANH, x),
            Unary(UnaryFn.AFFINE, x, 0.5, -0.25),
            Binary(BinaryFn.ADD, x, y),
            Binary(BinaryFn.MAXIMUM, x, y),
            Reduce(ReduceFn.SUM, x),
            Reduce(ReduceFn.MAX, x),
            Reduce(ReduceFn.MIN, x),
        ]
        body.append(draw(st.sampled_from(made)))
    trial = RowRun(sizes, 2, inputs, (Output(dense, 0),), tuple(body))
    stored = draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3, unique=True))
    one_a_row = (sizes[1], 1, 0)
    lone = [trial.uniform[i] and draw(st.booleans()) for i in stored]
    outputs = tuple(Output(one_a_row if x else dense, i) for i, x in zip(stored, lone, strict=True))
    return RowRun(sizes, 2, inputs, outputs, tuple(body))


def values_of(run: RowRun, views: list[np.ndarray]) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    for node in run.body:
        given = [values[i] for i in sources(node)]
        match node:
            case Load(operand):
                values.append(views[operand].astype(np.float64))
            case Unary(UnaryFn.TANH):
                values.append(np.tanh(given[0]))
            case Unary(UnaryFn.AFFINE, _, p0, p1):
                values.append(given[0] * p0 + p1)
            case Binary(BinaryFn.ADD):
                values.append(given[0] + given[1])
            case Binary(BinaryFn.MAXIMUM):
                values.append(np.maximum(*given))
            case Reduce(ReduceFn.SUM):
                values.append(given[0].sum(axis=2, keepdims=True) + 0 * views[0])
            case Reduce(ReduceFn.MAX):
                values.append(given[0].max(axis=2, keepdims=True) + 0 * views[0])
            case Reduce(ReduceFn.MIN):
                values.append(given[0].min(axis=2, keepdims=True) + 0 * views[0])
            case _:
                raise AssertionError(node)
    return values


def strided(memory: np.ndarray, sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    steps = tuple(4 * stride for stride in strides)
    return np.lib.stride_tricks.as_strided(memory, sizes, steps)


@given(runs(), st.sampled_from(ISAS))
def test_a_row_run_computes_its_rows_and_touches_nothing_else(run: RowRun, isa: VectorIsa) -> None:
    rng = np.random.default_rng(0)
    sources_ = [rng.uniform(-2, 2, 1000).astype(np.float32) for _ in run.inputs]
    results = [np.full(1000, np.float32(777)) for _ in run.outputs]
    views = [strided(m, run.sizes, s) for m, s in zip(sources_, run.inputs, strict=True)]
    compiled(rows(run, isa), isa)(*sources_, *results)
    wanted = values_of(run, views)
    for output, memory in zip(run.outputs, results, strict=True):
        sizes = tuple(n if s else 1 for n, s in zip(run.sizes, output.strides, strict=True))
        written = strided(memory, sizes, output.strides)
        corner = tuple(slice(n) for n in sizes)
        np.testing.assert_allclose(written, wanted[output.node][corner], rtol=1e-5, atol=1e-4)
        written[...] = 777
        assert (memory == 777).all(), "wrote outside of the rectangle"


@pytest.mark.parametrize("isa", VECTOR_ISAS, ids=lambda isa: isa.name)
def test_a_row_run_becomes_code_of_every_machine(isa: VectorIsa) -> None:
    for run in (softmax(3, 77), layer_norm(3, 77)):
        assert CodeGenerator(GENERIC[isa]).object(rows(run, isa))


def test_rows_that_do_not_stay_in_cache_are_refused() -> None:
    with pytest.raises(AssertionError, match="too long"):
        softmax(2, LONGEST_ROW + 1)


def test_a_body_whose_values_are_all_taken_twice_is_written_in_no_time() -> None:
    body: list[RowNode] = [Load(0)]
    for i in range(64):
        body.append(Binary(BinaryFn.MUL, i, i))
    body += [Reduce(ReduceFn.SUM, 64), Binary(BinaryFn.SUB, 64, 65)]
    run = RowRun((2, 16), 1, ((16, 1),), (Output((16, 1), 66),), tuple(body))
    assert rows(run, ISAS[0]).ir.count("fmul") < 1000
