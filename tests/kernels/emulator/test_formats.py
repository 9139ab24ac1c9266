"""Numbers in narrow formats: what the engine computes is, bit by bit, what the table says."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Role
from autotune.targets.arrays import ARRAY_TYPES
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
    dense_product,
    output,
    outputs_of,
)
from tests.targets.machine_case import load, make, program, store, tensor

INTEGERS = (Format.INT8, Format.UINT8, Format.INT32)
SPECIAL = (
    math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5,
    128.0, -128.5, -129.0, 254.5, 255.5, 256.0, 2.0**31, -(2.0**31), 2.0**33, 3e38, -3e38, 1e-40,
    1.00390625, 1.01171875, 1.0039063, 3.3895314e38,
    65504.0, 65519.9, 65520.0, 1.00048828125, 2.0**-14, 2.0**-24, 2.0**-25, 3 * 2.0**-25, 6.0e-5,
)  # fmt: skip
"""NaN, ±inf, ties of both rounding steps, both ends of every integer range, subnormals."""


def numbers(format: Format, count: int, seed: int = 5) -> np.ndarray:
    """Values all over a format's range; special ones among those of floating point."""
    rng = np.random.default_rng(seed)
    dtype = ARRAY_TYPES[format]
    if format in INTEGERS:
        limits = np.iinfo(dtype)
        drawn = rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        drawn[:2] = (limits.min, limits.max)[:count]
        return drawn
    drawn = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 11, count)
    drawn[: len(SPECIAL)] = SPECIAL[:count]
    with np.errstate(over="ignore"):
        return rng.permutation(drawn.astype(np.float32)).astype(dtype)


def filled(base: int, words: int) -> Fields:
    return {"dst_base": base, "size4": words, "dst_stride4": 1, "p0": 1.0}


scales = st.sampled_from((1.0, 0.5, 0.1, 1 / 3, 7.0, 1e-6, 3e5))


