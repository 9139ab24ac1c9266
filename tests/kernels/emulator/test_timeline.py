"""Each effect of the timing model, isolated by a small program with a closed-form answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.errors import ProgramError
from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Role
from autotune.kernels.emulator.engine import Loaded
from autotune.targets.emulator.target import EmulatorTarget
from tests.targets.machine_case import (
    PLAIN,
    counted,
    fill,
    load,
    loop,
    make,
    program,
    store,
    tensor,
)

DISPATCH, SETUP, BURST, MISS = 1, 20, 8, 30
X = tensor("x", 4096)
Y = tensor("y", 4096, role=Role.OUTPUT)


def matmul(m: int, n: int, k: int, **fields: int) -> Instruction:
    strides = {"a_m": k, "a_k0": 1, "b_k0": n, "b_n0": 1, "c_m": n, "c_n0": 1, "c_base": 2048}
    return make(Opcode.MATMUL, **{"m": m, "n0": n, "k0": k, **strides, **fields})


def test_a_load_takes_set_up_then_its_bursts_then_one_row() -> None:
    found = counted(load(0, 0, 256), tensors=(X,))
    assert found["cycles"] == DISPATCH + SETUP + 16 * BURST + MISS
    assert (found["dram_read_bursts"], found["dram_row_misses"], found["dram_row_hits"]) == (
        16,
        1,
        15,
    )
    assert (found["load_busy_cycles"], found["load_stall_row_cycles"]) == (SETUP + 16 * BURST, MISS)


def test_an_open_row_is_not_opened_again() -> None:
    found = counted(load(0, 0, 256), load(0, 0, 256), tensors=(X,))
    assert found["cycles"] == DISPATCH + 2 * (SETUP + 16 * BURST) + MISS


def test_rows_in_different_banks_open_side_by_side() -> None:
    column = make(Opcode.LOAD, tensor=0, size0=8, size1=16, dst_stride0=16, dst_stride1=1)
    found = counted(column, tensors=(tensor("x", 8, 256),))
    assert found["dram_row_misses"] == 8
    assert found["cycles"] == DISPATCH + SETUP + 8 * BURST + 2 * MISS


def test_rows_that_share_a_bank_close_each_other() -> None:
    wide = tensor("x", 3, 1024)
    row = make(Opcode.LOAD, tensor=0, size1=16, dst_stride1=1)
    found = counted(row, row.replace(coord0=1), row, tensors=(wide,))
    assert found["dram_row_misses"] == 3


@pytest.mark.parametrize(
    ("first", "elements", "bursts"), [(0, 16, 1), (15, 2, 2), (8, 16, 2), (1, 15, 1)]
)
def test_edges_of_a_run_count_whole_bursts(first: int, elements: int, bursts: int) -> None:
    assert counted(load(0, 0, elements, coord0=first), tensors=(X,))["dram_read_bursts"] == bursts


@pytest.mark.parametrize(("width", "bursts"), [(16, 8), (8, 8), (12, 10), (5, 8)])
def test_each_run_counts_its_own_bursts(width: int, bursts: int) -> None:
    """8 runs of ``width`` elements, 20 apart: 80 bytes, so that their place in a burst moves on."""
    want = sum((80 * i % 64 + 4 * width + 63) // 64 for i in range(8))
    part = make(Opcode.LOAD, tensor=0, size0=8, size1=width, dst_stride0=width, dst_stride1=1)
    assert counted(part, tensors=(tensor("x", 8, 20),))["dram_read_bursts"] == want
    assert want >= bursts


def test_contiguous_rows_are_one_run() -> None:
    whole = make(Opcode.LOAD, tensor=0, size0=8, size1=20, dst_stride0=20, dst_stride1=1)
    assert counted(whole, tensors=(tensor("x", 8, 20),))["dram_read_bursts"] == 10


def test_padding_reads_nothing() -> None:
    found = counted(load(0, 0, 80, coord0=-80), tensors=(X,))
    assert found["cycles"] == DISPATCH + SETUP + 80 // 8
    assert (found["dram_reads"], found["padding_bytes"]) == (0, 320)


def test_a_transposing_load_meets_bank_conflicts() -> None:
    found = counted(load(0, 0, 128, dst_stride0=8), tensors=(X,))
    assert found["cycles"] == DISPATCH + SETUP + 128
    assert found["load_stall_bank_cycles"] == 128 - 8 * BURST - MISS


def test_cores_share_the_channel() -> None:
    spec = replace(PLAIN, cores=2)
    found = counted(load(0, 0, 256), tensors=(X,), cores=2, spec=spec)
    assert found["cycles"] == DISPATCH + SETUP + 2 * 16 * BURST + MISS
    assert found["load_stall_channel_cycles"] == 16 * BURST + MISS


def test_latency_overlaps_a_transfer_of_another_unit() -> None:
    """The store's set-up passes while the load moves; then it finds the channel taken."""
    body = (fill(0, size4=64), load(0, 64, 64), store(1, 0, 64))
    found = counted(*body, tensors=(X, Y))
    begin = 2 + SETUP + MISS + 4 * BURST
    assert found["cycles"] == begin + MISS + 4 * BURST
    assert found["store_stall_channel_cycles"] == begin - (3 + SETUP)


