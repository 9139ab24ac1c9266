"""assemble(disassemble(x)) is x; the text is stable; errors name line and column."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.assembly import assemble, disassemble, instruction_text
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, StageKind, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from tests.conftest import Golden
from tests.isa.isa_case import golden as matmul
from tests.isa.isa_case import instructions, programs, same_bits, with_stream

HEAD = '.program "p"\n.scratchpad 64\n.tensor 0 "x" input (4, 4)\n.core\n'


@pytest.mark.parametrize("opcode", Opcode)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_instruction_reads_back_from_its_text(opcode, data) -> None:
    program = with_stream(matmul(), data.draw(instructions(opcode)))
    assert same_bits(assemble(disassemble(program)), program)


@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_a_program_reads_back_from_its_text(program) -> None:
    assert same_bits(assemble(disassemble(program)), program)


def test_the_text_of_a_double_buffered_matmul_is_the_golden_one(golden: Golden) -> None:
    golden("matmul.tile", disassemble(matmul()))


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (Instruction.make(Opcode.HALT), "halt"),
        (Instruction.make(Opcode.LOOP, trips=4, level=2), "loop trips=4 level=i2"),
        (Instruction.make(Opcode.WAIT, unit=2, semaphore=9), "wait unit=matrix semaphore=9"),
        (Instruction.make(Opcode.FILL, p0=0.1, wait1=3), "fill p0=0.1 ?0 ?3"),
        (Instruction.make(Opcode.FILL, p0=-0.0, signal0=3), "fill p0=-0.0 !3"),
        (Instruction.make(Opcode.UNARY, fn=int(UnaryFn.GELU)), "unary fn=gelu"),
        (Instruction.make(Opcode.UNARY, fn=63), "unary fn=63"),
        (
            Instruction.make(Opcode.FILL, dst_base=8, dst_step1=-2, dst_level1=1, dst_slot=4),
            "fill dst=[8 + 0*_ - 2*i1 + 4@_]",
        ),
        (
            Instruction.make(Opcode.MASK, coord0=-1, step0=2, level0=0, coord2=5, extent1=7),
            "mask at=(-1 + 2*i0, 0, 5) extent=(1, 7)",
        ),
        (
            Instruction.make(Opcode.CASE, parameter=3, low=-1, high=8, level=1),
            "case parameter=3 low=-1 high=8 level=i1",
        ),
        (
            Instruction.make(Opcode.GATHER, axis0=1, axis1=1, axis2=0, hop1=-2, hop3=0),
            "gather tensor=0 axis=(1, 1, 0) hop=(1, -2, 1, 0)",
        ),
        (
            Instruction.make(Opcode.LOAD, tensor=2, format=int(Format.BF16)),
            "load tensor=2 format=bf16",
        ),
        (
            Instruction.make(
                Opcode.CHAIN,
                stage0_kind=int(StageKind.UNARY),
                stage0_fn=int(UnaryFn.AFFINE),
                stage0_p0=2.0,
                stage1_kind=int(StageKind.FROM1),
                stage1_fn=int(BinaryFn.SUB),
                stage2_kind=int(StageKind.WITH0),
                stage2_fn=40,
                stage2_p1=-0.0,
                stage3_fn=5,
            ),
            "chain stage0=(unary, affine, 2.0) stage1=(from1, sub) stage2=(with0, 40, 0.0, -0.0) "
            "stage3=(none, 5)",
        ),
        (
            Instruction.make(Opcode.ONLINE, size0=4, size1=8, dst_stride0=8, state_stride0=3),
            "online size=(4, 8) dst_stride=(8) state_stride=(3)",
        ),
        (
            Instruction.make(Opcode.CONVERT, dst_format=int(Format.INT8), divide=1, dst_zero=-3),
            "convert dst_format=int8 divide=1 dst_zero=-3",
        ),
    ],
)
def test_only_what_differs_from_the_default_is_written(instruction, text) -> None:
    assert instruction_text(instruction) == text


def test_a_tensor_shows_its_format_unless_it_is_fp32() -> None:
    lines = ['.tensor 0 "x" input (4, 4)', '.tensor 1 "w" constant bf16 (8)']
    text = '.program "p"\n.scratchpad 64\n' + "\n".join(lines) + "\n.core\nhalt\n"
    program = assemble(text)
    assert [tensor.format for tensor in program.tensors] == [Format.FP32, Format.BF16]
    assert disassemble(program) == text


def test_the_body_of_a_case_is_indented_like_that_of_a_loop() -> None:
    text = HEAD + "case parameter=0 low=0 high=4 level=i0\n  fill p0=1.0\nend level=i0\nhalt\n"
    assert disassemble(assemble(text)) == text


def test_comments_blanks_and_indentation_are_free() -> None:
    text = HEAD + "\n# note\n\t loop   trips = 2 level=i0 # twice\r\nend level = i0\nhalt"
    stream = assemble(text).streams[0]
    assert [word.opcode for word in stream] == [Opcode.LOOP, Opcode.END, Opcode.HALT]


def test_infinities_read_back() -> None:
    load = Instruction.make(Opcode.LOAD, pad=-math.inf)
    assert instruction_text(load) == "load tensor=0 pad=-inf"
    assert assemble(HEAD + "load pad=-inf").streams[0][0] == load


@pytest.mark.parametrize(
    ("line", "place", "reason"),
    [
        ("jump", (5, 1), "'jump' is no directive and no instruction"),
        ("load foo=3", (5, 6), "LOAD: no field 'foo'"),
        ("load size=(4) size=(4)", (5, 15), "LOAD: size is given twice"),
        ("load tensor=65536", (5, 13), "tensor = 65536 is not in 0 to 65535"),
        ("load tensor=x", (5, 13), "expected a whole number for tensor, found 'x'"),
        ("load tensor", (5, 12), "expected '=', found the end of the line"),
        ("load dst=[1 + 2*i0 + 3*i1 + 4*i2]", (5, 27), "dst has more than two loop terms"),
        ("load dst=[1 + 2*i15]", (5, 17), "loop i15 is above i14"),
        ("load dst=[1 + 2*x]", (5, 17), "'x' is not a loop"),
        ("load dst=[1 + 99999999@i0]", (5, 13), "dst_slot = 99999999 is not in"),
        ("load dst=[1 2]", (5, 13), r"expected '\+', '-' or '\]', found '2'"),
        ("load size=(1, 2, 3, 4, 5, 6)", (5, 11), "size has more than 5 values"),
        ("load at=(1, 2, 3, 4, 5, 6)", (5, 9), "at has more than 5 coordinates"),
        ("load pad=1e60", (5, 10), "pad = 1e.60 does not fit a float32"),
        ("unary fn=sine", (5, 10), "fn has no 'sine'; known: copy, relu"),
        ("halt ?1 ?2 ?3 ?4", (5, 15), "at most 3 waits"),
        ("halt !256", (5, 7), "semaphore 256 is not in 0 to 255"),
        ("halt $", (5, 6), r"unexpected '\$'"),
        (".core 0", (5, 7), "unexpected '0' after the end"),
        ('.program "q"', (5, 1), "a second .program"),
        (".tensor 5", (5, 9), "tensor 5 should be number 1"),
        ('.tensor 1 "y" weird (2)', (5, 15), "'weird' is not a role"),
        ('.tensor 1 "y" input (2, 0)', (5, 21), "extent below 1"),
        ('.tensor 1 "y" input fp8 (2)', (5, 21), r"'fp8' is not a format \(fp32, bf16"),
        ("chain stage0=(sum)", (5, 15), "stage0_kind has no 'sum'; known: none, unary"),
        ("chain stage0=(unary, add)", (5, 22), "stage0_fn has no 'add'; known: copy, relu"),
        ("chain stage0=(none, add)", (5, 21), "expected a whole number for stage0_fn"),
        ("chain stage0=(unary, copy, 1, 2, 3)", (5, 32), r"expected '\)', found ','"),
        ("gather hop=(1, 2, 3, 4, 5, 6)", (5, 12), "hop has more than 5 values"),
        ('.tensor 1 "\\q" input (2)', (5, 11), "Invalid"),
    ],
)
def test_an_error_names_line_column_and_reason(line, place, reason) -> None:
    with pytest.raises(ProgramError, match=rf"^line {place[0]}, column {place[1]}: .*{reason}"):
        assemble(HEAD + line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1, column 1: the text ends without .program"),
        ('.program "p"\n', "line 2, column 1: the text ends without .scratchpad"),
        ('.program "p"\n.scratchpad 4\n', "needs one credit table for each"),
        ("halt", "line 1, column 1: halt before the first .core"),
        (".credits (1)", "line 1, column 1: .credits before the first .core"),
    ],
)
def test_an_incomplete_text_is_refused(text, reason) -> None:
    with pytest.raises(ProgramError, match=reason):
        assemble(text)


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from('.core load size=(1,2) dst[+-*i0@] ?!"\n#_e9'), max_size=60))
def test_any_text_either_parses_or_is_refused_with_its_place(text) -> None:
    try:
        assemble(HEAD + text)
    except ProgramError as error:
        assert str(error).startswith("line ")
