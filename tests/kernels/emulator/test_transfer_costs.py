"""What a LOAD, GATHER or STORE moves, each in closed form: bursts, rows, padding, formats."""

from __future__ import annotations

import pytest

from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Role
from tests.targets.machine_case import PLAIN, alone, counted, load, make, store, tensor

DISPATCH, SETUP, BURST, MISS = 1, 20, 8, 30


def gather(*sizes: int, **fields: int) -> Instruction:
    reach, rows = 1, {}
    for d in range(len(sizes) - 1, -1, -1):
        rows |= {f"size{d}": sizes[d], f"dst_stride{d}": reach}
        reach *= sizes[d]
    return make(Opcode.GATHER, **{"tensor": 0, **rows, **fields})


@pytest.mark.parametrize(
    ("hop", "bursts"), [(1, 2), (2, 4), (-1, 2), (8, 16), (16, 32), (17, 32), (0, 1)]
)
def test_a_gathered_row_reads_every_burst_that_it_meets_once(hop: int, bursts: int) -> None:
    """32 elements, 16 to a burst, from the tensor's first (or, backwards, 32nd) element on."""
    one = gather(32, hop0=hop, coord0=31 if hop < 0 else 0)
    found = counted(one, tensors=(tensor("x", 4096),))
    rows = 31 * abs(hop) * 4 // 1024 + 1
    assert found["dram_read_bursts"] == bursts
    assert found["dram_row_misses"] == rows
    assert found["cycles"] == DISPATCH + SETUP + MISS + bursts * BURST
    assert found["scratchpad_load_write_bytes"] == found["dram_read_useful_bytes"] == 4 * 32
    assert found["padding_bytes"] == 0


def test_a_plain_gather_costs_what_a_load_does() -> None:
    row = tensor("x", 20, 48)
    rectangle = {"coord0": 3, "coord1": -8}
    gathered = counted(gather(5, 40, **rectangle), tensors=(row,))
    loaded = counted(
        make(Opcode.LOAD, tensor=0, size0=5, size1=40, dst_stride0=40, dst_stride1=1, **rectangle),
        tensors=(row,),
    )
    kinds = {"executed_load", "executed_gather"}
    assert {n: v for n, v in gathered.items() if n not in kinds} == {
        n: v for n, v in loaded.items() if n not in kinds
    }


def test_a_gathered_column_opens_a_row_for_each_element() -> None:
    """Rows of 1 KiB in 4 banks: 8 elements take two rounds of opening."""
    column = counted(gather(8, 1), tensors=(tensor("x", 8, 256),))
    assert (column["dram_read_bursts"], column["dram_row_misses"]) == (8, 8)
    assert column["cycles"] == DISPATCH + SETUP + 2 * MISS + 8 * BURST


def test_windows_that_overlap_want_more_than_they_read() -> None:
    """im2col of a row of 16: 3 taps of 14 places lie in one burst each."""
    found = counted(gather(3, 14, axis0=0, axis1=0), tensors=(tensor("x", 16),))
    assert found["dram_read_bursts"] == 1
    assert found["dram_read_useful_bytes"] == 4 * 3 * 14


def test_what_a_gather_finds_outside_is_padding() -> None:
    """Coordinates −4 to 27 by 2: 14 of 16 are inside of 24, but for the two that are negative."""
    found = counted(gather(16, coord0=-4, hop0=2), tensors=(tensor("x", 24),))
    assert found["padding_bytes"] == 4 * (2 + 2)
    assert found["dram_read_useful_bytes"] == 4 * 12
    nothing = counted(gather(16, coord0=24), tensors=(tensor("x", 24),))
    assert (nothing["dram_reads"], nothing["padding_bytes"]) == (0, 64)
    assert nothing["cycles"] == DISPATCH + SETUP + 16 // 8


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.GATHER])
@pytest.mark.parametrize("stored", Format)
@pytest.mark.parametrize("held", Format)
def test_reads_move_the_tensors_format_and_write_the_scratchpads(
    opcode: Opcode, stored: Format, held: Format
) -> None:
    row = make(opcode, tensor=0, size0=256, dst_stride0=1, format=int(held))
    found = counted(row, tensors=(tensor("x", 4096, format=stored),))
    assert found["dram_read_bytes"] == found["dram_read_useful_bytes"] == 256 * stored.bytes
    assert found["scratchpad_load_write_bytes"] == 256 * held.bytes
    assert found["padding_bytes"] == 0
    assert found["cycles"] == DISPATCH + SETUP + MISS + 4 * stored.bytes * BURST


@pytest.mark.parametrize("stored", Format)
@pytest.mark.parametrize("held", Format)
def test_stores_read_the_scratchpads_format_and_move_the_tensors(
    stored: Format, held: Format
) -> None:
    y = tensor("y", 4096, role=Role.OUTPUT, format=stored)
    found = alone(store(0, 0, 256, format=int(held)), tensors=(y,))
    assert found["dram_write_bytes"] == found["dram_write_useful_bytes"] == 256 * stored.bytes
    assert found["scratchpad_store_read_bytes"] == 256 * held.bytes
    assert found["energy_dram_write_fj"] == 256 * stored.bytes * PLAIN.energy.dram_write_byte_fj


@pytest.mark.parametrize("format", [Format.BF16, Format.INT8])
def test_padding_of_a_narrow_load_counts_its_own_bytes(format: Format) -> None:
    found = counted(load(0, 0, 80, coord0=-80, format=int(format)), tensors=(tensor("x", 99),))
    assert found["padding_bytes"] == found["scratchpad_load_write_bytes"] == 80 * format.bytes
    assert found["cycles"] == DISPATCH + SETUP + -(-80 * format.bytes // (8 * 4))