def test_a_load_overtakes_a_store_that_waits() -> None:
    """The store comes first in the program, but its data does not."""
    body = (
        fill(0, size4=1200), matmul(4, 8, 100, signal0=1, b_base=400),
        store(1, 2048, 32, wait0=1), load(0, 3000, 64),
    )  # fmt: skip
    found = counted(*body, tensors=(X, Y))
    assert found["store_stall_channel_cycles"] == 0
    assert found["cycles"] == 2 + 5 + 110 + SETUP + MISS + 2 * BURST


@pytest.mark.parametrize(
    ("m", "n", "k", "folds"),
    [(4, 8, 7, 1), (10, 20, 7, 9), (1, 1, 1, 1), (5, 8, 30, 2), (4, 9, 3, 2)],
)
def test_folds_fill_stream_and_drain(m: int, n: int, k: int, folds: int) -> None:
    found = counted(fill(0, size4=1024), matmul(m, n, k, b_base=m * k))
    assert found["matrix_busy_cycles"] == 5 + folds * (k + 4 + 8 - 2)
    assert found["macs_useful"] == m * n * k
    assert found["macs_issued"] == folds * 4 * 8 * k


VECTOR = [
    (make(Opcode.UNARY, fn=int(UnaryFn.RELU), size4=64, dst_stride4=1, src_stride4=1), 1, 1),
    (make(Opcode.UNARY, fn=int(UnaryFn.EXP), size4=64, dst_stride4=1, src_stride4=1), 6, 1),
    (make(Opcode.UNARY, fn=int(UnaryFn.SQRT), size4=64, dst_stride4=1, src_stride4=1), 4, 1),
    (make(Opcode.UNARY, fn=int(UnaryFn.RELU), size4=64, dst_stride4=1, src_stride4=2), 1, 2),
    (make(Opcode.UNARY, fn=int(UnaryFn.RELU), size4=64, dst_stride4=1, src_stride4=8), 1, 8),
    (make(Opcode.UNARY, fn=int(UnaryFn.RELU), size4=64, dst_stride4=3, src_stride4=1), 1, 1),
    (make(Opcode.UNARY, fn=int(UnaryFn.EXP), size4=64, dst_stride4=1, src_stride4=4), 6, 4),
    (make(Opcode.BINARY, fn=int(BinaryFn.DIV), size4=64, dst_stride4=1, lhs_stride4=1), 4, 1),
    (make(Opcode.FMA, size4=64, dst_stride4=1, lhs_stride4=1, rhs_stride4=1), 1, 1),
    (make(Opcode.REDUCE, fn=int(ReduceFn.SUM), size4=64, src_stride4=1), 1, 1),
    (
        make(Opcode.REDUCE, fn=int(ReduceFn.SUM), size3=8, size4=8, src_stride3=8, src_stride4=1),
        1,
        1,
    ),
    (
        make(Opcode.REDUCE, fn=int(ReduceFn.SUM), size3=8, size4=8, src_stride3=1, src_stride4=8),
        1,
        8,
    ),
]


@pytest.mark.parametrize(("instruction", "passes", "ways"), VECTOR)
def test_passes_cost_their_class_and_their_conflicts(
    instruction: Instruction, passes: int, ways: int
) -> None:
    found = counted(fill(0, size4=1024), instruction)
    before = 3 + 1024 // 8
    assert found["cycles"] == DISPATCH + before + 3 + 8 * passes * ways
    assert found["vector_stall_bank_cycles"] == 8 * passes * (ways - 1)


def test_semaphores_put_units_in_a_row() -> None:
    body = (
        load(0, 0, 64, signal0=1),
        make(Opcode.UNARY, fn=0, size4=64, dst_stride4=1, src_stride4=1, wait0=1, signal0=2),
        store(1, 0, 64, wait0=2),
    )
    found = counted(*body, tensors=(X, Y))
    move = SETUP + 4 * BURST + MISS
    assert found["cycles"] == DISPATCH + move + (3 + 8) + move
    assert found["store_stall_operand_cycles"] == DISPATCH + move + (3 + 8) - 3
    assert found["vector_idle_cycles"] == move


