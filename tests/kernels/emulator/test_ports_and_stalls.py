"""Where waiting cycles go: ports, causes of stalls, forwarding and dispatch, each in closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.isa.functions import UnaryFn
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Role
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
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
X, Y = tensor("x", 4096), tensor("y", 4096, role=Role.OUTPUT)
MOVE = SETUP + 4 * BURST
"""Cycles of a load of 64 elements from open rows."""


def matmul(m: int, n: int, k: int, **fields: int) -> Instruction:
    """Of whatever the scratchpad holds; the result lies at 2048."""
    return make(Opcode.MATMUL, **{"m": m, "n0": n, "k0": k, "c_base": 2048, "c_m": n, "c_n0": 1, **fields})  # fmt: skip


def unary(elements: int, fn: UnaryFn = UnaryFn.RELU, **fields: int) -> Instruction:
    return make(Opcode.UNARY, **{"fn": int(fn), "size4": elements, "src_base": 2048, "src_stride4": 1, "dst_base": 2048, "dst_stride4": 1, **fields})  # fmt: skip


def with_ports(ports: int, spec: HardwareSpec = PLAIN) -> HardwareSpec:
    return replace(spec, scratchpad=replace(spec.scratchpad, ports=ports))


PORTS = (1, 2, 3, 4)
FIRST = (load(0, 0, 64), fill(64, size4=80), matmul(4, 8, 65, a_base=64, b_base=64))
"""One instruction of each of three units, of 82, 13 and 80 cycles; nothing orders them."""
LOADED, FILLED, MULTIPLIED = MOVE + MISS, 3 + 10, 5 + 75


@pytest.mark.parametrize("ports", PORTS)
def test_units_without_a_port_wait_for_one(ports: int) -> None:
    """They take it in the order of units: the product goes before the fill that came before it."""
    found = counted(*FIRST, spec=with_ports(ports), tensors=(X,))
    loaded = DISPATCH + LOADED
    multiply = {1: loaded, 2: 2 + FILLED}.get(ports, 3)
    filling = loaded + MULTIPLIED if ports == 1 else 2
    assert found["load_stall_port_cycles"] == 0
    assert found["matrix_stall_port_cycles"] == multiply - 3
    assert found["vector_stall_port_cycles"] == filling - 2
    assert found["cycles"] == max(loaded, filling + FILLED, multiply + MULTIPLIED)


def test_one_port_makes_units_take_turns() -> None:
    """Whatever the order: the machine is busy with one of them at every moment."""
    body = (fill(), *loop(4, load(0, 8, 64), fill(512), matmul(4, 8, 16), store(1, 0, 8)))
    found = counted(*body, spec=with_ports(1), tensors=(X, Y), elements=4096)
    spent = sum(
        found.get(f"{unit}_{part}_cycles", 0)
        for unit in ("load", "store", "matrix", "vector")
        for part in ("busy", "stall_row", "stall_bank", "stall_channel")
    )
    assert found["cycles"] == DISPATCH + spent


def test_ports_of_one_core_do_not_hold_another() -> None:
    one = counted(fill(), fill(), spec=with_ports(1))
    two = counted(fill(), fill(), spec=replace(with_ports(1), cores=2), cores=2)
    assert two["cycles"] == one["cycles"]
    assert two["vector_stall_port_cycles"] == one["vector_stall_port_cycles"] == 0


def test_words_that_wait_and_signal_need_no_port() -> None:
    """The signal goes out while the load holds the only port."""
    signal = make(Opcode.SIGNAL, unit=int(Unit.STORE), semaphore=1)
    wait = make(Opcode.WAIT, unit=int(Unit.CONTROL), semaphore=1)
    found = counted(load(0, 0, 64), signal, wait, spec=with_ports(1), tensors=(X,))
    assert found["store_stall_port_cycles"] == 0
    assert found["sequencer_semaphore_cycles"] == 0


def pipeline(trips: int, buffers: int, k: int) -> dict[str, int]:
    """Load, then multiply what was loaded; the credits are the free buffers."""
    slot = {"dst_slot": 512, "dst_turn": 0} if buffers == 2 else {}
    turn = {"a_slot": 512, "a_turn": 0, "b_slot": 512, "b_turn": 0} if buffers == 2 else {}
    body = loop(
        trips,
        load(0, 0, 64, wait0=2, signal0=1, **slot),
        matmul(4, 8, k, wait0=1, signal0=2, **turn),
    )
    return counted(*body, tensors=(X,), credits=(0, 0, buffers))


@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("buffers", [1, 2])
def test_a_pipeline_stalls_for_data_or_for_room(buffers: int, k: int) -> None:
    multiply, trips = 5 + k + 10, 9
    found = pipeline(trips, buffers, k)
    last_load = found["load_busy_cycles"] + found["load_stall_row_cycles"] + DISPATCH
    assert found["load_busy_cycles"] == trips * MOVE
    assert found["matrix_busy_cycles"] == trips * multiply
    if buffers == 1:
        full, operand = (trips - 1) * multiply, trips * MOVE + MISS - DISPATCH
    elif multiply > MOVE:  # the last load waits until two products before it are done
        full, operand = (trips - 2) * (multiply - MOVE), MOVE + MISS - DISPATCH
    else:
        full, operand = 0, last_load - 2 - (trips - 1) * multiply
    assert found["load_stall_full_cycles"] == full
    assert found["matrix_stall_operand_cycles"] == operand
    for cause in ("load_stall_operand", "load_stall_semaphore", "matrix_stall_full"):
        assert found.get(f"{cause}_cycles", 0) == 0


def test_a_wait_for_neither_data_nor_room_is_the_semaphores_own() -> None:
    """The load overwrites nothing that the fill touches: the order is the program's whim."""
    found = counted(fill(0, signal0=1), load(0, 64, 64, wait0=1), tensors=(X,))
    assert found["load_stall_semaphore_cycles"] == DISPATCH + 4 - 2
    assert found["load_stall_full_cycles"] == 0


