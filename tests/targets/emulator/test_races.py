"""The race check reports accesses that no semaphores order, with both instructions, and no others."""

from __future__ import annotations

import pytest

from autotune.errors import ProgramError
from autotune.isa.assembly import instruction_text
from autotune.isa.formats import Format
from autotune.isa.functions import StageKind, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, Role
from autotune.targets.emulator import races
from autotune.targets.emulator.races import Place, Race, find_races
from tests.targets.emulator.race_case import assert_as_the_oracle, found
from tests.targets.machine_case import fill, load, loop, make, program, store, tensor

X = tensor("x", 64)
Y = tensor("y", 64, role=Role.OUTPUT)
TENSORS = (X, Y)
PAD = races.SCRATCHPAD


def case(*body: Instruction, credits: tuple[int, ...] = (), **rest: object) -> Program:
    return program(*body, tensors=TENSORS, credits=credits, **rest)


def cores(*streams: tuple[Instruction, ...], tensors: tuple = TENSORS) -> Program:
    halt = make(Opcode.HALT)
    return Program(
        "cores", tensors, tuple((*s, halt) for s in streams), ((),) * len(streams), 4096
    )  # fmt: skip


def copy(src: int, dst: int, n: int = 8, **fields: int) -> Instruction:
    strides = {"dst_stride4": 1, "src_stride4": 1}
    return make(Opcode.UNARY, src_base=src, dst_base=dst, size4=n, **strides, **fields)


def wait(unit: Unit, semaphore: int) -> Instruction:
    return make(Opcode.WAIT, unit=int(unit), semaphore=semaphore)


def signal(unit: Unit, semaphore: int) -> Instruction:
    return make(Opcode.SIGNAL, unit=int(unit), semaphore=semaphore)


def test_both_instructions_are_reported_in_one_line() -> None:
    program = case(load(0, 16, 8), store(1, 20, 2))
    (race,) = find_races(program)
    texts = [instruction_text(i) for i in program.streams[0]]
    assert race == Race("RAW", PAD, 0, Place(0, 0, texts[0]), Place(0, 1, texts[1]), 20)
    assert str(race) == (
        f"RAW race on scratchpad, word 20: core 0, instruction 1 ({texts[1]}) reads what is "
        f"written by core 0, instruction 0 ({texts[0]}); no semaphore orders them"
    )


LOADED = load(0, 0, 8, signal0=1)


@pytest.mark.parametrize(
    ("kind", "memory", "prologue", "first", "second"),
    [
        ("RAW", PAD, (), load(0, 0, 8), store(1, 7, 8)),
        ("WAR", PAD, (), store(1, 0, 8), load(0, 7, 8)),
        ("WAW", PAD, (), load(0, 0, 8), fill(7)),
        ("RAW", "y", (fill(0, signal0=1),), store(1, 0, 8, wait0=1), load(1, 32, 8)),
        (
            "WAR",
            "y",
            (fill(0, signal0=1), store(1, 0, 8, wait0=1, signal0=2)),
            load(1, 32, 8, wait0=2),
            store(1, 0, 8),
        ),
    ],
)
def test_a_semaphore_between_two_accesses_is_what_keeps_them_from_racing(
    kind: str,
    memory: str,
    prologue: tuple[Instruction, ...],
    first: Instruction,
    second: Instruction,
) -> None:
    fills = (fill(0, size4=64), *_to_all(Unit.VECTOR))
    here = len(fills) + len(prologue)
    raced = assert_as_the_oracle(case(*fills, *prologue, first, second))
    assert raced == {(kind, memory, (0, here), (0, here + 1))}
    free = "wait1" if second.get("wait0") else "wait0"
    ordered = case(*fills, *prologue, first.replace(signal1=9), second.replace(**{free: 9}))
    assert assert_as_the_oracle(ordered) == set()


def _to_all(unit: Unit) -> list[Instruction]:
    """What a unit did so far is done before anything else."""
    others = [u for u in Unit if u not in (unit, Unit.CONTROL)]
    return [word for u in others for word in (signal(unit, 20 + u), wait(u, 20 + u))]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("WAW", (fill(0, signal0=1), store(1, 0, 8, wait0=1)), (fill(0, signal0=1), store(1, 0, 8, wait0=1, coord0=7))),
        ("RAW", (fill(0, signal0=1), store(1, 0, 8, wait0=1)), (fill(0, signal0=1), store(1, 0, 8, wait0=1, coord0=8, signal0=2), load(1, 16, 8, wait0=2))),
        ("WAR", (fill(0, signal0=1), store(1, 0, 8, wait0=1, signal0=2), load(1, 16, 9, wait0=2)), (fill(0, signal0=1), store(1, 0, 8, wait0=1, coord0=8))),
    ],
)  # fmt: skip
def test_nothing_orders_two_cores_in_dram(
    kind: str, first: tuple[Instruction, ...], second: tuple[Instruction, ...]
) -> None:
    both = cores(first, second)
    assert assert_as_the_oracle(both) == {(kind, "y", (0, len(first) - 1), (1, len(second) - 1))}
    assert find_races(cores(first)) == find_races(cores(second)) == ()