def tiles(trips: int, buffers: int, k: int) -> tuple[Instruction, ...]:
    slot = {"dst_slot": 512, "dst_turn": 0} if buffers == 2 else {}
    turn = {"a_slot": 512, "a_turn": 0, "b_slot": 512, "b_turn": 0} if buffers == 2 else {}
    return loop(
        trips,
        load(0, 0, 64, wait0=2, signal0=1, **slot),
        matmul(4, 8, k, wait0=1, signal0=2, a_m=0, a_k0=0, b_k0=0, **turn),
    )


@pytest.mark.parametrize("k", [10, 100])
def test_double_buffering_overlaps_load_and_compute(k: int) -> None:
    move, multiply, trips = SETUP + 4 * BURST, 5 + k + 10, 9
    single = counted(*tiles(trips, 1, k), tensors=(X,), credits=(0, 0, 1))
    double = counted(*tiles(trips, 2, k), tensors=(X,), credits=(0, 0, 2))
    assert single["cycles"] == DISPATCH + MISS + trips * (move + multiply)
    if k == 10:
        assert double["cycles"] == DISPATCH + MISS + trips * move + multiply
    else:
        assert double["cycles"] == DISPATCH + MISS + move + trips * multiply


def test_loops_take_no_time_of_their_own() -> None:
    looped = counted(*loop(2, *loop(3, fill(), level=1)))
    flat = counted(*[fill()] * 6)
    assert looped["cycles"] == flat["cycles"] == DISPATCH + 6 * 4
    assert (looped["instructions"], looped["loop_trips"]) == (6, 2 + 6)


def test_loops_around_nothing_are_skipped() -> None:
    empty = loop(1 << 23, *loop(1 << 23, *loop(1 << 23, level=2), level=1))
    assert counted(*empty, fill())["cycles"] == DISPATCH + 4


def test_a_full_queue_holds_the_sequencer() -> None:
    """One load moves, four wait; the sixth is dispatched when the second starts."""
    found = counted(*[load(0, 0, 64)] * 6, tensors=(X,))
    second = DISPATCH + SETUP + 4 * BURST + MISS
    assert found["sequencer_full_cycles"] == second - 5
    assert found["sequencer_busy_cycles"] == 6


def test_the_sequencer_itself_can_wait() -> None:
    wait = make(Opcode.WAIT, unit=int(Unit.CONTROL), semaphore=1)
    found = counted(load(0, 0, 64, signal0=1), wait, fill(), tensors=(X,))
    moved = DISPATCH + SETUP + 4 * BURST + MISS
    assert found["sequencer_semaphore_cycles"] == moved - 1
    assert found["cycles"] == moved + 2 + 4


def test_wait_and_signal_words_work_like_the_fields() -> None:
    fields = counted(fill(signal0=1), store(0, 0, 8, wait0=1), tensors=(Y,))
    words = counted(
        fill(),
        make(Opcode.SIGNAL, unit=int(Unit.VECTOR), semaphore=1),
        make(Opcode.WAIT, unit=int(Unit.STORE), semaphore=1),
        store(0, 0, 8),
        tensors=(Y,),
    )
    assert fields["cycles"] == words["cycles"]
    for found, dispatches in ((fields, 2), (words, 3)):
        assert found["store_stall_operand_cycles"] == DISPATCH + 4 - dispatches
        assert found["store_stall_semaphore_cycles"] == 0


def test_a_deadlock_names_who_waits() -> None:
    case = program(load(0, 0, 64, wait0=2), store(1, 0, 64, wait0=1, signal0=2), tensors=(X, Y))
    with pytest.raises(
        ProgramError, match=r"deadlock.*instruction 0 \(LOAD\).*instruction 1 \(STORE\)"
    ):
        Loaded(case, PLAIN).execute(1.0)
    with pytest.raises(ProgramError, match="deadlock"):
        EmulatorTarget(PLAIN).time(case)


def test_a_program_that_never_ends_is_refused() -> None:
    body: tuple[Instruction, ...] = (fill(),)
    for level in (3, 2, 1, 0):
        body = loop(1 << 20, *body, level=level)
    with pytest.raises(ProgramError, match="lower the trips"):
        EmulatorTarget(PLAIN).time(program(*body))
