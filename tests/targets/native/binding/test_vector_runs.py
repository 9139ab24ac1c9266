"""What joins a vector run and what of it is stored; that results are those of single instructions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role
from autotune.targets.native.binding.binding import FAR_BYTES
from autotune.targets.native.binding.call import Call, Space
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from autotune.targets.native.cpu.vector_isa import AVX2
from autotune.targets.native.linking.loader import bind
from tests.targets.machine_case import load, loop, make, program, store, tensor
from tests.targets.native.linking.test_loader import copying
from tests.targets.native.native_case import executed

needs_llvm = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
WORDS = 800
TENSORS = (tensor("x", WORDS), tensor("y", WORDS, role=Role.OUTPUT))
LINE = 10
SIZES = {"size3": 3, "size4": 5}
FIRST, SECOND, OUT, WEIGHTS = 0, 100, 200, 300
MOVES = (Opcode.LOAD, Opcode.STORE)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def operand(name: str, base: int, line: int = LINE, **more: int) -> dict[str, int]:
    fields = {"base": base, "stride3": line, "stride4": 1, **more}
    return {f"{name}_{field}": value for field, value in fields.items()}


def fma(dst: dict[str, int], lhs: dict[str, int], rhs: dict[str, int]) -> Instruction:
    return make(Opcode.FMA, **SIZES, **dst, **lhs, **rhs)


def binary(fn: BinaryFn, *operands: dict[str, int]) -> Instruction:
    fields = {key: value for each in operands for key, value in each.items()}
    return make(Opcode.BINARY, fn=fn, **SIZES, **fields)


def unary(fn: UnaryFn, dst: dict[str, int], src: dict[str, int]) -> Instruction:
    return make(Opcode.UNARY, fn=fn, **SIZES, **dst, **src, p0=0.25, p1=0.75)


def between(*work: Instruction, stored: int = OUT) -> Program:
    """The whole scratchpad loaded, work, and 100 words stored."""
    return program(load(0, 0, WORDS), *work, store(1, stored, 100), tensors=TENSORS)


def generated(given: Program) -> list[Call]:
    calls = bind(given, AVX2).parts[0].calls
    return [call for call in calls.values() if isinstance(call.kernel, KernelSpec)]


def taps() -> list[Instruction]:
    """Three taps of a convolution in one row, a bias and a clip."""
    dst, row = operand("dst", OUT), lambda tap: operand("rhs", WEIGHTS + 5 * tap, 0)
    return [
        binary(BinaryFn.MUL, dst, operand("lhs", FIRST), row(0)),
        fma(dst, operand("lhs", FIRST + 1), row(1)),
        fma(dst, operand("lhs", FIRST + 2), row(2)),
        binary(BinaryFn.ADD, dst, operand("lhs", OUT, stride0=7), row(3)),
        unary(UnaryFn.CLIP, operand("dst", SECOND), operand("src", OUT, stride1=3)),
    ]


def test_taps_bias_and_clip_are_one_pass_over_one_window() -> None:
    (call,) = generated(between(*taps(), stored=SECOND))
    window, weights, out = call.operands
    assert [o.at.first for o in call.operands] == [FIRST, WEIGHTS, SECOND]
    assert (window.space, out.space) == (Space.SCRATCHPAD, Space.SCRATCHPAD)
    assert weights.strides[3] == 0


def test_a_result_in_the_middle_is_stored_if_another_instruction_reads_it() -> None:
    (call,) = generated(between(*taps(), stored=OUT))
    assert [o.at.first for o in call.operands] == [FIRST, WEIGHTS, OUT]
    both = between(*taps(), store(1, SECOND, 100), stored=OUT)
    (call,) = generated(both)
    assert [o.at.first for o in call.operands] == [FIRST, WEIGHTS, OUT, SECOND]


def mask(base: int) -> Instruction:
    """Zeroes the last column of a dense rectangle."""
    extents = {**{f"extent{d}": 1 for d in range(3)}, "extent3": 3, "extent4": 4}
    return make(Opcode.MASK, **SIZES, **operand("dst", base, 5), **extents)


def test_a_result_is_stored_for_a_mask_that_keeps_what_lies_inside() -> None:
    work = [
        unary(UnaryFn.AFFINE, operand("dst", SECOND, 5), operand("src", FIRST, 5)),
        unary(UnaryFn.COPY, operand("dst", OUT, 5), operand("src", SECOND, 5)),
        mask(OUT),
    ]
    given = program(
        load(0, 0, WORDS), *work, store(1, OUT, 15), store(1, SECOND, 15, coord0=15),
        tensors=TENSORS,
    )  # fmt: skip
    (call,) = generated(given)
    kept = [o.at.first for o in call.operands if o.space is Space.SCRATCHPAD]
    assert OUT in kept


def test_a_load_that_a_mask_changes_is_copied() -> None:
    given = program(load(0, OUT, 15), mask(OUT), store(1, OUT, 15), tensors=TENSORS)
    x = np.random.default_rng(0).standard_normal(WORDS).astype(np.float32)
    want = x[:15].reshape(3, 5).copy()
    want[:, 4] = 0.0
    np.testing.assert_array_equal(executed(given, {"x": x})["y"][:15], want.ravel())


def test_a_result_that_the_run_itself_reads_in_the_next_trip_is_stored() -> None:
    body = [
        binary(BinaryFn.ADD, operand("dst", SECOND), operand("lhs", OUT), operand("rhs", WEIGHTS)),
        unary(UnaryFn.AFFINE, operand("dst", OUT), operand("src", SECOND)),
    ]
    (call,) = generated(between(*loop(3, *body), stored=500))
    assert [o.at.first for o in call.operands] == [OUT, OUT]


def test_a_result_is_not_stored_for_a_reader_that_gets_what_another_instruction_wrote() -> None:
    """A loop and what is left behind it use the same words; each fills them itself, from x in place."""
    body = [
        load(0, SECOND, 100),
        unary(UnaryFn.AFFINE, operand("dst", SECOND), operand("src", SECOND)),
        unary(UnaryFn.AFFINE, operand("dst", OUT), operand("src", SECOND)),
        store(1, OUT, 100),
    ]
    given = program(*loop(3, *body), *body, tensors=TENSORS)
    calls = generated(given)
    assert [o.at.first for call in calls for o in call.operands] == [0, OUT, 0, OUT]


def test_a_result_larger_than_caches_is_streamed() -> None:
    def streamed(words: int) -> bool:
        tensors = (tensor("x", words), tensor("y", words, role=Role.OUTPUT))
        places = {"dst_base": OUT, "dst_stride4": 1, "src_base": FIRST, "src_stride4": 1}
        work = make(Opcode.UNARY, fn=UnaryFn.AFFINE, size4=64, **places)
        given = program(load(0, 0, 100), work, store(1, OUT, 64), tensors=tensors)
        (call,) = generated(given)
        assert isinstance(call.kernel, KernelSpec)
        return "!nontemporal" in call.kernel.written().ir

    assert streamed(FAR_BYTES // 4)
    assert not streamed(FAR_BYTES // 4 - 1)


@st.composite
def instructions(draw: st.DrawFn, level: bool) -> Instruction:
    def place(name: str) -> dict[str, int]:
        line = LINE if name == "dst" or draw(st.integers(0, 3)) else 0
        base = draw(st.sampled_from([0, 1, 10, 100, 101, 200, 210, 300]))
        step = draw(st.sampled_from([0, 0, 30])) if level else 0
        return (
            operand(name, base, line, step0=step, level0=0) if step else operand(name, base, line)
        )

    match draw(st.integers(0, 2)):
        case 0:
            fn = draw(st.sampled_from([UnaryFn.CLIP, UnaryFn.AFFINE, UnaryFn.COPY]))
            return unary(fn, place("dst"), place("src"))
        case 1:
            fn = draw(st.sampled_from([BinaryFn.ADD, BinaryFn.MUL, BinaryFn.MAXIMUM]))
            return binary(fn, place("dst"), place("lhs"), place("rhs"))
        case _:
            return fma(place("dst"), place("lhs"), place("rhs"))


@needs_llvm
@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_runs_compute_what_single_instructions_do(compiler: Compiler, data: st.DataObject) -> None:
    level = data.draw(st.booleans())
    work = data.draw(st.lists(instructions(level), min_size=1, max_size=8))
    given = between(
        *(loop(2, *work) if level else work), stored=data.draw(st.sampled_from([0, 100, 200]))
    )
    feeds = {"x": np.random.default_rng(0).uniform(-1, 1, WORDS).astype(np.float32)}
    want = executed(given, feeds, bound=copying(given))["y"]
    got = executed(given, feeds, compiler)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@needs_llvm
def test_functions_without_generated_code_run_compiled_between_those_with(
    compiler: Compiler,
) -> None:
    out, first = operand("dst", OUT), operand("src", FIRST)
    chain = {"stage0_kind": StageKind.UNARY, "stage0_fn": UnaryFn.COS} | {
        "stage1_kind": StageKind.WITH0, "stage1_fn": BinaryFn.ADD
    }  # fmt: skip
    side = operand("side0", WEIGHTS)
    given = between(
        unary(UnaryFn.SIN, out, first),
        unary(UnaryFn.AFFINE, out, operand("src", OUT)),
        binary(BinaryFn.FMOD, out, operand("lhs", OUT), operand("rhs", SECOND)),
        make(Opcode.CHAIN, **SIZES, **out, **operand("src", OUT), **side, **chain),
        unary(UnaryFn.RELU, out, operand("src", OUT)),
    )
    calls = bind(given, AVX2).parts[0].calls
    kinds = [call.kernel for _, call in sorted(calls.items()) if call.kernel not in MOVES]
    assert [isinstance(kernel, KernelSpec) for kernel in kinds] == [False, True, False, False, True]
    values = {"x": np.random.default_rng(4).uniform(0.5, 2, WORDS).astype(np.float32)}
    (found,) = executed(given, values, compiler).values()
    (wanted,) = executed(given, values, None).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


ROW = 20
"""Elements of a row that is long enough for its reductions to join a run."""


def in_rows(
    opcode: Opcode, fn: int, size4: int = ROW, **places: tuple[int, int, int]
) -> Instruction:
    """An instruction on three rows; places are (base, line, step) by operand."""
    fields: dict[str, int] = {}
    for name, (base, line, step) in places.items():
        fields |= {f"{name}_base": base, f"{name}_stride3": line, f"{name}_stride4": step}
    scalars = {"p0": 0.25, "p1": 0.75} if opcode is Opcode.UNARY else {}
    return make(opcode, fn=fn, size3=3, size4=size4, **scalars, **fields)


def softmax(x: int, y: int, kept: int) -> list[Instruction]:
    row = (kept, 1, 0)
    return [
        in_rows(Opcode.REDUCE, ReduceFn.MAX, dst=row, src=(x, ROW, 1)),
        in_rows(Opcode.BINARY, BinaryFn.SUB, dst=(y, ROW, 1), lhs=(x, ROW, 1), rhs=row),
        in_rows(Opcode.UNARY, UnaryFn.EXP, dst=(y, ROW, 1), src=(y, ROW, 1)),
        in_rows(Opcode.REDUCE, ReduceFn.SUM, dst=row, src=(y, ROW, 1)),
        in_rows(Opcode.UNARY, UnaryFn.RECIPROCAL, 1, dst=row, src=row),
        in_rows(Opcode.BINARY, BinaryFn.MUL, dst=(y, ROW, 1), lhs=(y, ROW, 1), rhs=row),
    ]


def test_a_softmax_is_one_visit_of_each_row_and_keeps_nothing_else() -> None:
    (call,) = generated(between(*softmax(FIRST, OUT, 500), stored=OUT))
    assert [o.at.first for o in call.operands] == [FIRST, OUT]


def test_what_a_row_was_reduced_to_is_stored_if_another_instruction_reads_it() -> None:
    work = [*softmax(FIRST, OUT, 500), store(1, 500, 100)]
    (call,) = generated(between(*work, stored=OUT))
    assert {o.at.first for o in call.operands} == {FIRST, OUT, 500}


def test_a_reduction_alone_or_of_short_rows_has_code_of_its_own() -> None:
    alone = in_rows(Opcode.REDUCE, ReduceFn.SUM, dst=(OUT, 1, 0), src=(FIRST, ROW, 1))
    assert len(generated(between(alone))) == 1
    short = [
        in_rows(Opcode.REDUCE, ReduceFn.SUM, 7, dst=(OUT, 1, 0), src=(FIRST, 7, 1)),
        in_rows(Opcode.UNARY, UnaryFn.AFFINE, 1, dst=(OUT, 1, 0), src=(OUT, 1, 0)),
    ]
    assert len(generated(between(*short))) == 2


@needs_llvm
@pytest.mark.parametrize("accumulate", [0, 1])
def test_a_reduction_of_one_element_each_is_a_copy_or_a_sum_with_what_was_there(
    compiler: Compiler, accumulate: int
) -> None:
    fields = {"size3": 3, "size4": 1, **operand("dst", OUT, 1), **operand("src", FIRST, 1)}
    given = between(
        make(Opcode.REDUCE, fn=ReduceFn.SUM, accumulate=accumulate, **fields),
        in_rows(Opcode.UNARY, UnaryFn.AFFINE, 1, dst=(OUT, 1, 0), src=(OUT, 1, 0)),
    )
    x = np.random.default_rng(0).uniform(-1, 1, WORDS).astype(np.float32)
    got = executed(given, {"x": x}, compiler)["y"][:3]
    want = 0.25 * (x[:3] + accumulate * x[OUT : OUT + 3]) + 0.75
    np.testing.assert_allclose(got, want, rtol=1e-6)


@st.composite
def row_instructions(draw: st.DrawFn) -> Instruction:
    def element() -> tuple[int, int, int]:
        return draw(st.sampled_from([0, 1, 100, 200, 210])), ROW, 1

    def kept() -> tuple[int, int, int]:
        return draw(st.sampled_from([100, 500, 501, 510])), 1, 0

    def operand_of_row() -> tuple[int, int, int]:
        broadcast = (draw(st.sampled_from([0, 300])), 0, 1)
        return draw(st.sampled_from([element(), element(), kept(), broadcast]))

    unary_fn = draw(st.sampled_from([UnaryFn.AFFINE, UnaryFn.COPY, UnaryFn.CLIP]))
    reduce_fn = draw(st.sampled_from([ReduceFn.SUM, ReduceFn.MAX]))
    binary_fn = draw(st.sampled_from([BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAXIMUM]))
    match draw(st.integers(0, 3)):
        case 0:
            return in_rows(Opcode.UNARY, unary_fn, dst=element(), src=element())
        case 1:
            return in_rows(Opcode.UNARY, unary_fn, 1, dst=kept(), src=kept())
        case 2:
            length = draw(st.sampled_from([ROW, ROW, 1]))
            return in_rows(Opcode.REDUCE, reduce_fn, length, dst=kept(), src=element())
        case _:
            sides = {"lhs": element(), "rhs": operand_of_row()}
            return in_rows(Opcode.BINARY, binary_fn, dst=element(), **sides)


@needs_llvm
@given(st.lists(row_instructions(), min_size=1, max_size=8), st.sampled_from([0, 100, 200, 500]))
def test_row_runs_compute_what_single_instructions_do(
    compiler: Compiler, work: list[Instruction], stored: int
) -> None:
    given = between(*work, stored=stored)
    feeds = {"x": np.random.default_rng(0).uniform(-1, 1, WORDS).astype(np.float32)}
    want = executed(given, feeds, bound=copying(given))["y"]
    got = executed(given, feeds, compiler)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
