"""The DRAM channel against a published device: each timing parameter isolated by a small program.

The device is a DDR4-2400R of Ramulator 2's table at its memory clock: nCL = nRCD = nRP = 16, nBL = 4,
so that a read takes 20 clocks on a row hit, 36 on a closed row and 52 on a row conflict. Without
set-up and dispatch, these are the cycles of a load of one burst.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Role
from tests.targets.machine_case import PLAIN, counted, fill, load, make, store, tensor

CL, RCD, RP, BL = 16, 16, 16, 4
TURN = 9
"""Of no device: a number that no sum of the others makes."""
BURST = 16
"""Elements of a burst: 8 words of 64 bits."""
ROW, BANKS = 2048, 4
"""Elements of a row of a ×64 module, and fewer banks than the 16 of DDR4."""
DDR4 = replace(
    PLAIN,
    name="ddr4-2400r",
    clock_hz=1.2e9,
    dram=replace(
        PLAIN.dram, bytes_per_cycle=16.0, burst_bytes=64, row_bytes=4 * ROW, banks=BANKS,
        activate_cycles=RCD, precharge_cycles=RP, column_cycles=CL, turnaround_cycles=TURN,
        setup_cycles=0,
    ),
    control=replace(PLAIN.control, dispatch_cycles=0),
)  # fmt: skip
X = tensor("x", 4 * BANKS * ROW)
Y = tensor("y", 4 * BANKS * ROW, role=Role.OUTPUT)


def burst(first: int, elements: int = BURST, **fields: int) -> Instruction:
    """A load from element ``first`` of x on; its destination does not matter here."""
    return load(0, 0, elements, coord0=first, **fields)


def write(elements: int = BURST, **fields: int) -> Instruction:
    """A store to y, in the second bank; a burst of x from its first element on is in the first."""
    return store(1, 0, elements, coord0=ROW, **fields)


def cycles(*body: Instruction, cores: int = 1) -> int:
    """Until the last unit is done."""
    spec = replace(DDR4, cores=cores)
    return counted(*body, spec=spec, tensors=(X, Y), cores=cores, elements=1 << 15)["cycles"]


FIRST = (burst(0),)


@pytest.mark.parametrize(
    ("before", "then", "clocks"),
    [
        pytest.param((), FIRST, 36, id="closed row"),
        pytest.param(FIRST, (burst(BURST),), 20, id="row hit"),
        pytest.param(FIRST, (burst(BANKS * ROW),), 52, id="row conflict"),
        pytest.param(FIRST, (burst(ROW),), 36, id="closed row of another bank"),
        pytest.param((*FIRST, burst(BANKS * ROW)), FIRST, 52, id="row that a conflict closed"),
        pytest.param((*FIRST, burst(ROW)), FIRST, 20, id="row that another bank's left open"),
    ],
)
def test_a_read_takes_the_clocks_of_the_device(
    before: tuple[Instruction, ...], then: tuple[Instruction, ...], clocks: int
) -> None:
    """20, 36 and 52 clocks, as Ramulator 2 says for the device."""
    assert cycles(*before, *then) - cycles(*before) == clocks


@pytest.mark.parametrize(
    ("elements", "bursts"), [(1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3), (160, 10)]
)
def test_a_transfer_takes_whole_bursts(elements: int, bursts: int) -> None:
    assert cycles(burst(0, elements)) == RCD + CL + bursts * BL


@pytest.mark.parametrize(("first", "bursts"), [(0, 1), (8, 1), (9, 2), (15, 2), (16, 1)])
def test_eight_elements_across_the_edge_of_a_burst_take_two(first: int, bursts: int) -> None:
    assert cycles(burst(first, 8)) == RCD + CL + bursts * BL


def test_scattered_elements_take_a_burst_each() -> None:
    """One element of each of 10 rows of a matrix whose rows are two bursts long."""
    column = make(Opcode.LOAD, tensor=0, size0=10, size1=1, dst_stride0=1)
    found = counted(column, spec=DDR4, tensors=(tensor("x", 10, 2 * BURST),))
    assert found["cycles"] == RCD + CL + 10 * BL
    assert found["dram_read_useful_bytes"] * 16 == found["dram_read_bytes"] == 640


def test_a_write_after_a_read_turns_the_channel_around() -> None:
    """Both rows are in different banks: the write opens its own, and turns once."""
    read = burst(0, signal0=1)
    assert cycles(read, write(wait0=1)) == 36 + TURN + 36


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_each_change_between_reading_and_writing_turns(rounds: int) -> None:
    """Read, write, read, write … in open rows: 2 · rounds transfers, one turn less."""
    body = [burst(0, wait0=2, signal0=1), write(wait0=1, signal0=2)] * rounds
    found = counted(*body, spec=DDR4, tensors=(X, Y), credits=(0, 0, 1))
    assert found["cycles"] == 2 * RCD + 2 * rounds * (CL + BL) + (2 * rounds - 1) * TURN


def test_transfers_that_go_the_same_way_do_not_turn() -> None:
    assert cycles(fill(0, size4=BURST), *[write()] * 5) == RCD + 5 * (CL + BL)


@pytest.mark.parametrize("bursts", [1, 4, 16])
def test_a_core_moves_while_another_one_waits_for_its_column(bursts: int) -> None:
    """The channel is free while the first core's last word is on its way: its latency is hidden."""
    alone = cycles(burst(0, bursts * BURST))
    assert alone == RCD + CL + bursts * BL
    assert cycles(burst(0, bursts * BURST), cores=2) == alone + bursts * BL


def test_a_load_and_a_store_of_one_core_share_the_channel() -> None:
    """The store comes second, so that it waits for the load's bursts, turns, and opens its row."""
    found = counted(burst(0, 8 * BURST), write(8 * BURST), spec=DDR4, tensors=(X, Y))
    granted = RCD + 8 * BL
    assert found["store_stall_channel_cycles"] == granted
    assert found["cycles"] == granted + TURN + RCD + 8 * BL + CL


def test_as_many_rows_as_banks_open_together() -> None:
    assert cycles(burst(0, BANKS * ROW)) == RCD + CL + BANKS * ROW // BURST * BL
    assert cycles(burst(0, 2 * BANKS * ROW - BURST)) == (
        2 * RCD + RP + CL + (2 * BANKS * ROW // BURST - 1) * BL
    )
