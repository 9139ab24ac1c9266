"""The verifier accepts a real program and names what is wrong with every broken one."""

from dataclasses import replace

import pytest

from autotune.errors import ProgramError
from autotune.isa.fields import NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.functions import ReduceFn, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.verifier.proof import verify
from tests.isa.isa_case import changed, golden, position, with_stream

LOAD, STORE, MATMUL = (position(golden(), op) for op in (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL))
LOAD_A, LOAD_B = (position(golden(), Opcode.LOAD, n) for n in (1, 2))
LOOP0, LOOP2 = position(golden(), Opcode.LOOP, 0), position(golden(), Opcode.LOOP, 2)
END0, END2 = position(golden(), Opcode.END, 2), position(golden(), Opcode.END, 0)
WAIT, SIGNAL = position(golden(), Opcode.WAIT), position(golden(), Opcode.SIGNAL)
HALT = Instruction.make(Opcode.HALT)


def refused(program: Program, reason: str, scratchpad_elements: int | None = None) -> None:
    with pytest.raises(ProgramError, match=reason):
        verify(program, scratchpad_elements)


def small(*stream: Instruction, elements: int = 64, credits: tuple[int, ...] = ()) -> Program:
    """A program around a few instructions; tensor 0 is read, tensor 1 written; both 8×8."""
    tensors = (DramTensor("x", (8, 8), Role.INPUT), DramTensor("y", (8, 8), Role.OUTPUT))
    return Program("small", tensors, (stream,), (credits,), elements)


def fill(base: int, size: int, **fields: int | float) -> Instruction:
    return Instruction.make(Opcode.FILL, dst_base=base, size0=size, dst_stride0=1, **fields)


def copy(dst: int, src: int, size: int, **fields: int) -> Instruction:
    words = {"dst_base": dst, "src_base": src, "size0": size, "dst_stride0": 1, "src_stride0": 1}
    return Instruction.make(Opcode.UNARY, **(words | fields))


def loop(level: int, trips: int) -> Instruction:
    return Instruction.make(Opcode.LOOP, level=level, trips=trips)


def end(level: int) -> Instruction:
    return Instruction.make(Opcode.END, level=level)


def test_a_double_buffered_matmul_is_accepted() -> None:
    verify(golden())
    verify(golden(), scratchpad_elements=5184)


def test_a_program_that_needs_more_than_the_target_has_is_refused() -> None:
    refused(golden(), "needs 5184 scratchpad elements, the target has 5183", 5183)


def test_a_refusal_names_program_core_instruction_and_opcode() -> None:
    program = replace(golden(), credits=((0, 0, 2, 0, 1),) * 2, streams=(golden().streams[0],) * 2)
    verify(program)
    stream = list(program.streams[1])
    stream[LOAD_A] = stream[LOAD_A].replace(tensor=9)
    broken = replace(program, streams=(program.streams[0], tuple(stream)))
    refused(broken, rf"^matmul: core 1, instruction {LOAD_A} \(LOAD\): tensor 9 of 4$")