def test_cores_that_store_apart_and_read_the_same_input_do_not_race() -> None:
    def part(first: int) -> tuple[Instruction, ...]:
        return (
            load(0, 0, 8, signal0=1),
            store(1, 0, 8, coord0=first, wait0=1, signal0=2),
            load(1, 16, 8, coord0=first, wait0=2),
        )

    assert assert_as_the_oracle(cores(part(0), part(8), part(16))) == set()


def test_a_third_core_meets_what_the_first_one_read() -> None:
    first = (fill(0, signal0=1), store(1, 0, 8, wait0=1, signal0=2), load(1, 16, 16, wait0=2))
    own = tuple(i.replace(coord0=32) if i.opcode is not Opcode.FILL else i for i in first)
    last = (fill(0, signal0=1), store(1, 0, 8, coord0=8, wait0=1))
    assert assert_as_the_oracle(cores(first, own, last)) == {("WAR", "y", (0, 2), (2, 1))}


@pytest.mark.parametrize(("second", "races"), [(4, False), (2, True)])
def test_narrow_elements_race_by_the_words_that_hold_them(second: int, races: bool) -> None:
    y = tensor("y", 8, role=Role.OUTPUT, format=Format.INT8)
    x = tensor("x", 8, format=Format.INT8)

    def part(first: int, n: int) -> tuple[Instruction, ...]:
        form = {"format": int(Format.INT8), "coord0": first}
        return load(0, 0, n, **form, signal0=1), store(1, 0, n, **form, wait0=1)

    program = cores(part(0, 2), part(second, 2), tensors=(x, y))
    assert bool(assert_as_the_oracle(program)) is races
    for race in find_races(program):
        assert race.element == 0


def test_order_passes_on_through_a_third_unit() -> None:
    body = (load(0, 0, 8, signal0=1), fill(32, wait0=1, signal0=2), store(1, 0, 8, wait0=2))
    assert assert_as_the_oracle(case(*body)) == set()


def test_a_wait_of_the_sequencer_orders_all_that_it_dispatches_later() -> None:
    body = (load(0, 0, 8, signal0=1), wait(Unit.CONTROL, 1), fill(0), store(1, 0, 8))
    assert assert_as_the_oracle(case(*body)) == {("RAW", PAD, (0, 2), (0, 3))}


def double_buffered(buffers: int, slot: int = 8) -> Program:
    """Loads run ahead of the stores by as many trips as there are credits."""
    where = {"slot": slot, "turn": 0}
    into = {f"dst_{name}": value for name, value in where.items()}
    outof = {f"src_{name}": value for name, value in where.items()}
    return case(
        *loop(
            3,
            load(0, 0, 8, **into, wait0=1, signal0=2),
            store(1, 0, 8, **outof, wait0=2, signal0=1),
        ),
        credits=(0, buffers),
    )  # fmt: skip


@pytest.mark.parametrize(("buffers", "slot", "races"), [(2, 8, 0), (2, 7, 1), (3, 8, 1), (1, 0, 0)])
def test_buffers_in_turns_hold_as_many_trips_as_there_are(
    buffers: int, slot: int, races: int
) -> None:
    """With slots that overlap, or a credit too many, a load overwrites what a store still reads."""
    got = assert_as_the_oracle(double_buffered(buffers, slot))
    assert got == {("WAR", PAD, (0, 2), (0, 1))} if races else got == set()


@pytest.mark.parametrize(("value", "races"), [(2, False), (3, True), (7, True), (8, False)])
def test_a_case_races_only_when_it_is_entered(value: int, races: bool) -> None:
    begin = make(Opcode.CASE, parameter=5, low=3, high=7, level=0)
    body = case(load(0, 0, 8), begin, fill(0), make(Opcode.END, level=0))
    assert bool(assert_as_the_oracle(body, {5: value})) is races
    with pytest.raises(ProgramError, match=r"parameter 5.*pass parameters=\{5: …\}"):
        find_races(body)


def product(**fields: int) -> Instruction:
    """c at 0, a at 100, b at 200: 4 by 4 by 4."""
    sizes = {"m": 4, "n0": 4, "k0": 4, "a_base": 100, "b_base": 200, "c_base": 0}
    strides = {"a_m": 4, "a_k0": 1, "b_k0": 4, "b_n0": 1, "c_m": 4, "c_n0": 1}
    return make(Opcode.MATMUL, **{**sizes, **strides, **fields})


PRODUCT_AT = 1 + len(_to_all(Unit.VECTOR))


def forwarding(*after: Instruction, **fields: int) -> Program:
    return case(
        fill(0, size4=400), *_to_all(Unit.VECTOR), product(forward=1, signal0=1, **fields), *after
    )


def test_a_forwarding_product_orders_its_result_before_the_vector_instruction_that_takes_it() -> (
    None
):
    assert assert_as_the_oracle(forwarding(copy(0, 0, 16, wait0=1))) == set()
    assert found(forwarding(copy(0, 0, 16), wait(Unit.VECTOR, 1))) != set()


