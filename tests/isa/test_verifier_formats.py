"""The verifier on formats and on the instructions that know them: spans, pairs, zero points."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.verifier.proof import verify

make = Instruction.make
HALT = make(Opcode.HALT)
TENSORS = (
    DramTensor("x", (8, 8), Role.INPUT, Format.BF16),
    DramTensor("y", (8, 8), Role.OUTPUT, Format.INT8),
)
INTEGERS = (Format.INT8, Format.UINT8)
LEGAL_PAIRS = {(Format.FP32,) * 2, (Format.BF16,) * 2, *product(INTEGERS, INTEGERS)}


def case(*stream: Instruction, elements: int = 64) -> Program:
    return Program("case", TENSORS, ((*stream, HALT),), ((0, 9),), elements)


def refused(program: Program, reason: str) -> None:
    with pytest.raises(ProgramError, match=reason):
        verify(program)


def fill(base: int, words: int) -> Instruction:
    return make(Opcode.FILL, dst_base=base, size0=words, dst_stride0=1)


def matmul(**fields: int | float) -> Program:
    """One that multiplies what lies in the first words; accumulator at 8."""
    return case(
        fill(0, 64), make(Opcode.MATMUL, **{"a_base": 0, "b_base": 4, "c_base": 8} | fields)
    )


@given(
    form=st.sampled_from(Format),
    opcode=st.sampled_from((Opcode.LOAD, Opcode.GATHER, Opcode.CONVERT)),
    base=st.integers(0, 5),
    shape=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 7)), min_size=1, max_size=2),
)
def test_a_narrow_operand_reaches_exactly_the_words_that_its_bytes_lie_in(
    form, opcode, base, shape
) -> None:
    name = "dst_format" if opcode is Opcode.CONVERT else "format"
    fields = {"dst_base": base, name: int(form)}
    for d, (size, stride) in enumerate(shape):
        fields |= {f"size{d}": size, f"dst_stride{d}": stride}
    places = product(*(range(size) for size, _ in shape))
    last = max(
        form.bytes * (base + sum(i * s for i, (_, s) in zip(at, shape, strict=True)))
        for at in places
    )
    needed = (last + form.bytes - 1) // 4 + 1
    word = make(opcode, **fields)
    stream = (fill(0, 1), word) if opcode is Opcode.CONVERT else (word,)
    verify(case(*stream, elements=needed))
    refused(case(*stream, elements=needed - 1), "dst reaches elements|elements 0 to 0")


@pytest.mark.parametrize(
    ("opcode", "operand", "form"),
    [(Opcode.STORE, "src", "format"), (Opcode.CONVERT, "src", "src_format")],
)
def test_a_narrow_source_reads_fewer_words(opcode, operand, form) -> None:
    fields = {"size0": 8, f"{operand}_stride0": 1}
    fields |= {"tensor": 1} if opcode is Opcode.STORE else {}
    for code, words in ((Format.INT8, 2), (Format.BF16, 4), (Format.INT32, 8)):
        word = make(opcode, **fields, **{form: int(code), f"{operand}_base": 16 // code.bytes})
        verify(case(fill(4, words), word))
        refused(case(fill(4, words - 1), word), f"{operand} reads elements 4 to {3 + words}")


def test_narrow_factors_of_a_matmul_read_fewer_words() -> None:
    word = {"k0": 16, "a_k0": 1, "b_k0": 1, "a_base": 0, "c_base": 60}
    for a, b, words in ((Format.UINT8, Format.INT8, 4), (Format.BF16, Format.BF16, 8)):
        product = make(
            Opcode.MATMUL, **word, b_base=32 // b.bytes, a_format=int(a), b_format=int(b)
        )
        verify(case(fill(0, words), fill(8, words), product))
        refused(case(fill(0, words - 1), fill(8, words), product), "a reads elements 0 to")
        refused(case(fill(0, words), fill(8, words - 1), product), "b reads elements 8 to")


@pytest.mark.parametrize("pair", [*product(Format, Format)])
def test_the_matrix_unit_multiplies_the_pairs_that_the_manual_names_and_no_other(pair) -> None:
    program = matmul(a_format=int(pair[0]), b_format=int(pair[1]))
    if pair in LEGAL_PAIRS:
        verify(program)
    else:
        refused(program, f"multiplies {pair[0].name} by {pair[1].name}; it takes")


@pytest.mark.parametrize("fn", [UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP])
def test_integer_sums_know_copy_and_relu_alone(fn) -> None:
    formats = {"a_format": int(Format.INT8), "b_format": int(Format.UINT8)}
    verify(matmul(fn=int(fn)))
    if fn in (UnaryFn.COPY, UnaryFn.RELU):
        verify(matmul(fn=int(fn), **formats))
    else:
        refused(matmul(fn=int(fn), **formats), f"fn {fn.name} of integer sums")


def test_integer_sums_are_not_scaled() -> None:
    verify(matmul(scale=0.5, a_format=int(Format.BF16), b_format=int(Format.BF16)))
    integers = {"a_format": int(Format.INT8), "b_format": int(Format.INT8)}
    refused(matmul(scale=0.5, **integers), "scale 0.5 of integer sums")


@pytest.mark.parametrize("name", ["a_zero", "b_zero"])
def test_only_integer_factors_have_zero_points(name) -> None:
    verify(matmul(**{name: -7}, a_format=int(Format.INT8), b_format=int(Format.UINT8)))
    refused(matmul(**{name: -7}), f"{name} -7 with FP32; only integers")
    bf16 = {"a_format": int(Format.BF16), "b_format": int(Format.BF16)}
    refused(matmul(**{name: 3}, **bf16), f"{name} 3 with BF16; only integers")


@pytest.mark.parametrize("side", ["src", "dst"])
@pytest.mark.parametrize("form", Format)
def test_only_integers_convert_with_a_zero_point(side, form) -> None:
    word = make(Opcode.CONVERT, **{f"{side}_format": int(form), f"{side}_zero": 5, "dst_base": 3})
    if form.is_float:
        refused(case(fill(0, 1), word), f"{side}_zero 5 with {form.name}; only integers")
    else:
        verify(case(fill(0, 1), word))


@pytest.mark.parametrize(
    ("opcode", "field"),
    [
        (Opcode.LOAD, "format"),
        (Opcode.STORE, "format"),
        (Opcode.GATHER, "format"),
        (Opcode.MATMUL, "a_format"),
        (Opcode.MATMUL, "b_format"),
        (Opcode.CONVERT, "src_format"),
        (Opcode.CONVERT, "dst_format"),
    ],
)
def test_an_unknown_format_is_refused(opcode, field) -> None:
    refused(case(make(opcode, **{field: 6})), rf"{field} 6 is not one of \[0, 1, 2, 3, 4, 5\]")


def test_every_format_loads_from_and_stores_to_every_other() -> None:
    for form in Format:
        load, store = (make(op, format=int(form)) for op in (Opcode.LOAD, Opcode.STORE))
        verify(case(load, store.replace(tensor=1)))


def test_a_residual_is_only_read_where_an_epilogue_adds_it() -> None:
    place = {"r_base": 60, "m": 5, "r_m": 1}
    for adds, epilogue in product((0, 1), (When.NEVER, When.ALWAYS)):
        program = matmul(adds=adds, epilogue=int(epilogue), **place)
        if adds and epilogue is When.ALWAYS:
            refused(program, "r reaches elements 60 to 64")
        else:
            verify(program)
    short = case(fill(0, 9), make(Opcode.MATMUL, b_base=4, c_base=8, adds=1, epilogue=1, r_base=60))
    refused(short, "r reads elements 60 to 60, which nothing before it wrote")


def test_a_forwarding_matmul_signals_someone() -> None:
    refused(matmul(forward=1), "forwards its first results, but signals no semaphore")
    take = make(Opcode.UNARY, src_base=8, dst_base=8, wait0=2)
    word = make(Opcode.MATMUL, b_base=4, c_base=8, forward=1, signal2=2)
    verify(case(fill(0, 8), word, take))