MUTATIONS: dict[str, tuple[int, dict[str, int | float], str]] = {
    "a destination beyond the scratchpad": (LOAD, {"dst_base": 5121}, "dst reaches .* 5184;"),
    "a size that runs beyond the scratchpad": (LOAD, {"size0": 65}, "dst reaches"),
    "a stride that runs beyond the scratchpad": (LOAD, {"dst_stride0": 2}, "dst reaches"),
    "a second slot beyond the scratchpad": (LOAD_A, {"dst_slot": 5000}, "dst reaches"),
    "a loop step beyond the scratchpad": (MATMUL, {"bias_step0": 64}, "bias reaches .* 5215;"),
    "a loop step below the scratchpad": (MATMUL, {"bias_step0": -6000}, "bias reaches .* -880 to"),
    "rows of a matmul beyond the scratchpad": (MATMUL, {"m": 256}, "reaches"),
    "a reduction of a matmul beyond the scratchpad": (MATMUL, {"k2": 9, "a_k2": 999}, "a reaches"),
    "columns of a matmul beyond the scratchpad": (MATMUL, {"n1": 99, "c_n1": 32}, "c reaches"),
    "a bias vector beyond the scratchpad": (MATMUL, {"bias_base": 5130}, "bias reaches"),
    "an unknown tensor": (LOAD, {"tensor": 4}, "tensor 4 of 4"),
    "a load from an output never stored": (LOAD_A, {"tensor": 3}, "loads output 'c' before"),
    "a store to an input": (STORE, {"tensor": 0}, "stores to 'a', which is input"),
    "a store to a constant": (STORE, {"tensor": 1}, "stores to 'b', which is constant"),
    "a size in a dimension the tensor lacks": (LOAD, {"size1": 2}, "rank 1; dimensions from 1"),
    "a coordinate in a dimension the tensor lacks": (LOAD_A, {"coord2": 1}, "rank 2; dimensions"),
    "a step in a dimension the tensor lacks": (LOAD_A, {"step4": 1}, "rank 2; dimensions"),
    "an empty rectangle": (LOAD_A, {"size4": 0}, "an extent is 0"),
    "an empty matmul": (MATMUL, {"k1": 0}, "an extent is 0"),
    "an address level that does not enclose": (LOAD, {"dst_level0": 0}, "dst_level0 0 is not a"),
    "a turn that does not enclose": (STORE, {"src_turn": 2}, "src_turn 2 is not a loop around it"),
    "a coordinate level that does not enclose": (STORE, {"level1": 2}, "level1 2 is not a loop"),
    "a k_level that does not enclose": (MATMUL, {"k_level": 3}, "k_level 3 is not a loop"),
    "a missing k_level": (MATMUL, {"k_level": NO_LEVEL}, "k_level, which names no loop"),
    "an unknown accumulate code": (MATMUL, {"accumulate": 3}, "accumulate 3 is not one of"),
    "an unknown epilogue code": (MATMUL, {"epilogue": 3}, "epilogue 3 is not one of"),
    "an epilogue function the unit lacks": (MATMUL, {"fn": 5}, r"fn 5 is not one of \[0, 1, 2, 3"),
    "an unknown bias axis": (MATMUL, {"bias_axis": 3}, r"bias_axis 3 is not one of \[0, 1, 2\]"),
    "accumulation onto what was never written": (
        MATMUL, {"accumulate": int(When.ALWAYS)}, "c reads elements 4096 to 5119, which nothing"),
    "an operand that was never loaded": (LOAD_B, {"dst_base": 0}, "b reads elements 2048 to 3071, which nothing"),
    "a NaN scalar": (MATMUL, {"p1": float("nan")}, "p1 is NaN"),
    "a NaN padding": (LOAD, {"pad": float("nan")}, "pad is NaN"),
    "a loop without trips": (LOOP0, {"trips": 0}, "0 trips"),
    "a loop level that skips one": (LOOP2, {"level": 3}, "level 3 inside of 2 loops"),
    "a loop level that repeats one": (LOOP2, {"level": 1}, "level 1 inside of 2 loops"),
    "an end that closes another loop": (END2, {"level": 1}, "level 1 closes the loop or case of level 2"),
    "a wait of no queue": (WAIT, {"unit": 5}, r"unit 5 is not one of \[0, 1, 2, 3, 4\]"),
    "a wait for no semaphore": (WAIT, {"semaphore": 0}, "semaphore 0 means none"),
    "a signal of no queue": (SIGNAL, {"unit": 7}, "unit 7 is not"),
    "a wait for what nothing signals": (WAIT, {"semaphore": 7}, "7, which nothing .* deadlock"),
    "a wait for what is signalled later": (LOAD_A, {"wait0": 3}, "nothing .* deadlock"),
    "a wait that is gone": (MATMUL, {"wait0": 0}, r"changes semaphore 1 by \+1 per trip"),
    "a signal that is gone": (STORE, {"signal0": 0}, "changes semaphore 4 by -1 per trip"),
    "a signal too many": (LOAD, {"signal1": 9}, "semaphore 9 ends with 1.* a signal is lost"),
    "a signal to another semaphore": (SIGNAL, {"semaphore": 6}, "semaphore 3"),
    "a semaphore that two queues take": (
        STORE, {"wait1": 2, "signal1": 2}, "the STORE queue waits for .* 2, which the LOAD queue"),
    "a wait on a control instruction": (LOOP0, {"wait0": 2}, "use WAIT or SIGNAL"),
    "a signal on HALT": (len(golden().streams[0]) - 1, {"signal0": 2}, "HALT waits for or signals"),
}  # fmt: skip


@pytest.mark.parametrize("claim", MUTATIONS)
def test_one_changed_field_is_refused(claim) -> None:
    at, fields, reason = MUTATIONS[claim]
    refused(changed(golden(), at, **fields), rf"instruction \d+ \(\w+\): .*{reason}")


def test_padding_outside_of_a_tensor_is_accepted() -> None:
    verify(changed(golden(), LOAD_A, coord0=-100, coord1=1000))
    verify(changed(golden(), STORE, coord0=-4))


@pytest.mark.parametrize("missing", [LOOP0, LOOP2, END0, END2, len(golden().streams[0]) - 1])
def test_a_missing_loop_end_or_halt_is_refused(missing) -> None:
    stream = list(golden().streams[0])
    del stream[missing]
    refused(
        with_stream(golden(), *stream), "level|open at HALT|without a LOOP|does not end|not a loop"
    )


def test_halt_in_the_middle_is_refused() -> None:
    refused(small(HALT, HALT), r"instruction 0 \(HALT\): HALT before the end")


def test_an_empty_stream_is_refused() -> None:
    refused(small(), "does not end with HALT")


def test_loops_nest_to_the_limit_and_no_deeper() -> None:
    for depth, accepted in ((14, True), (15, False)):
        levels = [min(level, 15) for level in range(depth)]
        nest = [*(loop(n, 1) for n in levels), *(end(n) for n in reversed(levels)), HALT]
        if accepted:
            verify(small(*nest))
        else:
            refused(small(*nest), "nested deeper than 14 loops and cases")