def test_a_semaphore_of_several_signals_stands_for_what_one_of_them_does() -> None:
    """The store reads what the load overwrites, the fill before it touches neither."""
    body = (
        fill(0, size4=64), fill(3000, signal0=1), store(1, 0, 64, signal0=1),
        load(0, 0, 64, wait0=1, wait1=1),
    )  # fmt: skip
    found = counted(*body, tensors=(X, Y))
    assert found["load_stall_full_cycles"] == 3 + MOVE + MISS - 4
    assert found["load_stall_semaphore_cycles"] == 0


def test_what_is_dispatched_late_stalls_on_dispatch() -> None:
    slow = replace(PLAIN, control=replace(PLAIN.control, dispatch_cycles=9))
    found = counted(*[fill()] * 5, spec=slow)
    assert found["vector_stall_dispatch_cycles"] == 9 + 4 * (9 - 4)
    assert found["cycles"] == 5 * 9 + 4


def test_the_parts_of_a_transfer_have_names() -> None:
    """A load opens a row; the store behind it turns the channel and opens its own."""
    dram = replace(PLAIN.dram, column_cycles=11, turnaround_cycles=7, precharge_cycles=5)
    body = (load(0, 0, 64, signal0=1), store(1, 0, 64, wait0=1), load(0, 0, 16, coord0=1024))
    found = counted(*body, spec=replace(PLAIN, dram=dram), tensors=(X, Y))
    assert found["load_stall_row_cycles"] == MISS + MISS + 5
    assert found["store_stall_row_cycles"] == MISS + 5
    assert found["load_stall_column_cycles"] == 2 * 11
    assert found["store_stall_column_cycles"] == 11
    assert found["store_stall_turnaround_cycles"] == 7
    assert found["dram_turnaround_cycles"] == 7


FOLD, OUTPUTS = 100 + 4 + 8 - 2, 64
PRODUCT = 5 + 2 * FOLD
"""8×8 with a reduction of 100 on the 4×8 array: two folds."""


def forwarding(forward: int, consumer: Instruction, *rest: Instruction) -> dict[str, int]:
    body = (
        matmul(8, 8, 100, a_base=0, b_base=0, signal0=1, forward=forward),
        consumer.replace(wait0=1),
        *rest,
    )
    return counted(fill(0, size4=8), *body, tensors=(Y,))


def test_a_short_consumer_of_a_forwarding_product_ends_with_it() -> None:
    begin, work = 2, 3 + OUTPUTS // 8
    plain, forwarded = (forwarding(f, unary(OUTPUTS)) for f in (0, 1))
    assert plain["cycles"] == begin + PRODUCT + work
    assert forwarded["cycles"] == begin + PRODUCT
    filled = DISPATCH + 4
    assert plain["vector_stall_operand_cycles"] == begin + PRODUCT - filled
    assert forwarded["vector_stall_operand_cycles"] == begin + PRODUCT - work - filled
    assert plain["vector_busy_cycles"] == forwarded["vector_busy_cycles"]


