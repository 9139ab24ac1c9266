"""Every instruction computes what the plain numpy interpreter computes."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from tests.kernels.emulator.drawn_case import (
    Fields,
    address,
    coordinates,
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
    HALF,
    WORDS,
    assert_as_interpreted,
    assert_on_scratchpad,
    dense_product,
    outputs_of,
    through_scratchpad,
)
from tests.targets.machine_case import make

CLOSE = 3e-5
"""Of transcendental functions, and of sums in any order."""


def check(*body: Instruction, positive: bool = False) -> None:
    """The whole scratchpad after ``body`` is close to the interpreter's."""
    assert_on_scratchpad(*body, rtol=CLOSE, atol=CLOSE, positive=positive)


@settings(max_examples=120)
@given(st.data(), st.sampled_from(UnaryFn), extents(), st.booleans())
def test_unary(data: st.DataObject, fn: UnaryFn, sizes: tuple[int, ...], in_place: bool) -> None:
    strides = data.draw(dense(sizes))
    fields = rectangle("dst", strides) | data.draw(address("dst", 0, HALF, span(sizes, strides)))
    if in_place:
        fields |= {name.replace("dst", "src"): value for name, value in fields.items()}
    else:
        keep = data.draw(st.tuples(*[st.booleans()] * 5))
        strides = repeats(data.draw(dense(sizes)), keep)
        fields |= rectangle("src", strides)
        fields |= data.draw(address("src", HALF, WORDS, span(sizes, strides)))
    scalars = data.draw(st.sampled_from(((-0.5, 0.75), (0.1, 0.2), (1.0, 6.0))))
    fields |= sized(sizes) | {"fn": int(fn), "p0": scalars[0], "p1": scalars[1]}
    once = nested(make(Opcode.UNARY, **fields), trips=1 if in_place else 3)
    check(*once, positive=True)


@settings(max_examples=120)
@given(st.data(), st.sampled_from([*BinaryFn, None]), extents())
def test_binary_and_fma(data: st.DataObject, fn: BinaryFn | None, sizes: tuple[int, ...]) -> None:
    strides = data.draw(dense(sizes))
    third = WORDS // 3
    assume(span(sizes, strides) <= third)
    fields = rectangle("dst", strides) | data.draw(address("dst", 0, third, span(sizes, strides)))
    for name, low in (("lhs", third), ("rhs", 2 * third)):
        keep = data.draw(st.tuples(*[st.booleans()] * 5))
        own = repeats(data.draw(dense(sizes)), keep)
        assume(span(sizes, own) <= third)
        fields |= rectangle(name, own) | data.draw(
            address(name, low, low + third, span(sizes, own))
        )
    fields |= sized(sizes)
    if fn is None:
        check(*nested(make(Opcode.FMA, **fields)))
    else:
        check(*nested(make(Opcode.BINARY, fn=int(fn), **fields)), positive=fn is BinaryFn.POW)


@given(st.integers(1, 200), st.sampled_from([*BinaryFn, None]), st.tuples(*[st.integers(0, 2)] * 2))
def test_long_rows_of_binary_and_fma(n: int, fn: BinaryFn | None, strides: tuple[int, int]) -> None:
    fields: Fields = {"size4": n, "dst_stride4": 1, "lhs_base": 1000, "rhs_base": 2000}
    fields |= {"lhs_stride4": strides[0], "rhs_stride4": strides[1]}
    if fn is None:
        check(make(Opcode.FMA, **fields))
    else:
        check(make(Opcode.BINARY, fn=int(fn), **fields), positive=True)


