"""CHAIN, ONLINE and the fused epilogue compute what their table rows say."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.isa.functions import BinaryFn, StageKind, UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from tests.kernels.emulator.drawn_case import (
    Fields,
    address,
    dense,
    extents,
    nested,
    products,
    rectangle,
    repeats,
    sized,
    span,
)
from tests.kernels.emulator.engine_case import (
    WORDS,
    assert_as_interpreted,
    assert_on_scratchpad,
    output,
    outputs_of,
    through_scratchpad,
)
from tests.targets.machine_case import loop, make, program, tensor

EXACT_UNARY = (
    UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP, UnaryFn.SQRT, UnaryFn.RECIPROCAL,
    UnaryFn.NEG, UnaryFn.ABS, UnaryFn.SQUARE,
)  # fmt: skip
"""Functions of one rounding: IEEE says their every bit."""
EXACT_BINARY = tuple(fn for fn in BinaryFn if fn is not BinaryFn.POW)


def stages(*rows: tuple[StageKind, int] | tuple[StageKind, int, float, float]) -> Fields:
    fields: Fields = {}
    for i, (kind, fn, *scalars) in enumerate(rows):
        fields |= {f"stage{i}_kind": int(kind), f"stage{i}_fn": int(fn)}
        fields |= {f"stage{i}_p{k}": value for k, value in enumerate(scalars)}
    return fields


@st.composite
def exact_stage(draw: st.DrawFn) -> tuple[StageKind, int, float, float]:
    kind = draw(st.sampled_from(StageKind))
    fn = draw(st.sampled_from(EXACT_UNARY if kind is StageKind.UNARY else EXACT_BINARY))
    if kind is StageKind.NONE:
        fn = 0
    return kind, int(fn), *draw(st.sampled_from(((-0.5, 0.75), (0.25, 2.0))))


@settings(max_examples=100)
@given(st.data(), st.lists(exact_stage(), min_size=4, max_size=4), extents(), st.integers(0, 3))
def test_chain_is_its_stages_one_after_the_other(
    data: st.DataObject,
    rows: list[tuple[StageKind, int, float, float]],
    sizes: tuple[int, ...],
    same_as: int,
) -> None:
    names = ("dst", "src", "side0", "side1")
    strides = data.draw(dense(sizes))
    part = WORDS // 4
    assume(span(sizes, strides) <= part)
    fields: Fields = rectangle("dst", strides)
    fields |= data.draw(address("dst", 0, part, span(sizes, strides)))
    for place, name in enumerate(names[1:], 1):
        if place == same_as:
            own = {key: value for key, value in fields.items() if key.startswith("dst_")}
            fields |= {key.replace("dst", name): value for key, value in own.items()}
            continue
        keep = data.draw(st.tuples(*[st.booleans()] * 5))
        strides = repeats(data.draw(dense(sizes)), keep)
        assume(span(sizes, strides) <= part)
        fields |= rectangle(name, strides)
        reach = span(sizes, strides)
        fields |= data.draw(address(name, place * part, (place + 1) * part, reach))
    fields |= sized(sizes) | stages(*rows)
    assert_on_scratchpad(
        *nested(make(Opcode.CHAIN, **fields), trips=1 if same_as else 3), positive=True
    )


def test_chain_of_no_stages_copies_and_takes_rows_longer_than_a_chunk() -> None:
    n = 1100
    common = {"dst_base": 4000, "src_base": 100, "size4": n, "dst_stride4": 1, "src_stride4": 1}
    assert_on_scratchpad(make(Opcode.CHAIN, **common))
    twice = stages(
        (StageKind.NONE, 0), (StageKind.WITH0, BinaryFn.MUL), (StageKind.FROM1, BinaryFn.SUB)
    )
    sides = {"side0_base": 1500, "side0_stride4": 1, "side1_base": 2700, "side1_stride4": 1}
    assert_on_scratchpad(make(Opcode.CHAIN, **common, **sides, **twice))


@settings(max_examples=60)
@given(
    st.sampled_from(
        (UnaryFn.EXP, UnaryFn.LOG, UnaryFn.TANH, UnaryFn.ERF, UnaryFn.SIGMOID, UnaryFn.RSQRT, UnaryFn.GELU)
    ),
    st.sampled_from((BinaryFn.MUL, BinaryFn.MAXIMUM, BinaryFn.DIV)),
    st.integers(1, 600),
)  # fmt: skip
def test_chain_with_a_transcendental_stage(fn: UnaryFn, combine: BinaryFn, n: int) -> None:
    fields = {"dst_base": 0, "src_base": 2000, "side0_base": 4000, "size4": n}
    fields |= {"dst_stride4": 1, "src_stride4": 1, "side0_stride4": 1}
    rows = stages((StageKind.UNARY, fn), (StageKind.WITH0, combine))
    assert_on_scratchpad(make(Opcode.CHAIN, **fields, **rows), rtol=1e-6, positive=True)


@settings(max_examples=100)
@given(
    st.data(),
    st.integers(1, 6),
    st.sampled_from((1, 2, 5, 31, 40, 300)),
    st.sampled_from(When),
    st.sampled_from((1.0, 0.125, 0.3)),
    st.booleans(),
)
def test_online_is_its_recurrence(
    data: st.DataObject, rows: int, columns: int, adds: When, scale: float, in_place: bool
) -> None:
    gap, step = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 2))
    fields: Fields = {"size0": rows, "size1": columns, "scale": scale, "accumulate": int(adds)}
    fields |= {"dst_stride0": columns * step + gap, "dst_stride1": step}
    fields |= {"src_base": 3700, "src_stride0": columns, "src_stride1": 1, "src_step0": 30}
    if in_place:
        fields |= {"src_base": 0, "src_stride0": columns * step + gap, "src_stride1": step}
        fields["src_step0"] = 0
    fields |= {"src_level0": 0, "state_base": 5900, "state_stride0": data.draw(st.integers(3, 5))}
    assume((rows - 1) * (columns * step + gap) + columns * step <= 3700)
    assume((rows - 1) * columns + columns + 60 <= 2200)
    fields["k_level"] = 0
    assert_on_scratchpad(*loop(3, make(Opcode.ONLINE, **fields)), rtol=1e-6)


def online_softmax(scores: np.ndarray, tile: int, values: np.ndarray) -> Program:
    """softmax(scores) · values tile by tile: weights, a product per tile, old sums times f."""
    rows, columns = scores.shape
    width = values.shape[1]
    at_s, at_v, at_state = 0, rows * tile, rows * tile + tile * width
    at_acc = at_state + 3 * rows
    acc = {
        "size3": rows,
        "size4": width,
        "dst_base": at_acc,
        "dst_stride3": width,
        "dst_stride4": 1,
    }
    body = loop(
        columns // tile,
        make(Opcode.LOAD, tensor=0, dst_base=at_s, size0=rows, size1=tile, dst_stride0=tile,
             dst_stride1=1, step1=tile, level1=0),
        make(Opcode.LOAD, tensor=1, dst_base=at_v, size0=tile, size1=width, dst_stride0=width,
             dst_stride1=1, step0=tile, level0=0),
        make(Opcode.ONLINE, dst_base=at_s, src_base=at_s, state_base=at_state, size0=rows,
             size1=tile, dst_stride0=tile, dst_stride1=1, src_stride0=tile, src_stride1=1,
             state_stride0=3, accumulate=int(When.BY_LEVEL), k_level=0, scale=0.5),
        make(Opcode.BINARY, fn=int(BinaryFn.MUL), **acc, lhs_base=at_acc, lhs_stride3=width,
             lhs_stride4=1, rhs_base=at_state + 2, rhs_stride3=3),
        make(Opcode.MATMUL, a_base=at_s, b_base=at_v, c_base=at_acc, m=rows, n0=width, k0=tile,
             a_m=tile, a_k0=1, b_k0=width, b_n0=1, c_m=width, c_n0=1, accumulate=int(When.ALWAYS)),
    )  # fmt: skip
    return program(
        make(Opcode.FILL, **acc, p0=0.0),
        *body,
        make(Opcode.BINARY, fn=int(BinaryFn.DIV), **acc, lhs_base=at_acc, lhs_stride3=width,
             lhs_stride4=1, rhs_base=at_state + 1, rhs_stride3=3),
        make(Opcode.STORE, tensor=2, src_base=at_acc, size0=rows, size1=width, src_stride0=width,
             src_stride1=1),
        tensors=(tensor("s", *scores.shape), tensor("v", *values.shape),
                 output("o", rows, width)),
        elements=at_acc + rows * width,
    )  # fmt: skip


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@settings(max_examples=30)
@given(st.integers(1, 9), st.sampled_from((1, 3, 16, 33)), st.integers(1, 6), st.integers(0, 50))
def test_online_softmax_over_several_tiles_is_attention(
    rows: int, tile: int, tiles: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.standard_normal((rows, tile * tiles)) * 5).astype(np.float32)
    values = rng.random((tile * tiles, 8)).astype(np.float32) + 0.5
    got = outputs_of(online_softmax(scores, tile, values), s=scores, v=values)
    want = softmax(scores.astype(np.float64) * 0.5) @ values.astype(np.float64)
    np.testing.assert_allclose(got["o"], want, rtol=3e-6)


def test_a_tile_that_is_masked_out_weighs_nothing() -> None:
    scores = np.array([[-np.inf] * 4 + [1.0, 2.0, -np.inf, 0.5]], np.float32)
    values = np.arange(1, 9, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    got = outputs_of(online_softmax(scores, 4, values), s=scores, v=values)
    np.testing.assert_allclose(got["o"], softmax(scores * 0.5) @ values, rtol=1e-6)


@settings(max_examples=100)
@given(
    products(WORDS),
    st.sampled_from((When.ALWAYS, When.BY_LEVEL)),
    st.sampled_from((1.0, 0.5, -2.0)),
    st.integers(0, 2),
    st.sampled_from((UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU)),
)
def test_matmul_scales_and_adds_a_residual(
    operands: Fields, ends: When, scale: float, bias_axis: int, fn: UnaryFn
) -> None:
    """Small whole numbers, of which every sum is exact in any order."""
    fields = operands | {"adds": 1, "scale": scale, "epilogue": int(ends), "bias_axis": bias_axis}
    fields |= {"fn": int(fn), "p0": 0.25, "k_level": 1}
    whole = 5 * WORDS
    x = np.random.default_rng(3).integers(-8, 9, whole).astype(np.float32)
    case = through_scratchpad(*nested(make(Opcode.MATMUL, **fields)), words=whole)
    assert_as_interpreted(case, x=x)