def test_a_long_consumer_gains_what_comes_after_the_first_results() -> None:
    """exp of 64 elements, and bank conflicts by a stride of 8: 3 + 8 · 6 · 8 cycles."""
    exp = unary(OUTPUTS, UnaryFn.EXP, dst_base=0, dst_stride4=8)
    plain, forwarded = (forwarding(f, exp) for f in (0, 1))
    work = 3 + OUTPUTS // 8 * 6 * 8
    assert work > FOLD
    assert plain["cycles"] == 2 + PRODUCT + work
    assert forwarded["cycles"] == 2 + 5 + FOLD + work == plain["cycles"] - FOLD


def test_a_store_of_a_forwarding_product_ends_no_earlier_either() -> None:
    short = store(0, 2048, 8)
    plain, forwarded = (forwarding(f, short) for f in (0, 1))
    assert plain["cycles"] == 2 + PRODUCT + SETUP + MISS + BURST
    assert forwarded["cycles"] == 2 + PRODUCT
    assert forwarded["store_stall_operand_cycles"] == 5 + FOLD + 2 - 3 + (
        FOLD - SETUP - MISS - BURST
    )


def test_a_load_that_takes_the_place_of_a_forwarding_product_waits_for_room() -> None:
    """All of the product's reads are done when it is, so the load ends no earlier either."""
    taker = load(0, 2048, 16, wait0=1)
    body = (fill(0, size4=8), matmul(8, 8, 100, signal0=1, forward=1), taker)
    found = counted(*body, tensors=(X,))
    assert found["cycles"] == 2 + PRODUCT
    spent = SETUP + MISS + BURST
    assert found["load_stall_full_cycles"] == 2 + PRODUCT - spent - 3
    assert found["load_idle_cycles"] == 0


def test_what_comes_behind_the_consumer_is_not_held() -> None:
    behind = fill(3000, size4=8)
    assert forwarding(1, unary(OUTPUTS), behind)["cycles"] == 2 + PRODUCT + 4


@pytest.mark.parametrize(("dataflow", "folds_before"), [("os", 1), ("ws", 3), ("is", 3)])
def test_first_results_leave_when_their_whole_reduction_is_done(
    dataflow: str, folds_before: int
) -> None:
    """12 deep makes three blocks of the 4 rows in ws and is; os keeps the sums in place."""
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, dataflow=dataflow))
    body = (
        fill(0, size4=8),
        matmul(16, 16, 12, signal0=1, forward=1),
        unary(1600, dst_base=0, wait0=1, src_stride4=0),
    )
    fold = {"os": 12 + 10, "ws": 16 + 14, "is": 16 + 14}[dataflow]
    found = counted(*body, spec=spec)
    assert found["cycles"] == 2 + 5 + folds_before * fold + 3 + 1600 // 8


CASE = (make(Opcode.CASE, parameter=1, low=5, high=9, level=1), fill(8), fill(16),
        make(Opcode.END, level=1))  # fmt: skip


@pytest.mark.parametrize(("value", "entered"), [(4, 0), (5, 5), (9, 5), (10, 0), (-(2**31), 0)])
def test_a_case_takes_the_time_of_its_body_alone(value: int, entered: int) -> None:
    dispatched = program(*loop(5, fill(), *CASE))
    execution = EmulatorTarget(PLAIN).time(dispatched, {1: value})
    body = CASE[1:3] if entered else ()
    plain = counted(*loop(5, fill(), *body))
    assert execution.counters["cases_entered"] == entered
    assert execution.cycles == plain["cycles"] == DISPATCH + (5 + 2 * entered) * 4
    assert execution.energy_fj == plain["energy_fj"]


def test_a_case_in_a_case_runs_when_both_are_entered() -> None:
    inner = make(Opcode.CASE, parameter=2, low=0, high=0, level=1)
    ends = make(Opcode.END, level=1), make(Opcode.END)
    outer = make(Opcode.CASE, parameter=1, low=0, high=0)
    case = program(outer, fill(), inner, fill(), ends[0], ends[1])
    target = EmulatorTarget(PLAIN)
    found = [target.time(case, {1: a, 2: b}).counters["vector_instructions"]
             for a, b in ((0, 0), (0, 1), (1, 0))]  # fmt: skip
    assert found == [2, 1, 0]