def test_a_tensor_table_beyond_the_field_is_refused() -> None:
    def table(count: int) -> Program:
        tensors = (DramTensor(f"x{number}", (1,), Role.INPUT) for number in range(count))
        return replace(small(HALT), tensors=tuple(tensors))

    verify(table(1024))
    refused(table(1025), "1025 tensors; .* at most 1024")


def test_tensors_beyond_the_address_space_are_refused() -> None:
    def sized(*shape: int) -> Program:
        return replace(small(HALT), tensors=(DramTensor("x", shape, Role.INPUT, Format.BF16),))

    verify(sized(1 << 40, 1 << 5))
    for shape in ((1 << 40, 1 << 6), (1 << 32,) * 5, (1 << 90,)):
        refused(sized(*shape), "bytes; DRAM has 70368744177664")


def test_a_negative_scratchpad_is_refused() -> None:
    refused(small(HALT, elements=-1), "-1 scratchpad elements")


@pytest.mark.parametrize(
    ("opcode", "field"), [(Opcode.UNARY, "fn"), (Opcode.BINARY, "fn"), (Opcode.REDUCE, "fn")]
)
def test_an_unknown_vector_function_is_refused(opcode, field) -> None:
    refused(small(fill(0, 4), Instruction.make(opcode, **{field: 63}), HALT), "fn 63 is not one of")


def test_a_bias_is_only_read_where_the_epilogue_applies() -> None:
    parts = {"a_base": 0, "b_base": 1, "c_base": 2, "bias_base": 63}
    ends = [Instruction.make(Opcode.MATMUL, epilogue=n, bias_axis=1, m=9, **parts) for n in (0, 1)]
    verify(small(fill(0, 2), ends[0], HALT))
    refused(small(fill(0, 2), ends[1], HALT), "bias reaches elements 63 to 71")


def test_fused_multiply_add_and_accumulating_reduction_read_their_destination() -> None:
    fma = Instruction.make(Opcode.FMA, dst_base=8)
    refused(small(fill(0, 4), fma, HALT), "dst reads elements 8 to 8")
    verify(small(fill(0, 4), fill(8, 1), fma, HALT))
    for accumulate in (0, 1):
        reduce = Instruction.make(
            Opcode.REDUCE, fn=int(ReduceFn.MAX), dst_base=8, accumulate=accumulate
        )
        if accumulate:
            refused(small(fill(0, 4), reduce, HALT), "dst reads")
        else:
            verify(small(fill(0, 4), reduce, HALT))


def test_a_mask_needs_no_written_destination() -> None:
    verify(small(Instruction.make(Opcode.MASK, dst_base=3), HALT))


def test_steps_on_the_same_loop_add_up() -> None:
    moves = {"dst_step0": 40, "dst_level0": 0, "dst_step1": -40, "dst_level1": 0}
    verify(small(loop(0, 9), fill(60, 4, **moves), end(0), HALT))


def test_a_read_of_what_a_later_trip_would_write_first_is_refused() -> None:
    body = copy(8, 0, 4), fill(0, 4)
    refused(small(loop(0, 3), *body, end(0), HALT), "src reads elements 0 to 3, which nothing")


def test_a_read_of_what_the_previous_trip_wrote_is_accepted() -> None:
    walk = {"dst_step0": 4, "dst_level0": 0, "src_step0": 4, "src_level0": 0}
    verify(small(fill(0, 4), loop(0, 5), copy(4, 0, 4, **walk), end(0), HALT))


def test_a_read_that_no_trip_supplies_is_refused_at_the_end_of_the_loop() -> None:
    walk = {"src_step0": 4, "src_level0": 0}
    program = small(fill(0, 4), loop(0, 5), copy(40, 0, 4, **walk), end(0), HALT)
    refused(program, r"instruction 2 \(UNARY\): src reads element 19, which nothing before it or")


@pytest.mark.parametrize("credits", [(0, 256), (0, -1), (1,)])
def test_impossible_credits_are_refused(credits) -> None:
    refused(small(HALT, credits=credits), "core 0: semaphore")


def test_a_count_above_255_is_refused() -> None:
    signal = Instruction.make(Opcode.SIGNAL, unit=int(Unit.LOAD), semaphore=1)
    refused(small(*[signal] * 256, HALT), r"instruction 255 \(SIGNAL\): semaphore 1 goes above 255")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((), "unknown opcode in an empty instruction"),
        ((99,), "unknown opcode 99"),
        ((True,), "unknown opcode True"),
        ((0, 0), "2 values for 7 fields"),
        ((0, 0, 0, 0, 0, 0, 0.0), "signal2 = 0.0 is float, not int"),
        ((0, 0, 0, 0, 0, 0, 256), "signal2 = 256 is not in 0 to 255"),
        ((0, 0, 0, 0, 0, 0, 10**400), "signal2 = 1.* is not in 0 to 255"),
        ((*fill(0, 1).values[:-1], 1e300), "p0 = 1e.300 does not fit a float32"),
        ((*fill(0, 1).values[:-1], 1), "p0 = 1 is int, not float"),
    ],
)
def test_values_that_no_word_can_hold_are_refused(values, reason) -> None:
    refused(small(Instruction(values), HALT), reason)
