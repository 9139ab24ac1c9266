"""What an instruction of the vector or matrix unit costs, each in closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import (
    BinaryFn,
    CostClass,
    ElementwiseFn,
    ReduceFn,
    StageKind,
    UnaryFn,
    When,
)
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from tests.targets.machine_case import FILLED, PLAIN, alone, counted, fill, loop, make

DISPATCH, LANES, VECTOR_SETUP, DIVIDE, TRANSCENDENTAL = 1, 8, 3, 4, 6
ROWS, COLS, MATRIX_SETUP = 4, 8, 5
FILLING = DISPATCH + VECTOR_SETUP + FILLED // LANES


def chain(*stages: tuple[StageKind, int], elements: int = 64, **fields: int) -> Instruction:
    rows: dict[str, int] = {}
    for i, (kind, fn) in enumerate(stages):
        rows |= {f"stage{i}_kind": int(kind), f"stage{i}_fn": int(fn)}
    strides = {f"{name}_stride4": 1 for name in ("dst", "src", "side0", "side1")}
    return make(Opcode.CHAIN, **{"size4": elements, **strides, **rows, **fields})


RELU = (StageKind.UNARY, UnaryFn.RELU)
EXP = (StageKind.UNARY, UnaryFn.EXP)
ADD0, DIV1 = (StageKind.WITH0, BinaryFn.ADD), (StageKind.FROM1, BinaryFn.DIV)


@pytest.mark.parametrize(
    ("stages", "slowest", "sides"),
    [
        ((RELU,), 1, 0), ((RELU, RELU), 1, 0), ((RELU, EXP, RELU), TRANSCENDENTAL, 0),
        ((ADD0, DIV1), DIVIDE, 2), ((ADD0, DIV1, ADD0, EXP), TRANSCENDENTAL, 2), ((), 1, 0),
    ],
)  # fmt: skip
def test_a_chain_costs_one_pass_of_its_slowest_stage(
    stages: tuple[tuple[StageKind, int], ...], slowest: int, sides: int
) -> None:
    found = alone(chain(*stages))
    running = max(1, len(stages)) - 1  # until the last stage has its first pass
    assert found["cycles"] == VECTOR_SETUP + running + 64 // LANES * slowest
    assert found["vector_busy_cycles"] == found["cycles"]
    assert found["scratchpad_vector_read_bytes"] == 4 * 64 * (1 + sides)
    assert found["scratchpad_vector_write_bytes"] == 4 * 64
    assert (found["vector_passes"], found["vector_slots"]) == (8, 64)


PASS_CYCLES = {
    CostClass.SIMPLE: 1,
    CostClass.DIVIDE: DIVIDE,
    CostClass.TRANSCENDENTAL: TRANSCENDENTAL,
}


@pytest.mark.parametrize("fn", [*UnaryFn, *BinaryFn], ids=lambda fn: fn.name.lower())
def test_a_function_takes_as_many_cycles_as_the_cost_model_counts(fn: ElementwiseFn) -> None:
    kind = StageKind.UNARY if isinstance(fn, UnaryFn) else StageKind.WITH0
    passes = 64 // LANES * PASS_CYCLES[fn.row.cost]
    assert alone(chain((kind, fn)))["cycles"] == VECTOR_SETUP + passes


def test_a_chain_saves_the_traffic_of_what_lies_between() -> None:
    stages = (RELU, EXP, DIV1)
    fused = alone(chain(*stages))
    body = [chain(stage) for stage in stages]
    apart = counted(fill(0, size4=FILLED), *body)
    assert fused["energy_vector_element_fj"] == 64 * PLAIN.energy.vector_fj * (
        1 + TRANSCENDENTAL + DIVIDE
    )
    assert fused["vector_simple_elements"] == fused["vector_divide_elements"] == 64
    assert apart["scratchpad_read_bytes"] == 4 * 64 * 4
    assert fused["scratchpad_read_bytes"] == 4 * 64 * 2
    separate = 3 * VECTOR_SETUP + 8 * (1 + TRANSCENDENTAL + DIVIDE)
    assert apart["cycles"] == FILLING + separate
    assert fused["cycles"] == VECTOR_SETUP + 2 + 8 * TRANSCENDENTAL


def test_conflicts_of_a_chains_side_operand_hold_every_pass() -> None:
    found = alone(chain(ADD0, EXP, side0_stride4=4))
    assert found["vector_stall_bank_cycles"] == 8 * TRANSCENDENTAL * 3
    unused = alone(chain(EXP, side0_stride4=4))
    assert unused["vector_stall_bank_cycles"] == 0


def online(rows: int, columns: int, **fields: int) -> Instruction:
    return make(
        Opcode.ONLINE, **{
            "size0": rows, "size1": columns, "dst_stride0": columns, "dst_stride1": 1,
            "src_stride0": columns, "src_stride1": 1, "state_base": 1900, "state_stride0": 3,
            **fields,
        },
    )  # fmt: skip


@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (4, 16), (3, 11), (5, 1)])
def test_online_passes_for_the_maximum_and_for_the_exponentials(rows: int, columns: int) -> None:
    found = alone(online(rows, columns))
    scores = rows * columns
    passes = -(-scores // LANES)
    assert found["cycles"] == VECTOR_SETUP + passes * (1 + TRANSCENDENTAL)
    assert found["vector_simple_elements"] == scores
    assert found["vector_transcendental_elements"] == scores
    assert found["vector_passes"] == 2 * passes
    assert found["scratchpad_vector_read_bytes"] == 2 * 4 * scores
    assert found["scratchpad_vector_write_bytes"] == 4 * (scores + 3 * rows)


@pytest.mark.parametrize(
    ("when", "continued"), [(When.NEVER, 0), (When.ALWAYS, 6), (When.BY_LEVEL, 4)]
)
def test_online_reads_the_state_where_it_continues(when: When, continued: int) -> None:
    """2 · 3 trips, of which the first of each 3 begins anew by level."""
    body = online(4, 16, accumulate=int(when), k_level=1)
    found = counted(fill(0, size4=FILLED), *loop(2, *loop(3, body, level=1)))
    assert found["scratchpad_vector_read_bytes"] == 6 * 2 * 4 * 64 + continued * 2 * 4 * 4


@pytest.mark.parametrize("divide", [0, 1])
@pytest.mark.parametrize("source", Format)
@pytest.mark.parametrize("target", Format)
def test_convert_reads_and_writes_its_formats(divide: int, source: Format, target: Format) -> None:
    found = alone(
        make(
            Opcode.CONVERT, size4=64, dst_stride4=1, src_stride4=1, divide=divide,
            src_format=int(source), dst_format=int(target),
        )
    )  # fmt: skip
    assert found["cycles"] == VECTOR_SETUP + 8 * (DIVIDE if divide else 1)
    assert found["scratchpad_vector_read_bytes"] == 64 * source.bytes
    assert found["scratchpad_vector_write_bytes"] == 64 * target.bytes


@pytest.mark.parametrize(("format", "ways"), [(Format.FP32, 4), (Format.BF16, 2), (Format.INT8, 1)])
def test_narrow_neighbours_share_a_bank_without_conflict(format: Format, ways: int) -> None:
    """A stride of 4 elements is 4, 2 or 1 words."""
    found = alone(
        make(
            Opcode.CONVERT, size4=64, dst_stride4=1, src_stride4=4, src_format=int(format),
            dst_format=int(Format.FP32),
        )
    )  # fmt: skip
    assert found["vector_stall_bank_cycles"] == 8 * (ways - 1)


def test_a_reduction_writes_its_results_and_reads_them_where_it_adds() -> None:
    sums = make(Opcode.REDUCE, fn=int(ReduceFn.SUM), size3=8, size4=16, src_stride3=16,
                src_stride4=1, dst_stride3=1, dst_base=1900)  # fmt: skip
    plain, added = alone(sums), alone(sums.replace(accumulate=1))
    assert plain["scratchpad_vector_write_bytes"] == added["scratchpad_vector_write_bytes"] == 32
    assert plain["scratchpad_vector_read_bytes"] == 4 * 128
    assert added["scratchpad_vector_read_bytes"] == 4 * 128 + 32


def product(m: int, n: int, k: int, **fields: int | float) -> Instruction:
    return make(
        Opcode.MATMUL, **{
            "m": m, "n0": n, "k0": k, "a_m": k, "a_k0": 1, "b_k0": n, "b_n0": 1,
            "c_base": 2048, "c_m": n, "c_n0": 1, **fields,
        },
    )  # fmt: skip


def blocks(size: int, block: int) -> list[int]:
    """Extents of the blocks that a dimension is cut into."""
    return [min(block, size - at) for at in range(0, size, block)]


def walked(dataflow: str, m: int, n: int, k: int) -> tuple[int, int, int]:
    """Elements read and written and cycles of a product, by walking over its folds."""
    reads = writes = cycles = 0
    if dataflow == "os":
        for rows in blocks(m, ROWS):
            for cols in blocks(n, COLS):
                reads += k * (rows + cols)
                writes += rows * cols
                cycles += k + ROWS + COLS - 2
        return reads, writes, cycles
    held, streamed = (n, m) if dataflow == "ws" else (m, n)
    for cols in blocks(held, COLS):
        for i, rows in enumerate(blocks(k, ROWS)):
            sums = streamed * cols
            reads += rows * cols + streamed * rows + (sums if i else 0)
            writes += sums
            cycles += streamed + 2 * ROWS + COLS - 2
    return reads, writes, cycles


SIZES = [(1, 1, 1), (4, 8, 4), (9, 17, 13), (3, 20, 30), (16, 5, 8)]


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_each_dataflow_moves_what_its_folds_take_in_and_give(
    dataflow: str, m: int, n: int, k: int
) -> None:
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, dataflow=dataflow))
    reads, writes, cycles = walked(dataflow, m, n, k)
    found = alone(product(m, n, k), spec)
    assert found["scratchpad_matrix_read_bytes"] == 4 * reads
    assert found["scratchpad_matrix_write_bytes"] == 4 * writes
    assert found["matrix_busy_cycles"] == MATRIX_SETUP + cycles
    assert found["matrix_stream_cycles"] + found["matrix_fill_cycles"] == cycles
    assert found["matrix_setup_cycles"] == MATRIX_SETUP


NARROW = [
    (Format.BF16, Format.BF16, "bf16", 2), (Format.INT8, Format.INT8, "int8", 1),
    (Format.UINT8, Format.INT8, "int8", 1),
]  # fmt: skip


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
@pytest.mark.parametrize(("left", "right", "name", "width"), NARROW)
def test_narrow_products_read_less_and_keep_their_cycles_at_one_per_cell(
    dataflow: str, left: Format, right: Format, name: str, width: int
) -> None:
    """Operands are narrow, sums are not: those go in and out of the array by 4 bytes."""
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, dataflow=dataflow))
    wide = alone(product(9, 17, 13), spec)
    found = alone(product(9, 17, 13, a_format=int(left), b_format=int(right)), spec)
    sums = wide["scratchpad_matrix_write_bytes"] // 4 - 9 * 17 if dataflow != "os" else 0
    operands = wide["scratchpad_matrix_read_bytes"] // 4 - sums
    assert found["scratchpad_matrix_read_bytes"] == width * operands + 4 * sums
    assert found["scratchpad_matrix_write_bytes"] == wide["scratchpad_matrix_write_bytes"]
    assert found["cycles"] == wide["cycles"]
    assert found[f"macs_{name}"] == found["macs_useful"] == 9 * 17 * 13
    price = {"bf16": PLAIN.energy.mac_bf16_fj, "int8": PLAIN.energy.mac_int8_fj}[name]
    assert found[f"energy_mac_{name}_fj"] == 9 * 17 * 13 * price
    assert found["energy_mac_fp32_fj"] == 0


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
@pytest.mark.parametrize(("left", "right", "name", "width"), NARROW)
@pytest.mark.parametrize("packed", [2, 3, 4, 64])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_a_cell_takes_neighbours_of_the_sum_at_once(
    dataflow: str,
    left: Format,
    right: Format,
    name: str,
    width: int,
    packed: int,
    m: int,
    n: int,
    k: int,
) -> None:
    """Cycles, folds and partial sums are those of a product as deep as its packs; operands are
    read element by element."""
    rate = {f"{name}_macs_per_cell": packed}
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, dataflow=dataflow, **rate))
    packs = -(-k // packed)
    reads, writes, cycles = walked(dataflow, m, n, packs)
    found = alone(product(m, n, k, a_format=int(left), b_format=int(right)), spec)
    assert found["matrix_busy_cycles"] == MATRIX_SETUP + cycles
    assert found["scratchpad_matrix_write_bytes"] == 4 * writes
    again = writes - m * n  # partial sums that come back
    assert (
        found["scratchpad_matrix_read_bytes"]
        == width * (reads_of_operands(dataflow, m, n, k, packs)) + 4 * again
    )
    assert reads_of_operands(dataflow, m, n, packs, packs) == reads - again
    assert found[f"macs_{name}"] == found["macs_useful"] == m * n * k
    assert found["macs_issued"] == packed * found["matrix_stream_cycles"] * ROWS * COLS
    assert found["energy_mac_int8_fj"] + found["energy_mac_bf16_fj"] == m * n * k * {
        "bf16": PLAIN.energy.mac_bf16_fj, "int8": PLAIN.energy.mac_int8_fj,
    }[name]  # fmt: skip
    whole = counted(
        fill(0, size4=FILLED), product(m, n, k, a_format=int(left), b_format=int(right)), spec=spec
    )
    cells = whole["cycles"] * ROWS * COLS * packed
    assert whole["matrix_utilisation_ppm"] == m * n * k * 1_000_000 // cells


def reads_of_operands(dataflow: str, m: int, n: int, k: int, packs: int) -> int:
    """Operand elements that the folds of a product of ``packs`` take in, each pack up to k / packs
    of them: every streamed one once per block across, every held one once."""
    down, across = -(-m // ROWS), -(-n // COLS)
    if dataflow == "os":
        return k * (across * m + down * n)
    held, streamed = (n, m) if dataflow == "ws" else (m, n)
    return k * (held + -(-held // COLS) * streamed)


def test_fp32_products_do_not_depend_on_the_narrow_rates() -> None:
    rates = replace(PLAIN.matrix, bf16_macs_per_cell=2, int8_macs_per_cell=64)
    word = product(9, 17, 13)
    assert alone(word, replace(PLAIN, matrix=rates)) == alone(word)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            {"a_format": int(Format.BF16), "b_format": int(Format.BF16)},
            "BF16.*FP32, INT8, UINT8.*bf16_macs",
        ),
        (
            {"a_format": int(Format.UINT8), "b_format": int(Format.INT8)},
            "UINT8.*FP32, BF16;.*int8_macs",
        ),
    ],
)
def test_a_format_that_the_array_does_not_multiply_is_refused(
    word: dict[str, int], said: str
) -> None:
    lacks = said.split(".*")[-1] + "_per_cell"
    spec = replace(PLAIN, matrix=replace(PLAIN.matrix, **{lacks: 0}))
    with pytest.raises(ProgramError, match=f"instruction 1 of core 0 multiplies {said}"):
        counted(fill(0, size4=FILLED), product(4, 8, 4, **word), spec=spec)


@pytest.mark.parametrize(
    ("when", "adding", "ending"),
    [(When.NEVER, 0, 0), (When.ALWAYS, 6, 6), (When.BY_LEVEL, 4, 2)],
)
def test_sums_bias_and_residual_are_read_in_the_trips_that_take_them(
    when: When, adding: int, ending: int
) -> None:
    """2 · 3 trips; by level, 2 of each 3 add to the sums and 1 of each 3 ends them."""
    body = product(
        4, 8, 10, accumulate=int(when), epilogue=int(when), k_level=1, bias_axis=2, adds=1,
        r_m=8, r_n0=1, c_base=1024,
    )  # fmt: skip
    found = counted(fill(0, size4=FILLED), *loop(2, *loop(3, body, level=1)))
    operands = 6 * 10 * (4 + 8)
    assert found["scratchpad_matrix_read_bytes"] == 4 * (operands + adding * 32 + ending * (8 + 32))
    assert found["scratchpad_matrix_write_bytes"] == 4 * 6 * 32
    assert found["matrix_busy_cycles"] == 6 * (MATRIX_SETUP + 10 + ROWS + COLS - 2)