@settings(max_examples=120)
@given(st.data(), st.sampled_from(ReduceFn), st.integers(0, 1), st.sampled_from((4, 4, 50)))
def test_reduce(data: st.DataObject, fn: ReduceFn, accumulate: int, inner: int) -> None:
    sizes = (*data.draw(extents(3, 4)), data.draw(st.integers(1, inner)))
    keep = data.draw(st.tuples(*[st.booleans()] * 5))
    kept = tuple(n if k else 1 for n, k in zip(sizes, keep, strict=True))
    strides = repeats(data.draw(dense(kept)), keep)
    fields = rectangle("dst", strides) | data.draw(address("dst", 0, HALF, span(kept, strides)))
    strides = data.draw(dense(sizes)) if math.prod(sizes) < 80 else (0, 0, 0, 2, 1)
    fields |= rectangle("src", strides)
    fields |= data.draw(address("src", HALF, WORDS, span(sizes, strides)))
    fields |= sized(sizes) | {"fn": int(fn), "accumulate": accumulate}
    check(*nested(make(Opcode.REDUCE, **fields)))


@given(st.data(), extents())
def test_fill(data: st.DataObject, sizes: tuple[int, ...]) -> None:
    strides = data.draw(dense(sizes))
    fields = data.draw(address("dst", 0, WORDS, span(sizes, strides)))
    check(*nested(make(Opcode.FILL, p0=2.5, **fields, **sized(sizes), **rectangle("dst", strides))))


@settings(max_examples=120)
@given(st.data(), extents(), coordinates(), extents(6))
def test_mask(
    data: st.DataObject, sizes: tuple[int, ...], at: Fields, shape: tuple[int, ...]
) -> None:
    strides = data.draw(dense(sizes))
    fields = data.draw(address("dst", 0, WORDS, span(sizes, strides)))
    fields |= {f"extent{d}": n for d, n in enumerate(shape)}
    check(
        *nested(
            make(Opcode.MASK, p0=9.0, **fields, **at, **sized(sizes), **rectangle("dst", strides))
        )
    )


@settings(max_examples=150)
@given(
    products(WORDS),
    st.sampled_from(When),
    st.sampled_from(When),
    st.integers(0, 2),
    st.sampled_from((UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP)),
    st.integers(0, 1),
)
def test_matmul(
    operands: Fields, adds: When, ends: When, bias_axis: int, fn: UnaryFn, level: int
) -> None:
    fields = operands | {"accumulate": int(adds), "epilogue": int(ends), "bias_axis": bias_axis}
    fields |= {"fn": int(fn), "k_level": level, "p0": -0.5, "p1": 0.75}
    whole = 5 * WORDS
    case = through_scratchpad(*nested(make(Opcode.MATMUL, **fields)), words=whole)
    x = np.random.default_rng(3).standard_normal(whole).astype(np.float32)
    assert_as_interpreted(case, rtol=1e-4, atol=1e-4, x=x)


@given(st.integers(1, 130), st.integers(1, 70), st.integers(1, 40), st.sampled_from((1, 300, 700)))
@settings(max_examples=40)
def test_matmul_larger_than_its_blocks(m: int, n: int, n1: int, k: int) -> None:
    n1 = 1 if k > 1 else n1
    rng = np.random.default_rng(1)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n1 * n)))
    got = outputs_of(dense_product(m, (n1, n), k), a=left, b=right)["c"]
    want = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@given(st.integers(1, 30), st.integers(1, 70), st.integers(1, 800))
@settings(max_examples=20)
def test_matmul_sums_its_reduction_in_order_in_blocks_of_256(m: int, n: int, k: int) -> None:
    """Bit for bit, on numbers of 8 bits whose products are exact with and without FMA."""
    rng = np.random.default_rng(k)
    left, right = (
        (rng.integers(-255, 256, shape) * 2.0 ** rng.integers(-9, 2, shape)).astype(np.float32)
        for shape in ((m, k), (k, n))
    )
    want = np.zeros((m, n), np.float32)
    for block in range(0, k, 256):
        total = np.zeros((m, n), np.float32)
        for i in range(block, min(block + 256, k)):
            total += left[:, i, None] * right[None, i]
        want = total if block == 0 else want + total
    got = outputs_of(dense_product(m, (1, n), k), a=left, b=right)["c"]
    np.testing.assert_array_equal(got, want)