@settings(max_examples=100)
@given(
    st.data(), st.sampled_from(Format), st.sampled_from(Format), scales, st.booleans(), extents()
)
def test_convert_rounds_and_saturates_as_its_row_says(
    data: st.DataObject,
    source: Format,
    target: Format,
    scale: float,
    divide: bool,
    sizes: tuple[int, ...],
) -> None:
    zeros = st.sampled_from((0, 1, 128, -5, 1 << 23, -(1 << 31), (1 << 31) - 1))
    fields = sized(sizes) | {"divide": int(divide), "scale": scale}
    fields |= {"src_format": int(source), "dst_format": int(target)}
    fields["src_zero"] = data.draw(zeros) if source in INTEGERS else 0
    fields["dst_zero"] = data.draw(zeros) if target in INTEGERS else 0
    keep = data.draw(st.tuples(*[st.booleans()] * 5))
    strides = data.draw(dense(sizes))
    fields |= rectangle("dst", strides)
    fields |= data.draw(address("dst", 0, HALF * 4 // target.bytes, span(sizes, strides)))
    strides = repeats(data.draw(dense(sizes)), keep)
    fields |= rectangle("src", strides)
    ends = HALF * 4 // source.bytes, WORDS * 4 // source.bytes
    fields |= data.draw(address("src", *ends, span(sizes, strides)))
    in_words = HALF * 4 // source.bytes
    out_words = HALF * 4 // target.bytes
    case = program(
        make(Opcode.FILL, **filled(0, HALF)),
        load(0, HALF, in_words, format=int(source)),
        *nested(make(Opcode.CONVERT, **fields)),
        store(1, 0, out_words, format=int(target)),
        tensors=(
            tensor("x", in_words, format=source),
            output("y", out_words, format=target),
        ),
        elements=WORDS,
    )
    assert_as_interpreted(case, x=numbers(source, in_words))


@pytest.mark.parametrize("target", Format)
@pytest.mark.parametrize("source", Format)
def test_convert_of_rows_longer_than_a_chunk(source: Format, target: Format) -> None:
    n = 1000
    zero = 3 if target in INTEGERS else 0
    case = program(
        load(0, 0, n, format=int(source)),
        make(
            Opcode.CONVERT, src_format=int(source), dst_format=int(target),
            dst_base=n * 4 // target.bytes, size4=n,
            dst_stride4=1, src_stride4=1, scale=0.75, dst_zero=zero,
        ),
        store(1, n, n, format=int(target)),
        tensors=(tensor("x", n, format=source), output("y", n, format=target)),
        elements=2 * n,
    )  # fmt: skip
    assert_as_interpreted(case, x=numbers(source, n))


def test_bf16_of_fp32_is_nearest_even_for_every_upper_half() -> None:
    """All bit patterns of the upper half, with lower halves around the tie."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (upper | np.uint32(lower)).view(np.float32).reshape(4, -1)
        columns = x.shape[1]
        whole = {"tensor": 0, "size0": 4, "size1": columns}
        case = program(
            make(Opcode.LOAD, **whole, dst_stride0=columns, dst_stride1=1),
            make(Opcode.STORE, **{**whole, "tensor": 1}, src_stride0=columns, src_stride1=1),
            tensors=(
                tensor("x", *x.shape), output("y", *x.shape, format=Format.BF16)
            ),
            elements=x.size,
        )  # fmt: skip
        got = outputs_of(case, x=x)
        with np.errstate(invalid="ignore", over="ignore"):
            want = x.astype(ml_dtypes.bfloat16)
        is_number = ~np.isnan(x)
        bits = got["y"].view(np.uint16)
        np.testing.assert_array_equal(bits[is_number], want.view(np.uint16)[is_number])
        assert np.isnan(got["y"][~is_number].astype(np.float32)).all()


@settings(max_examples=160)
@given(
    st.data(),
    st.integers(1, 5),
    st.one_of(st.just((Format.FP32,) * 3), st.tuples(*[st.sampled_from(Format)] * 3)),
)
def test_transfers_pad_transpose_clip_and_convert(
    data: st.DataObject, rank: int, formats: tuple[Format, Format, Format]
) -> None:
    source, held, target = formats
    shape, sizes = data.draw(extents(6, rank)), data.draw(extents(4, rank))
    strides = data.draw(dense(sizes))
    at = data.draw(coordinates())
    at = {name: value for name, value in at.items() if int(name[-1]) < rank}
    place = data.draw(address("dst", 0, WORDS * 4 // held.bytes, span(sizes, strides)))
    common = {**sized(sizes), **at, "format": int(held)}
    moved = {name.replace("dst", "src"): value for name, value in place.items()}
    pad = data.draw(st.sampled_from((0.0, 7.0, -300.5, math.inf, 0.1)))
    case = program(
        make(Opcode.FILL, **filled(0, WORDS)),
        *nested(
            make(Opcode.LOAD, tensor=0, pad=pad, **common, **place, **rectangle("dst", strides)),
            make(Opcode.STORE, tensor=1, **common, **moved, **rectangle("src", strides)),
        ),
        tensors=(
            tensor("x", *shape, format=source),
            output("y", *shape, format=target),
        ),
        elements=WORDS,
    )
    assert_as_interpreted(case, x=numbers(source, math.prod(shape)).reshape(shape))


def test_int32_passes_unrounded_where_no_format_changes() -> None:
    x = np.array([2**24 + 1, -(2**31), 2**31 - 1, -1], np.int32)
    kind = Format.INT32
    case = program(
        load(0, 0, 4, format=int(kind)), store(1, 0, 4, format=int(kind)),
        tensors=(tensor("x", 4, format=kind), output("y", 4, format=kind)),
    )  # fmt: skip
    np.testing.assert_array_equal(outputs_of(case, x=x)["y"], x)


def factors(left: Format, right: Format, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the factors; floating ones small enough for exact products in fp32."""
    if left is not Format.BF16:
        return numbers(left, words * 4, 1), numbers(right, words * 4, 2)
    rng = np.random.default_rng(1)
    made = [rng.standard_normal(words * 2).astype(ARRAY_TYPES[left]) for _ in range(2)]
    return made[0], made[1]


pairs = st.one_of(
    st.just((Format.BF16, Format.BF16)),
    st.tuples(*[st.sampled_from((Format.INT8, Format.UINT8))] * 2),
)


@settings(max_examples=100)
@given(
    st.data(),
    products(WORDS),
    pairs,
    st.sampled_from(When),
    st.sampled_from(When),
    st.integers(0, 2),
    st.booleans(),
)
def test_narrow_matmul_is_exact(
    data: st.DataObject,
    operands: Fields,
    formats: tuple[Format, Format],
    adds: When,
    ends: When,
    bias_axis: int,
    residual: bool,
) -> None:
    part, fields = WORDS, dict(operands)
    wide = Format.FP32 if formats[0] is Format.BF16 else Format.INT32
    fns = [UnaryFn.COPY, UnaryFn.RELU]
    if wide is Format.FP32:  # factors by which a product is exact, fused with its sum or not
        fns += [UnaryFn.LEAKY_RELU, UnaryFn.CLIP]
        fields["scale"] = data.draw(st.sampled_from((1.0, 0.5, 4.0)))
    else:
        zeros = st.sampled_from((0, 128, -256, 255, 3))
        fields |= {"a_zero": data.draw(zeros), "b_zero": data.draw(zeros)}
    fields |= {
        "accumulate": int(adds),
        "epilogue": int(ends),
        "bias_axis": bias_axis,
        "adds": int(residual),
        "fn": int(data.draw(st.sampled_from(fns))),
        "a_format": int(formats[0]),
        "b_format": int(formats[1]),
        "k_level": data.draw(st.integers(0, 1)),
        "p0": -0.5,
        "p1": 0.75,
    }
    fields["b_base"] += part * (4 // formats[1].bytes - 1)  # its part begins at a word
    left, right = factors(*formats, part)
    rest = (
        numbers(wide, 3 * part)
        if wide is Format.INT32
        else np.random.default_rng(3).standard_normal(3 * part).astype(np.float32)
    )
    case = program(
        load(0, 0, left.size, format=int(formats[0])),
        load(1, part, right.size, format=int(formats[1])),
        load(2, 2 * part, 3 * part, format=int(wide)),
        *nested(make(Opcode.MATMUL, **fields)),
        store(3, 2 * part, part, format=int(wide)),
        tensors=(
            tensor("a", left.size, format=formats[0]),
            tensor("b", right.size, format=formats[1]),
            tensor("rest", 3 * part, format=wide),
            output("c", part, format=wide),
        ),
        elements=5 * part,
    )
    assert_as_interpreted(case, a=left, b=right, rest=rest)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from((1, 100, 130)),
    st.sampled_from(((1, 7), (3, 530), (90, 7))),
    st.sampled_from((3, 300, 700)),
    pairs,
    st.sampled_from((0, -100, 255)),
)
def test_narrow_matmul_larger_than_its_blocks_is_exact(
    m: int, columns: tuple[int, int], k: int, formats: tuple[Format, Format], zero: int
) -> None:
    n = columns[0] * columns[1]
    bf16 = formats[0] is Format.BF16
    rng = np.random.default_rng(m + n + k)
    left, right = (
        rng.standard_normal(size).astype(ml_dtypes.bfloat16) if bf16 else numbers(kind, size, size)
        for kind, size in zip(formats, (m * k, k * n), strict=True)
    )
    zeros = {} if bf16 else {"a_zero": zero, "b_zero": zero}
    case = dense_product(m, columns, k, formats, **zeros)
    assert_as_interpreted(case, a=left.reshape(m, k), b=right.reshape(k, n))


def test_arrays_come_back_in_their_formats_and_unwritten_parts_say_so() -> None:
    kinds = {"f": Format.FP32, "h": Format.BF16, "i": Format.INT8, "w": Format.INT32}
    case = program(
        tensors=tuple(tensor(name, 3, role=Role.OUTPUT, format=k) for name, k in kinds.items())
    )
    got = outputs_of(case)
    for name, kind in kinds.items():
        assert got[name].dtype == ARRAY_TYPES[kind]
        if kind in INTEGERS:
            assert (got[name] == 0).all()
        else:
            assert np.isnan(got[name].astype(np.float32)).all()


def test_bf16_is_taken_as_bits_and_other_types_are_refused() -> None:
    case = program(
        load(0, 0, 2, format=int(Format.BF16)), store(1, 0, 2, format=int(Format.BF16)),
        tensors=(
            tensor("x", 2, format=Format.BF16), output("y", 2, format=Format.BF16)
        ),
    )  # fmt: skip
    bits = np.array([0x3F80, 0xC000], np.uint16)
    got = outputs_of(case, x=bits)["y"]
    assert got.astype(np.float32).tolist() == [1.0, -2.0]
    with pytest.raises(InputError, match=r"float32.*bfloat16"):
        outputs_of(case, x=np.ones(2, np.float32))