def test_a_forwarding_product_still_reads_its_factors_while_its_result_is_taken() -> None:
    raced = assert_as_the_oracle(forwarding(copy(0, 100, 16, wait0=1)))
    assert raced == {("WAR", PAD, (0, PRODUCT_AT), (0, PRODUCT_AT + 1))}
    after = (copy(0, 300, 16, wait0=1), copy(300, 100, 16))
    assert assert_as_the_oracle(forwarding(*after)) == set()


def test_a_forwarding_product_orders_nothing_before_another_unit() -> None:
    raced = assert_as_the_oracle(forwarding(store(1, 0, 16, wait0=1)))
    assert raced == {("RAW", PAD, (0, PRODUCT_AT), (0, PRODUCT_AT + 1))}


def test_what_the_vector_unit_signals_next_covers_the_forwarding_product() -> None:
    after = (copy(0, 300, 16, wait0=1, signal0=2), load(0, 100, 16, wait0=2))
    assert assert_as_the_oracle(forwarding(*after)) == set()


def test_a_bias_is_read_in_the_trip_of_the_epilogue_alone() -> None:
    """The bias is loaded side by side with the product: a race only where the epilogue applies."""
    fields = {"bias_base": 300, "bias_axis": 2}
    filled = (fill(0, size4=400), *_to_all(Unit.VECTOR))
    for when, raced in ((When.NEVER, False), (When.ALWAYS, True)):
        body = (*filled, load(0, 300, 4), product(epilogue=int(when), **fields))
        assert bool(assert_as_the_oracle(case(*body))) is raced


@pytest.mark.parametrize(("when", "raced"), [(When.BY_LEVEL, False), (When.ALWAYS, True)])
def test_a_bias_is_read_in_the_last_trip_of_its_reduction(when: When, raced: bool) -> None:
    """It comes side by side with the product of the first trip, which is done before the second."""
    fields = {"bias_base": 300, "bias_axis": 2, "epilogue": int(when), "k_level": 0}
    body = (
        load(0, 300, 4, dst_step0=100, dst_level0=0, signal0=1),
        product(**fields),
        wait(Unit.MATRIX, 1),
    )
    program = case(fill(0, size4=500), *_to_all(Unit.VECTOR), *loop(2, *body))
    assert bool(assert_as_the_oracle(program)) is raced


def test_a_side_that_no_stage_uses_is_not_read() -> None:
    fields = {"src_base": 100, "dst_base": 100, "side0_base": 0, "side1_base": 32, "size4": 8}
    fields |= {f"{name}_stride4": 1 for name in ("dst", "src", "side0", "side1")}
    filled = (fill(0, size4=400), *_to_all(Unit.VECTOR))
    chain = make(Opcode.CHAIN, **fields, stage0_kind=int(StageKind.WITH1))
    assert assert_as_the_oracle(case(*filled, load(0, 0, 8), chain)) == set()
    assert len(assert_as_the_oracle(case(*filled, load(0, 32, 8), chain))) == 1


def test_padding_is_written_by_a_load_and_not_read_by_a_store() -> None:
    """16 elements at 56 of 64: the upper 8 are outside of the tensor."""
    filled = (fill(0, size4=64), *_to_all(Unit.VECTOR))
    assert find_races(case(*filled, store(1, 0, 16, coord0=56), fill(8))) == ()
    assert find_races(case(*filled, store(1, 0, 16, coord0=56), fill(7))) != ()
    assert find_races(case(load(0, 0, 16, coord0=56), fill(15))) != ()


def test_a_mask_writes_what_lies_outside_alone() -> None:
    mask = make(Opcode.MASK, size4=8, dst_stride4=1, coord4=4, extent4=8)
    assert assert_as_the_oracle(case(load(0, 0, 4), mask)) == set()
    assert len(assert_as_the_oracle(case(load(0, 0, 5), mask))) == 1


def test_every_pair_is_reported_once_and_no_more_than_asked_for() -> None:
    body = case(*loop(50, load(0, 0, 8), fill(0)))
    kinds = [(race.kind, race.first.index, race.second.index) for race in find_races(body)]
    assert kinds == [("WAW", 1, 2), ("WAW", 2, 1)]
    assert len(find_races(body, limit=1)) == 1
    with pytest.raises(ProgramError, match="limit 0"):
        find_races(body, limit=0)


def test_a_deadlock_names_the_instruction_that_waits() -> None:
    with pytest.raises(
        ProgramError, match=r"core 0, instruction 0 \(LOAD\): waits for .* deadlock"
    ):
        find_races(case(load(0, 0, 8, wait0=1), fill(32, signal0=1)))


def test_memory_and_work_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    body = case(*loop(100, load(0, 0, 8)))
    monkeypatch.setattr(races, "EXECUTED_LIMIT", 100)
    assert find_races(body) == ()
    monkeypatch.setattr(races, "EXECUTED_LIMIT", 99)
    with pytest.raises(ProgramError, match="core 0 executes more than 99 instructions"):
        find_races(body)
    monkeypatch.setattr(races, "SHADOW_LIMIT_BYTES", 4 * (4 * 4096 + 2 * 64) - 1)
    with pytest.raises(ProgramError, match="more than 66047; choose smaller tiles"):
        find_races(body)
